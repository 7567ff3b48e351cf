"""Worlds in which policies act, each with a truth of its own; `world` is what all of them can do."""
