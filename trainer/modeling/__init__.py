"""The model: built, loaded, saved, run forward, and sampled from."""
