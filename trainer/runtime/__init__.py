"""A training run: processes, precision, memory, determinism, resumable state and metrics."""
