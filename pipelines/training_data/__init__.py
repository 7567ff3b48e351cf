"""Gold samples → shards → mixture → rows in training order."""
