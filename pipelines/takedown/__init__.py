"""Records withdrawn: out of raw files, tables, screens, caches and shards, with the proof that nothing is left."""
