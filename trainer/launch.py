"""Stages under torchrun: the first rank runs them as ever and writes the store, the others follow it into training.

    torchrun --nproc-per-node N -m trainer mid_trained --home DIR

Only mid-training is done by all ranks. The others build the same model, without weights, and read the same rows from
the store, which they never write; they leave the stage where training ends and wait for the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer.parallel import NotTrained, Ranks, hollow_models

SHARED = ("mid_trained",)
"""Stages whose training all ranks do."""

OnEvent = Callable[[dict[str, Any]], None]


class _Trained(Exception):
    """Training is over: the rest of the stage is the first rank's."""


def lead(group: Ranks, on_event: OnEvent | None) -> OnEvent:
    """The first rank's `on_event`: also calls the others to a stage, and off if it was made before."""
    trained = True

    def event(found: dict[str, Any]) -> None:
        nonlocal trained
        if found["kind"] == "stage" and found["stage"] in SHARED:
            group.told(("stage", found["stage"]))
            trained = False
        elif found["kind"] == "trained":
            trained = True
        elif found["kind"] == "committed" and not trained:
            group.told(("stop", None))
            trained = True
        if on_event is not None:
            on_event(found)

    return event


def dismiss(group: Ranks) -> None:
    """Tell the others that there is no stage left."""
    group.told(("end", None))


def follow(group: Ranks, home: str | Path, config: Mapping[str, Any]) -> None:
    """What every rank but the first does: train along until dismissed."""
    while True:
        order, stage = group.told(None)
        if order == "end":
            return
        with tempfile.TemporaryDirectory(prefix="vesper-rank-") as scratch:
            try:
                _train_along(stage, home, config, Path(scratch))
            except (_Trained, NotTrained):
                continue


def _train_along(stage: str, home: str | Path, config: Mapping[str, Any], scratch: Path) -> None:
    from pipelines.store import Store
    from trainer import stages

    def event(found: dict[str, Any]) -> None:
        if found["kind"] == "trained":
            raise _Trained

    store = Store(home)
    inputs = {name: store.require(name) for name in stages.inputs_of(stage)}
    context = stages.Context(store, stage, stages.stage_config(stage, config), inputs, event, scratch, False)
    with hollow_models():
        stages.stage_function(stage)(context, scratch)
    raise RuntimeError(f"{stage}: expected its training to be shared among ranks, but it has none")
