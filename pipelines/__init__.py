"""Raw data in, training shards out. In the order of the flow:

`raw` pulls and names native files, `native` reads their forms, `sources` has an adapter for each dataset (`suites` for
each benchmark) made of what `mapping` offers, `unify` runs them, `derivers` make samples, `training_data` packs, mixes
and reads these. `prompts` has the wording, `store` keeps it all, `takedown` takes records out again.
"""

import os

# Arrow's allocator reads this when it loads. By default it returns freed pages to the system after 10 ms and faults
# them in again for the next batch, an eighth of unify's CPU time; ten seconds cost 40 MB of peak memory.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")
