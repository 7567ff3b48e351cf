"""Merges of checkpoints: linear and TIES."""
