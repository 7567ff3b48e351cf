"""What offline and online RL share: rewards, GRPO, and the learner."""
