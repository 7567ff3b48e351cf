"""Stages under torchrun: the first rank runs them as ever and writes the store, the others follow it into training.

    torchrun --nproc-per-node N -m trainer mid_trained --home DIR

Mid-training and the steps of RL are done by all ranks. The others build the same model, without weights. In
mid-training they read the same rows from the store, which they never write; in RL the first rank samples, alone or by
servers, and the others do what its learner does (`Learner.follow`). They leave the stage where training ends and wait
for the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.store import Store
from trainer.modeling.checkpoint import load_checkpoint
from trainer.rl.learner import Learner
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import NotTrained, Ranks, hollow_models, ranks
from trainer.runtime.tracking import OnEvent
from trainer.settings.stage_names import SHARED, SPECIALISTS
from trainer.stages.context import Context
from trainer.stages.online import online_config
from trainer.stages.run import opened, stage_function

if TYPE_CHECKING:
    from trainer.settings.grpo import LearnerConfig


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


def follow(group: Ranks, home: str | Path, config: Mapping[str, object]) -> None:
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
    def event(found: dict[str, Any]) -> None:
        if found["kind"] == "trained":
            raise _Trained

    store = Store(home)
    inputs, settings = opened(store, stage, config)
    context = Context(store, stage, settings, inputs, event, scratch, False)
    with hollow_models():
        if stage != "mid_trained":
            return _learn_along(context)
        stage_function(stage)(context, scratch)
    raise RuntimeError(f"{stage}: expected its training to be shared among ranks, but it has none")


def _learn_along(context: Context) -> None:
    """What the first rank's learner does, until RL of the stage is over."""
    start, settings, threads = _learner_of(context)
    loaded = load_checkpoint(context.folder(start))
    with deterministic(ranks().device, threads):
        Learner(loaded.model, loaded.processor, settings).follow()


def _learner_of(context: Context) -> tuple[str, LearnerConfig, int]:
    """(checkpoint that a stage of RL starts from, settings of its learner, threads)."""
    if context.stage in SPECIALISTS:
        offline = context.settings.offline.of_domain(context.domain)
        return "mid_trained", offline, offline.threads

    online = online_config(context)
    return f"offline_{context.domain}", online, online.threads
