"""Offline RL: specialists from stored steps and episodes."""
