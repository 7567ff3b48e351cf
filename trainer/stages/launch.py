"""Stages under torchrun: the first rank runs them as ever and writes the store, the others follow it into training.

    torchrun --nproc-per-node N -m dagster_project.cli train STAGE… --home DIR

Mid-training and the steps of RL are done by all ranks. The others build the same model, without weights. In
mid-training they read the same rows from the store, which they never write; in RL the first rank samples, alone or by
servers, and the others do what its learner does (`Learner.follow`). They leave the stage where training ends and wait
for the next.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pipelines.store import Store
from trainer.modeling.adapters import add_adapters
from trainer.modeling.checkpoint import load_checkpoint
from trainer.rl.engines import learner_class
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import NotTrained, Ranks, hollow_models, launched, ranks
from trainer.runtime.tracking import OnEvent
from trainer.settings.offline import OfflineConfig
from trainer.settings.online import OnlineConfig
from trainer.settings.stages import STAGES
from trainer.stages.context import Context
from trainer.stages.online import online_config
from trainer.stages.run import opened, stage_function

T = TypeVar("T")
Led = Callable[[OnEvent | None], OnEvent]


class _Trained(Exception):
    """Training is over: the rest of the stage is the first rank's."""


def lead(group: Ranks, on_event: OnEvent | None) -> OnEvent:
    """The first rank's `on_event`: also calls the others to a stage, and off if it was made before."""
    # Nothing is being trained before the first stage.
    trained = True

    def event(found: dict[str, Any]) -> None:
        nonlocal trained
        # Only stages that all ranks train call the others.
        if found["kind"] == "stage" and found["stage"] in STAGES and STAGES[found["stage"]].shared:
            group.broadcast(("stage", found["stage"]))
            trained = False
        elif found["kind"] == "trained":
            trained = True
        # Made before: the others wait for training that won't come.
        elif found["kind"] == "committed" and not trained:
            group.broadcast(("stop", None))
            trained = True
        if on_event is not None:
            on_event(found)

    return event


def on_ranks(
    home: str | Path,
    config: Mapping[str, object],
    run: Callable[[Led], T],
    *,
    device: str = "",
    failed: Callable[[Exception], None] = lambda error: None,
) -> T | None:
    """Under torchrun: the first rank calls `run`, and the others train along in the stages that it runs; → what `run`
    gave, None on the others. `run` is given what makes an `on_event` one that the others hear of. `device`: see
    `launched`. `failed` gets what ends another rank, before the first one loses it, which would be its reason."""
    with launched(device) as group:
        if not group.first:
            # What went wrong here is told before the first rank sees only a lost connection.
            try:
                follow(group, home, config)
            except Exception as error:
                failed(error)
                raise
            return None
        found = run(partial(lead, group))
        group.broadcast(("end", None))
        return found


def follow(group: Ranks, home: str | Path, config: Mapping[str, object]) -> None:
    """What every rank but the first does: train along until there is no stage left."""
    while True:
        order, stage = group.broadcast(None)
        if order == "end":
            return
        # A folder of its own: the store's is the first rank's to write.
        with tempfile.TemporaryDirectory(prefix="vesper-rank-") as scratch:
            try:
                _train_along(stage, home, config, Path(scratch))
            # Training is over, or there was none: wait for the next stage.
            except (_Trained, NotTrained):
                continue


def _train_along(stage: str, home: str | Path, config: Mapping[str, object], scratch: Path) -> None:
    def event(found: Mapping[str, object]) -> None:
        if found["kind"] == "trained":
            raise _Trained

    store = Store(home)
    inputs, settings = opened(store, stage, config)
    context = Context(store, stage, settings, inputs, event, scratch, False)
    # Built without weights: the first rank sends them.
    with hollow_models():
        if context.entry.section:
            return _learn_along(context)
        stage_function(stage)(context, scratch)
    raise RuntimeError(f"{stage}: expected its training to be shared among ranks, but it has none")


def _learn_along(context: Context) -> None:
    """What the first rank's learner does, until RL of the stage is over."""
    settings: OfflineConfig | OnlineConfig = (
        context.settings.offline.of_domain(context.domain)
        if context.entry.section == "offline"
        else online_config(context)
    )
    loaded = load_checkpoint(context.start)
    with deterministic(ranks().device, settings.threads):
        if settings.lora.rank:
            add_adapters(loaded.model, settings.lora, settings.seed)
        learner_class(settings)(loaded.model, loaded.processor, settings).follow()
