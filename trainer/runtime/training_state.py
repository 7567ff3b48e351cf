"""The resumable state of a training run: one file that is replaced whole, or for several ranks a folder of parts.

`StateFile` keeps any tensors and plain data under the identity of a run; RL keeps its learner in one, or names in it
the folder of its parts. `TrainingState` keeps a model with its optimiser and the RNG: of one process in the file
`state.pt`, of several ranks as a folder `step-<n>` and `state.json`, which names it once all parts are there. Parts are
torch.distributed.checkpoint's. Either form is gone on from by any number of ranks. A state of another run (other
weights, data or config) is passed over, and later written over.
"""

import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from pipelines.whole_files import sync, whole_file
from trainer.runtime.parallel import Ranks
from trainer.runtime.rates import names_in_order

SINGLE, PARTS = "state.pt", "state.json"


class StateFile:
    """`identity`: what a saved state must have been made with to be gone on from. Without a path nothing is saved."""

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path, self.identity = path, identity

    def folder(self, name: str = "") -> Path:
        """Where ranks save parts beside the file: the folder of that name, or a new one."""
        assert self.path is not None
        numbers = [int(found.name.rpartition("-")[2]) for found in self._folders()]
        # a new number each time: parts are never written over the ones that a file still names
        return self.path.with_name(name or f"{self.path.stem}-{max(numbers, default=0) + 1}")

    def _folders(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.stem}-*")) if self.path is not None else []

    def save(self, folder: str = "", **parts: object) -> None:
        """Plain data and tensors, on the disk when this returns; what lay there is replaced whole or not at all. Of
        the folders of parts that of the name `folder` stays."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path, lasting=True, alone=True) as part, part.open("wb") as stream:
            torch.save({"identity": self.identity, **parts}, stream)
        sync(self.path.parent)
        # only now: until the file names the new folder, the old one is the state
        for old in self._folders():
            if old.name != folder:
                shutil.rmtree(old, ignore_errors=True)

    def load(self, *, mmap: bool = False) -> dict[str, Any] | None:
        """The parts that were saved; None if there are none of this run. `mmap`: tensors stay in the file."""
        if self.path is None or not self.path.is_file():
            return None
        # weights_only: a pickle could run code
        saved: dict[str, Any] = torch.load(self.path, weights_only=True, map_location="cpu", mmap=mmap)
        return saved if saved.pop("identity", None) == self.identity else None

    def forget(self) -> None:
        """The run is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        for old in self._folders():
            shutil.rmtree(old, ignore_errors=True)


def write_parts(folder: Path, model: nn.Module, optimiser: Optimizer, **more: object) -> None:
    """Weights, moments and `more` (tensors, or dicts of them) into a folder, by every rank its share."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(model, optimiser)
    dcp.save({"model": weights, "optimiser": moments, **more}, checkpoint_id=str(folder))


def read_parts(folder: Path, model: nn.Module, optimiser: Optimizer, **more: object) -> dict[str, Any]:
    """The inverse of `write_parts`, for any number of ranks: model and optimiser are filled, and returned is what was
    written under the names of `more`, whose values say of what shape."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    weights, moments = get_state_dict(model, optimiser)
    box: dict[str, Any] = {"model": weights, "optimiser": moments, **more}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # that is what `no_dist` says
        dcp.load(box, checkpoint_id=str(folder), no_dist=not dist.is_initialized())
    set_state_dict(model, optimiser, model_state_dict=box["model"], optim_state_dict=box["optimiser"])
    return {name: box[name] for name in more}


def spread_whole(
    model: nn.Module, optimiser: Optimizer, weights: Mapping[str, Any], moments: Mapping[str, Any]
) -> None:
    """What one process left (both {} but on the first rank), into a model in parts and its optimiser."""
    from torch.distributed.checkpoint import state_dict as parts

    if moments:  # a plain optimiser numbers its parameters
        names = names_in_order(model, optimiser)
        groups = [{**group, "params": [names[place] for place in group["params"]]} for group in moments["param_groups"]]
        moments = {"state": {names[place]: one for place, one in moments["state"].items()}, "param_groups": groups}
    # one after the other: `set_state_dict` takes no weights where a rank has none to give
    whole = parts.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    parts.set_model_state_dict(model, dict(weights), options=whole)
    parts.set_optimizer_state_dict(model, optimiser, dict(moments), options=whole)


