"""All that changes during a run of RL, kept in one file that is replaced whole: a killed run goes on exactly where it
was last saved, or from the beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pipelines.whole_files import sync, whole_file
from trainer.rl.learner import Learner


class StateFile:
    """`identity`: what a saved state must have been made with to be gone on from; one of another run is passed over,
    and later written over. Without a path nothing is kept."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path, self.identity = path, identity

    def save(self, learner: Learner, **rest: object) -> None:
        """The learner's state and what else there is to keep (plain data and tensors), on the disk when this
        returns."""
        if self.path is None:
            return
        with whole_file(self.path, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save({"identity": self.identity, "learner": learner.state(), **rest}, stream)
        sync(self.path.parent)

    def load(self, learner: Learner) -> dict[str, Any] | None:
        """What else was saved, after the learner has its state; None if there is none of this run."""
        if self.path is None or not self.path.is_file():
            return None
        saved: dict[str, Any] = torch.load(self.path, weights_only=True, map_location="cpu")
        if saved["identity"] != self.identity:
            return None
        learner.load(saved["learner"])
        return {key: value for key, value in saved.items() if key not in ("identity", "learner")}

    def forget(self) -> None:
        """The run is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
