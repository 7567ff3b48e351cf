"""vLLM as the rollout engine: tokens in and out, and new weights after every update."""
