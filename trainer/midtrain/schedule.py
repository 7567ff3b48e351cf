"""What changes along a run: learning rate, width of coordinate targets, mixture of the rows."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.data.row_sources import RowSource
from trainer.data.stream import ScheduledSource
from trainer.settings.supervised import MidtrainConfig


def learning_rate(step: int, config: MidtrainConfig) -> float:
    """Linear warm-up, then a cosine to `final_lr_share` of the peak at the last step."""
    if step < config.warmup_steps:
        # step + 1: at a rate of 0 the first batch would be wasted
        return config.learning_rate * (step + 1) / config.warmup_steps
    # max_steps - 1: the last step that is done has `final_lr_share` exactly
    progress = (step - config.warmup_steps) / max(1, config.max_steps - 1 - config.warmup_steps)
    low = config.final_lr_share
    return config.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def sigma_at(step: int, config: MidtrainConfig) -> float:
    """Width of coordinate targets at a step: geometric from first to last."""
    first, last = config.sigma
    if first <= 0 or last <= 0:
        return 0.0
    # widths shrink by a factor a step: as many steps from 60 to 30 units as from 30 to 15
    return first * (last / first) ** (step / max(1, config.max_steps - 1))


def scheduled(source: RowSource, config: MidtrainConfig, rows: Sequence[Mapping[str, Any]]) -> RowSource:
    """The source by `config.schedule` (none: as it is); `rows` are all that it gives, without their pictures."""
    if not config.schedule:
        return source
    # rows that the run will ask for; packed, a batch counts sequences, which hold several rows
    wanted = config.max_steps * config.batch_size
    if config.packing:
        mean = sum(int(row["tokens"]) for row in rows) / max(1, len(rows))
        wanted = max(1, round(wanted * config.max_length / max(1.0, mean)))
    counts = Counter(str(row["objective"]) for row in rows)
    return ScheduledSource(source, config.schedule, counts, wanted, seed=config.seed)
