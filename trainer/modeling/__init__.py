"""The model: built, loaded, saved, run forward and sampled from, and the batches that it reads."""
