"""The resumable state of a training run: one file that is replaced whole, or for several ranks a folder of parts.

`StateFile` keeps any tensors and plain data under the identity of a run; RL keeps its learner in one. `TrainingState`
keeps a model with its optimiser and the RNG: of one process in the file `state.pt`, of several ranks as a folder
`step-<n>` that torch.distributed.checkpoint reads into any number of ranks, and `state.json` that names it once all
parts are there. A state of another run (other weights, data or config) is passed over, and later written over.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pipelines.whole_files import sync, whole_file
from trainer.runtime.parallel import Ranks

SINGLE, PARTS = "state.pt", "state.json"


class StateFile:
    """`identity`: what a saved state must have been made with to be gone on from. Without a path nothing is saved."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path, self.identity = path, identity

    def save(self, **parts: object) -> None:
        """Plain data and tensors, on the disk when this returns; what lay there is replaced whole or not at all."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save({"identity": self.identity, **parts}, stream)
        sync(self.path.parent)

    def load(self, *, mmap: bool = False) -> dict[str, Any] | None:
        """The parts that were saved; None if there are none of this run. `mmap`: tensors stay in the file."""
        if self.path is None or not self.path.is_file():
            return None
        saved: dict[str, Any] = torch.load(self.path, weights_only=True, map_location="cpu", mmap=mmap)
        return saved if saved.pop("identity", None) == self.identity else None

    def forget(self) -> None:
        """The run is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class TrainingState:
    """Saves and loads; `more` is what goes along (JSON-able)."""

    def __init__(self, folder: Path | None, identity: str, group: Ranks) -> None:
        self._folder, self._identity, self._group = folder, identity, group
        self._single = StateFile(folder / SINGLE if folder else None, identity)

    def load(self, model: Any, optimiser: Any) -> dict[str, Any] | None:
        """`more` of the state that fits, after the weights are taken up; None if there is none.

        Raises `ValueError` if what lies there was left by one process and several ask for it, or the reverse.
        """
        if self._folder is None:
            return None
        alone = self._group.world == 1
        here, other = (SINGLE, PARTS) if alone else (PARTS, SINGLE)
        if not (self._folder / here).exists() and (self._single.load(mmap=True) or self._parts()):
            raise ValueError(
                f"{self._folder}: holds the state of a run of {'several ranks' if other == PARTS else 'one rank'}, "
                f"found {self._group.world} rank(s); go on with as many, or remove the folder to begin anew"
            )
        if not alone:
            return self._load_parts(model, optimiser)
        saved = self._single.load()
        if saved is None:
            return None
        model.load_state_dict(saved.pop("model"))
        optimiser.load_state_dict(saved.pop("optimiser"))
        torch.set_rng_state(saved.pop("rng"))
        return saved

    def _parts(self) -> dict[str, Any] | None:
        """What `state.json` says; None if there is none of this run."""
        assert self._folder is not None
        path = self._folder / PARTS
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found if found.get("identity") == self._identity else None

    def _load_parts(self, model: Any, optimiser: Any) -> dict[str, Any] | None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        found = self._parts()
        if found is None or self._folder is None:
            return None
        weights, moments = get_state_dict(model, optimiser)
        box: dict[str, Any] = {"model": weights, "optimiser": moments, "rng": torch.get_rng_state()}
        dcp.load(box, checkpoint_id=str(self._folder / found["parts"]))
        set_state_dict(model, optimiser, model_state_dict=box["model"], optim_state_dict=box["optimiser"])
        torch.set_rng_state(box["rng"])
        more: dict[str, Any] = found["more"]
        return more

    def save(self, model: Any, optimiser: Any, more: Mapping[str, Any]) -> None:
        """Replace what lies there, whole or not at all; every rank calls it at the same step."""
        if self._folder is None:
            return
        if self._group.world > 1:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._save_parts(model, optimiser, more)
            return
        self._single.save(model=model.state_dict(), optimiser=optimiser.state_dict(), rng=torch.get_rng_state(), **more)

    def _save_parts(self, model: Any, optimiser: Any, more: Mapping[str, Any]) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict

        assert self._folder is not None
        name = f"step-{more['step']}"
        if self._group.first:
            shutil.rmtree(self._folder / name, ignore_errors=True)  # of a run that was killed as it wrote it
        self._group.barrier()
        weights, moments = get_state_dict(model, optimiser)
        box = {"model": weights, "optimiser": moments, "rng": torch.get_rng_state()}
        dcp.save(box, checkpoint_id=str(self._folder / name))
        if self._group.first:
            with whole_file(self._folder / PARTS, lasting=True, alone=True) as part:
                part.write_text(json.dumps({"identity": self._identity, "parts": name, "more": dict(more)}), "utf-8")
            for old in self._folder.glob("step-*"):
                if old.name != name:
                    shutil.rmtree(old, ignore_errors=True)
        self._group.barrier()
