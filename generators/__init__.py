"""Worlds, harvesters, the embedded data, proposers and the task pool."""
