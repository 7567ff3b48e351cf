"""Rewrite, reconstruct or discard what was scored low, until nothing changes; what is gold, and how true that is."""
