"""From shards to checkpoints: mid-training, offline RL, merging, evaluation. Modules load on use."""
