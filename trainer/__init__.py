"""From shards to checkpoints: mid-training, offline and online RL, merging, evaluation. Modules load on use.

`stages` are the assets; `data` makes batches, `modeling` has the model, `midtrain`, `offline` and `online` (with `rl`)
train it, `merging` joins specialists, `evaluation` and `suites` measure, `serving` answers, `runtime` is what any run
needs. `staircase` is the whole way in miniature, `nano_base` the weights that it starts from.
"""

import os

# A thread that waits for work spins a moment and then sleeps. By default it spins for milliseconds, which on a shared
# machine steals the time of the thread it waits for (steps ten times longer); on an idle one this costs nothing. Read
# once, when torch loads OpenMP; whoever set it keeps their choice.
os.environ.setdefault("GOMP_SPINCOUNT", "30000")
