"""Held-out figures of a checkpoint, the controls beside them, and their intervals."""
