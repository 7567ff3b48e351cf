"""Pages about the data: what a source gave, what became of it, and samples to look at."""
