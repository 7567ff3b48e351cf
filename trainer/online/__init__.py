"""Online RL on whole trajectories (docs/method.md §7): rollouts in worlds, composite rewards, trajectory-level GRPO."""
