"""Oracles: what the scripted agent asks for the next right action, one file a kind of world or path."""
