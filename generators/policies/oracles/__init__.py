"""Oracles: where the scripted agent gets the next right action, one file a kind of world or path."""
