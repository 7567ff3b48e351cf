"""From shards to checkpoints: mid-training, offline and online RL, merging, evaluation. Modules load on use.

From bottom to top: `presets` names the models, `runtime` is what any run needs, `statistics` compares figures;
`modeling` has the model and its batches, `data` the rows that it learns from; `rl` is what both kinds of RL share,
`serving` answers; `midtrain`, `offline` and `online` train; `merging` joins specialists, `evaluation` and `suites`
measure; `stages` makes assets of all that. `proving` holds the whole way in miniature and the building of the weights
that nano starts from. Each room imports from those below it only (`pyproject.toml` checks it).
"""

import os

# A thread that waits for work spins a moment and then sleeps. By default it spins for milliseconds, which on a shared
# machine steals the time of the thread it waits for (steps ten times longer); on an idle one this costs nothing. Read
# once, when torch loads OpenMP; whoever set it keeps their choice.
os.environ.setdefault("GOMP_SPINCOUNT", "30000")
