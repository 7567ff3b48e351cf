"""A finished stage of the staircase: a folder with its checkpoint, made once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.whole_files import put_json
from trainer.modeling.tensors import WeightFiles
from trainer.proving.staircase.stopwatch import Stopwatch
from trainer.runtime.tracking import OnEvent

DONE = "done.json"
MODEL, STATE = "model", "state"


@dataclass(frozen=True)
class FinishedStage:
    """A finished stage: its checkpoint, and how long it took over all tries."""

    name: str
    model: Path
    seconds: float
    facts: Mapping[str, Any]


def weights_of(stage: FinishedStage) -> str:
    """Digest of a stage's weights."""
    # Folders of older runs may not note them.
    return str(stage.facts.get("weights") or WeightFiles(stage.model).digest())


def made_once(
    folder: Path, name: str, key: str, make: Callable[[Path, Stopwatch], dict[str, Any]], budget_s: float, emit: OnEvent
) -> FinishedStage:
    """The stage as it lies in `folder` under its name and key, or made now: `make` fills the folder of a checkpoint
    and returns the stage's facts; `budget_s` is the time that it has, 0 for all that it takes."""
    home = folder / f"{name}-{key[:12]}"
    done = home / DONE
    if not done.is_file():
        watch = Stopwatch(home / "clock.json", budget_s)
        emit({"kind": "stage", "stage": name})
        facts = make(home / MODEL, watch)
        watch.write()
        # After `make`: the digest is that of the files as they lie on the disk.
        weights = WeightFiles(home / MODEL).digest()
        # Written last: a killed stage has no such file, and is gone on with.
        # "told" is its name in folders of older runs.
        put_json(done, {"key": key, "seconds": watch.seconds, "told": {**facts, "weights": weights}})
        emit({"kind": "stage_done", "stage": name, "seconds": watch.seconds})
    found = json.loads(done.read_text(encoding="utf-8"))
    return FinishedStage(name, home / MODEL, found["seconds"], found["told"])


def keep_peak(start: Path, state: Path, folder: Path, name: str, parent: str) -> list[dict[str, object]]:
    """The peak's weights of an offline run that the time has ended, as a checkpoint; → its looks."""
    import torch

    from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint

    saved = torch.load(state, weights_only=True, map_location="cpu")["state"]
    loaded = load_checkpoint(start)
    loaded.model.load_state_dict(saved["peak_weights"])
    save_checkpoint(
        folder,
        loaded.model,
        loaded.processor,
        lineage(
            name,
            loaded.processor.preset,
            parents={"checkpoints/start": parent},
            metrics={"updates": saved["update"], "peak_update": saved["peak_update"]},
        ),
    )
    looks: list[dict[str, Any]] = saved["looks"]
    return looks
