"""Which families online RL trains on: those that its start sometimes solves. A group that is always or never solved has
no comparison, and in a short time the rollouts for it are lost to the others.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from generators.tasks.task_spec import TaskSpec
from pipelines.whole_files import put_json
from trainer.modeling.checkpoint import load_checkpoint
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.early_stop import LIMITS
from trainer.proving.staircase.tasks import family_of, nano_pool
from trainer.runtime.tracking import OnEvent
from trainer.suites.worlds import world_success

SCREENED, EPISODES = "screened.json", "screening"


class Screened(NamedTuple):
    """Share of successes (0..1) by family, and what `clock` showed at the end."""

    shares: dict[str, float]
    seconds: float


def screen(
    start: str | Path,
    contracts: Sequence[TaskSpec],
    config: StaircaseConfig,
    folder: str | Path,
    clock: Callable[[], float],
    on_event: OnEvent | None = None,
) -> Screened:
    """Try every contract `config.screen_attempts` times at temperature 1 with the checkpoint in `start`. `clock`: the
    seconds that the stage has taken.

    It is written to `folder` and read from there the next time; a run that was killed goes on. Attempts that an
    infrastructure failure ended don't count; a family of which none counts has no share.
    """

    home = Path(folder)
    # A finished screening is read back, seconds included: its time counts as online RL's once.
    if (home / SCREENED).is_file():
        return Screened(**json.loads((home / SCREENED).read_text(encoding="utf-8")))
    records: list[dict[str, Any]] = world_success(
        load_checkpoint(start),
        contracts,
        nano_pool(config.workers),
        attempts=config.screen_attempts,
        temperature=1.0,
        limits=LIMITS,
        workers=config.workers,
        seeds=(config.seed,),
        folder=home / EPISODES,
        cluster=family_of,
        max_new_tokens=config.max_new_tokens,
        on_event=on_event,
    )["records"]
    ended = defaultdict(list)
    for record in records:
        if record["success"] is not None:
            ended[record["cluster"]].append(bool(record["success"]))
    made = Screened({family: sum(found) / len(found) for family, found in sorted(ended.items())}, clock())
    put_json(home / SCREENED, made._asdict())
    return made


def worth_training(shares: Mapping[str, float], least: int) -> list[str]:
    """The families solved sometimes; all of them, if fewer than `least` are."""
    # Always and never solved ones have no comparison within a group.
    sometimes = sorted(family for family, share in shares.items() if 0 < share < 1)
    # Too few families would be a run on a handful of tasks: then rather all.
    return sometimes if len(sometimes) >= least else sorted(shares)
