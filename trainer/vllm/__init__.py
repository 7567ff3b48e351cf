"""vLLM draws the replies of RL: tokens in and out, and new weights after every update."""
