"""Raw data in, training shards out: the store, one adapter per source, derivers, mixture, shards, reader."""
