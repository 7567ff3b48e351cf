"""All that changes during a run, kept in one file that is replaced whole: a killed run goes on exactly where it was
last saved, or from the beginning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from pipelines.whole_files import sync, whole_file
from trainer.rl.learner import Learner

FILE = "online_rl.pt"


@dataclass
class Progress:
    """Plain JSON data. `curve` has an event per update, `validations` one per look, `blends` one per step of the
    reference; `policy`, `reference` and `first`: successes of the last, the reference's and the first look, in the
    order of `validation_jobs`. `replay` and `collected`: what the replay buffer and the collector hold. `picture`: the
    last one of a rollout, base64."""

    update: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    blends: list[dict[str, Any]] = field(default_factory=list)
    first: list[bool | None] = field(default_factory=list)
    policy: list[bool | None] = field(default_factory=list)
    reference: list[bool | None] = field(default_factory=list)
    replay: dict[str, Any] = field(default_factory=dict)
    collected: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    elapsed_s: float = 0.0


class StateFile:
    """`identity`: what a saved state must have been made with to be gone on from; one of another run is passed over.
    Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, identity: str) -> None:
        self.path = folder / FILE if folder else None
        self.identity = identity

    def save(self, learner: Learner, progress: Progress) -> None:
        """On the disk when this returns."""
        if self.path is None:
            return
        with whole_file(self.path, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save(
                {
                    "identity": self.identity,
                    "learner": learner.state(),
                    "rng": torch.get_rng_state(),
                    "progress": json.dumps(asdict(progress)),
                },
                stream,
            )
        sync(self.path.parent)

    def load(self, learner: Learner) -> Progress | None:
        """The saved state, put into the learner; None if there is none of this run."""
        if self.path is None or not self.path.is_file():
            return None
        saved: Mapping[str, Any] = torch.load(self.path, weights_only=True, map_location="cpu")
        if saved["identity"] != self.identity:
            return None
        learner.load(saved["learner"])
        torch.set_rng_state(saved["rng"])
        return Progress(**json.loads(saved["progress"]))

    def forget(self) -> None:
        """The run is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
