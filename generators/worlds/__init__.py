"""Worlds in which policies act, each with a truth of its own; `tasks.world_interface` is what all of them can do."""
