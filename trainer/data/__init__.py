"""Rows to learn from: read from shards, in endless streams, clustered, and with labels of their pictures."""
