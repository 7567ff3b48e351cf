"""Worlds that tasks are proposed for: families of targets, each with its truth. Add one here."""
