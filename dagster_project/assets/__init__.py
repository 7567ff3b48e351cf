"""Dagster assets of the stages, with what they show."""
