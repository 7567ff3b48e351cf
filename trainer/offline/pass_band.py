"""Which tasks are worth a run of RL: those that the policy neither always nor never does (MagicGUI, POINTS-GUI-G).

A group whose replies all succeed, or all fail, has no advantage; tasks are tried before the run, and those outside of a
band of success are left out. What the tries show of each is written down as a grade, to be joined with the
shards' index by sample id.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trainer.modeling.generation import reply_limit
from trainer.modeling.sampler import Sampler
from trainer.offline.tasks import REPLIES, RlTask
from trainer.rl.rewards import succeeds
from trainer.settings.offline import OfflineConfig, PassBand

GRADES = "grades.parquet"


def weights_of(successes: Sequence[int], band: PassBand) -> list[float]:
    """Successes in `band.tries` tries of each task → its weight: 1 within the band, ends included, and 0 outside; of
    0/k and k/k always 0. Raises `ValueError` for more successes than tries."""
    if wrong := [count for count in successes if not 0 <= count <= band.tries]:
        raise ValueError(f"pass band: expected 0 to {band.tries} successes of {band.tries} tries, found {wrong[0]}")
    # all or none: such a group has no advantage, whatever the band says
    return [float(0 < count < band.tries and band.low <= count / band.tries <= band.high) for count in successes]


def grade_of(successes: int, tries: int) -> int:
    """How hard a task is: 1 where four of five tries succeed, 5 where hardly any does. POINTS-GUI-G publishes no form;
    the size of the target, which it may take in, told nothing of another model's errors here (docs/methods.md)."""
    return 5 - min(4, 5 * successes // tries)


def write_grades(folder: Path, tasks: Sequence[RlTask], successes: Sequence[int], tries: int) -> None:
    """`grades.parquet` of a folder: sample id, successes, tries and grade of each task."""
    found = [
        {"sample_id": str(task.row["sample_id"]), "successes": count, "tries": tries, "grade": grade_of(count, tries)}
        for task, count in zip(tasks, successes, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(found), folder / GRADES, compression="zstd")


def in_band(
    sampler: Sampler, tasks: Sequence[RlTask], config: OfflineConfig, band: PassBand
) -> tuple[list[RlTask], list[int], dict[str, int]]:
    """The tasks that the policy does often enough and not too often, in their order; the successes of all tasks; and
    how many there were at each number of successes. A pure function of weights, tasks and `config.seed`. Raises
    `ValueError` if none is left.
    """
    objective = tasks[0].truth.objective
    rewards, most = config.rewards, sampler.processor.preset.max_answer_tokens
    replies = sampler.draw(
        [task.row for task in tasks],
        group=band.tries,
        temperature=1.0,
        max_new_tokens=reply_limit(most, objective, rewards.wide, rewards.free_form),
        # an offset of its own: 17 and 29 are those of held-out and validation replies
        generator=sampler.seeded(config.seed + 41),
        batch_size=REPLIES,
    )
    done = Counter(one.row for one in replies if succeeds(one.text, tasks[one.row].truth, rewards))
    successes = [done[place] for place in range(len(tasks))]
    found = dict(sorted(Counter(f"{count}/{band.tries}" for count in successes).items()))
    chosen = [task for task, weight in zip(tasks, weights_of(successes, band), strict=True) if weight]
    if not chosen:
        raise ValueError(f"pass_band: no task of {len(tasks)} lies within {band.low} to {band.high}; found {found}")
    return chosen, successes, found
