"""Easy tasks first; the next stage opens when the last one's success passes a mark (after CRAFT-GUI).

Tasks are sorted into stages of equal size by their expected steps, those of equal steps together. CRAFT-GUI says how it
groups tasks, but not when it moves on; the mark is ours.
"""

from collections.abc import Sequence

from schemas.settings import Number, Settings, Whole, setting
from trainer.online.curricula import TaskRecord


class StagedOptions(Settings):
    """Options of `staged`."""

    stages: Whole = setting(3, "Into how many stages tasks are sorted, at most.", ge=1)
    mark: Number = setting(0.6, "Share of successes of the newest stage from which on the next one opens.", gt=0, le=1)
    tries: Number = setting(8.0, "Tries of a stage that its share is taken of, at least.", ge=1)
    review: Number = setting(0.25, "Weight of a task of an earlier stage, beside 1 of the newest.", ge=0, le=1)


def staged(records: Sequence[TaskRecord], updates: int, **options: object) -> list[float]:
    """1 in the newest open stage, `review` in those before it, 0 in those to come. Raises `ValueError` for unknown
    options."""
    config = StagedOptions.parsed(options, "curriculum staged")
    stages = _stages([one.expected_steps for one in records], config.stages)
    newest = 0
    while newest < max(stages, default=0) and _passed(records, stages, newest, config):
        newest += 1
    return [1.0 if stage == newest else config.review if stage < newest else 0.0 for stage in stages]


def _stages(steps: Sequence[int], most: int) -> list[int]:
    """The stage of each task, without gaps. A number of steps belongs where its first task falls among all."""
    order = sorted(steps)
    raw = [order.index(one) * most // len(order) for one in steps]
    place = {stage: at for at, stage in enumerate(sorted(set(raw)))}
    return [place[stage] for stage in raw]


def _passed(records: Sequence[TaskRecord], stages: Sequence[int], stage: int, config: StagedOptions) -> bool:
    own = [one for one, other in zip(records, stages, strict=True) if other == stage]
    tries = sum(one.attempts for one in own)
    return tries >= config.tries and sum(one.successes for one in own) >= config.mark * tries
