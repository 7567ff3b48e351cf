"""Which families online RL trains on: those that its start sometimes solves. A group that is always or never solved has
no comparison, and in a short time the rollouts for it are lost to the others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generators.generation.contract import Contract
from trainer.staircase.choice import OnEvent, write_json
from trainer.staircase.config import StaircaseConfig
from trainer.staircase.early_stop import LIMITS
from trainer.staircase.tasks import family_of, nano_pool

SCREENED, EPISODES = "screened.json", "screening"


def screen(
    start: str | Path, contracts: Sequence[Contract], config: StaircaseConfig, folder: str | Path,
    on_event: OnEvent | None = None,
) -> dict[str, float]:  # fmt: skip
    """Try every contract `config.screen_attempts` times at temperature 1 with the checkpoint in `start` → share of
    successes (0..1) by family.

    It is written to `folder` and read from there the next time; a run that was killed goes on. Attempts that an
    infrastructure failure ended don't count; a family of which none counts has no share.
    """
    from trainer.checkpoint import load_checkpoint
    from trainer.suites.worlds import world_success

    home = Path(folder)
    if (home / SCREENED).is_file():
        known: dict[str, float] = json.loads((home / SCREENED).read_text(encoding="utf-8"))
        return known
    records: list[dict[str, Any]] = world_success(
        load_checkpoint(start), contracts, nano_pool(config.workers), attempts=config.screen_attempts, temperature=1.0,
        limits=LIMITS, workers=config.workers, seeds=(config.seed,), folder=home / EPISODES, cluster=family_of,
        max_new_tokens=config.max_new_tokens, on_event=on_event,
    )["records"]  # fmt: skip
    ended = defaultdict(list)
    for record in records:
        if record["success"] is not None:
            ended[record["cluster"]].append(bool(record["success"]))
    shares = {family: sum(found) / len(found) for family, found in sorted(ended.items())}
    write_json(home / SCREENED, shares)
    return shares


def worth_training(shares: Mapping[str, float], least: int) -> list[str]:
    """The families solved sometimes; all of them, if fewer than `least` are."""
    sometimes = sorted(family for family, share in shares.items() if 0 < share < 1)
    return sometimes if len(sometimes) >= least else sorted(shares)
