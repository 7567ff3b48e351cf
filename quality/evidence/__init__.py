"""What can be known of a step, an episode or a sample without a model."""
