"""The resumable state of a training run in a folder: weights, optimiser, place in the data, RNG, curve.

One process keeps one file, `state.pt`, replaced whole. Several ranks keep a folder of parts, `step-<n>`, that
torch.distributed.checkpoint reads into any number of ranks, and `state.json` that names it once all parts are there.
A state of other weights, data or config is not taken up.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pipelines.whole_files import whole_file
from trainer.runtime.parallel import Ranks

SINGLE, PARTS = "state.pt", "state.json"


class TrainingState:
    """Saves and loads; `more` is what goes along (JSON-able)."""

    def __init__(self, folder: Path | None, digest: str, group: Ranks) -> None:
        self._folder, self._digest, self._group = folder, digest, group

    def load(self, model: Any, optimiser: Any) -> dict[str, Any] | None:
        """`more` of the state that fits, after the weights are taken up; None if there is none.

        Raises `ValueError` if what lies there was left by one process and several ask for it, or the reverse.
        """
        if self._folder is None:
            return None
        single, parts = self._folder / SINGLE, self._folder / PARTS
        here, other = (single, parts) if self._group.world == 1 else (parts, single)
        if not here.exists():
            if self._fits(other):
                raise ValueError(
                    f"{self._folder}: holds the state of a run of {'several ranks' if other is parts else 'one rank'}, "
                    f"found {self._group.world} rank(s); go on with as many, or remove the folder to begin anew"
                )
            return None
        if self._group.world == 1:
            saved = torch.load(single, weights_only=True, map_location="cpu")
            if saved["digest"] != self._digest:
                return None
            model.load_state_dict(saved["model"])
            optimiser.load_state_dict(saved["optimiser"])
            torch.set_rng_state(saved["rng"])
            return {key: saved[key] for key in saved if key not in ("digest", "model", "optimiser", "rng")}
        return self._load_parts(model, optimiser) if self._fits(parts) else None

    def _fits(self, path: Path) -> bool:
        if not path.exists():
            return False
        if path.name == PARTS:
            return bool(json.loads(path.read_text())["digest"] == self._digest)
        return bool(torch.load(path, weights_only=True, map_location="cpu", mmap=True)["digest"] == self._digest)

    def _load_parts(self, model: Any, optimiser: Any) -> dict[str, Any]:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        assert self._folder is not None
        found = json.loads((self._folder / PARTS).read_text())
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
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._group.world > 1:
            self._save_parts(model, optimiser, more)
            return
        with whole_file(self._folder / SINGLE, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save(
                {
                    "digest": self._digest,
                    "model": model.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "rng": torch.get_rng_state(),
                    **more,
                },
                stream,
            )

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
                part.write_text(json.dumps({"digest": self._digest, "parts": name, "more": dict(more)}), "utf-8")
            for old in self._folder.glob("step-*"):
                if old.name != name:
                    shutil.rmtree(old, ignore_errors=True)
        self._group.barrier()
