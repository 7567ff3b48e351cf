"""Raw data in, training shards out: the store, one adapter per source, derivers, mixture, shards, reader."""

import os

# Arrow's allocator reads this when it loads. By default it returns freed pages to the system after 10 ms and faults
# them in again for the next batch, an eighth of unify's CPU time; ten seconds cost 40 MB of peak memory.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")
