"""Online RL on whole trajectories (METHOD §7): rollouts in worlds, composite rewards, trajectory-level GRPO."""