class TrainingState:
    """Saves and loads; `more` is what goes along (JSON-able)."""

    def __init__(self, folder: Path | None, identity: str, group: Ranks) -> None:
        self._folder, self._identity, self._group = folder, identity, group
        self._single = StateFile(folder / SINGLE if folder else None, identity)

    def load(self, model: nn.Module, optimiser: Optimizer) -> dict[str, Any] | None:
        """`more` of the state that fits, after the weights are taken up; None if there is none. Of two, which a run
        leaves that was killed after it went on with another number of ranks, it is the later."""
        if self._folder is None:
            return None
        group, parts = self._group, self._parts()
        # several ranks take their shares from the file, so the first needn't hold all of it in memory
        single = self._single.load(mmap=group.world > 1) if group.first else None
        found = single or {}
        # of equal steps the parts, which were written by the run that went on later
        later = parts is not None and parts["more"]["step"] >= found.get("step", -1)
        if group.broadcast(later):
            return self._load_parts(model, optimiser)
        if not group.broadcast(bool(found)):
            return None
        # other ranks have nothing to give: the first one's is spread
        weights, moments = found.pop("model", {}), found.pop("optimiser", {})
        if group.world > 1:
            spread_whole(model, optimiser, weights, moments)
        else:
            model.load_state_dict(weights)
            optimiser.load_state_dict(moments)
        found = group.broadcast(found)
        torch.set_rng_state(found.pop("rng"))
        return found

    def _parts(self) -> dict[str, Any] | None:
        """What `state.json` says; None if there is none of this run."""
        assert self._folder is not None
        path = self._folder / PARTS
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found if found.get("identity") == self._identity else None

    def _load_parts(self, model: nn.Module, optimiser: Optimizer) -> dict[str, Any]:
        found = self._parts()
        assert found is not None and self._folder is not None
        read = read_parts(self._folder / found["parts"], model, optimiser, rng=torch.get_rng_state())
        torch.set_rng_state(read["rng"])
        more: dict[str, Any] = found["more"]
        return more

    def save(self, model: nn.Module, optimiser: Optimizer, more: Mapping[str, Any]) -> None:
        """Replace what lies there, whole or not at all; every rank calls it at the same step."""
        if self._folder is None:
            return
        if self._group.world > 1:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._save_parts(model, optimiser, more)
            return
        self._single.save(model=model.state_dict(), optimiser=optimiser.state_dict(), rng=torch.get_rng_state(), **more)
        (self._folder / PARTS).unlink(missing_ok=True)  # of several ranks that this process went on from
        self._drop("")

    def _save_parts(self, model: nn.Module, optimiser: Optimizer, more: Mapping[str, Any]) -> None:
        assert self._folder is not None
        name = f"step-{more['step']}"
        if self._group.first:
            shutil.rmtree(self._folder / name, ignore_errors=True)  # of a run that was killed as it wrote it
        # no rank writes before what lay there is gone
        self._group.barrier()
        write_parts(self._folder / name, model, optimiser, rng=torch.get_rng_state())
        if self._group.first:
            with whole_file(self._folder / PARTS, lasting=True, alone=True) as part:
                part.write_text(json.dumps({"identity": self._identity, "parts": name, "more": dict(more)}), "utf-8")
            self._single.forget()  # of one process that these ranks went on from
            self._drop(name)
        # no rank goes on, and maybe ends, before the state is named
        self._group.barrier()

    def _drop(self, but: str) -> None:
        """Remove all folders of parts but one."""
        assert self._folder is not None
        for old in self._folder.glob("step-*"):
            if old.name != but:
                shutil.rmtree(old, ignore_errors=True)
