"""Checkpoints that answer: the OpenAI protocol, vLLM's rollout protocol, and as a policy in a world."""
