"""From shards to checkpoints: mid-training, offline RL, merging, evaluation. Modules load on use."""

import os

# A thread that waits for work spins a moment and then sleeps. By default it spins for milliseconds, which on a shared
# machine steals the time of the thread it waits for (steps ten times longer); on an idle one this costs nothing. Read
# once, when torch loads OpenMP; whoever set it keeps their choice.
os.environ.setdefault("GOMP_SPINCOUNT", "30000")
