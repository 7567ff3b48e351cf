"""What training data shares with evaluation suites, found before the shards are packed and again in them."""
