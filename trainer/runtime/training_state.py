"""The resumable state of a training run: one file that is replaced whole, which names the folder of its parts where
several ranks have saved it.

`StateFile` keeps any tensors and plain data under the identity of a run; RL keeps its learner in one. `TrainingState`
keeps a model with its optimiser and the RNG in `state.pt`. Parts are torch.distributed.checkpoint's; either form is
gone on from by any number of ranks. A state of another run (other weights, data or config) is passed over, and later
written over.

With `background` a state is copied at once and written beside training: the same bytes, one save at a time, and what
lay there before stays the state until the new one is whole.
"""

import io
import shutil
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from pipelines.whole_files import sync, whole_file
from trainer.runtime.parallel import TIMEOUT, Ranks
from trainer.runtime.rates import names_in_order

FILE = "state.pt"


class Saves:
    """The saves of a process, one at a time: done when `begin` returns or, in the `background`, in a thread. At the end
    of `with` the last one has ended."""

    def __init__(self, background: bool = False) -> None:
        self._threads = ThreadPoolExecutor(1, "saved-state") if background else None
        self._running: tuple[Path, Future[object], Callable[[], object]] | None = None
        self._group: Any = None

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, *error: object) -> None:
        # where training has failed, what the save says of it would hide why
        with nullcontext() if kind is None else suppress(RuntimeError):
            self.check(wait=True)

    def begin(self, path: Path, write: Callable[[], object], then: Callable[[], object] = lambda: None) -> None:
        """`then` is called once `path` is written, by who trains."""
        self.check(wait=True)
        if self._threads is not None:
            self._running = path, self._threads.submit(write), then
            return
        write()
        then()

    def check(self, *, wait: bool = False) -> None:
        """See whether a save has ended, or wait for it. Raises `RuntimeError` naming the file of one that failed."""
        if self._running is None or not (wait or self._running[1].done()):
            return
        (path, running, then), self._running = self._running, None
        if (error := running.exception()) is not None:
            raise RuntimeError(f"{path}: saving beside training failed, the state before is whole: {error}") from error
        then()

    def group(self) -> Any:
        """Of several ranks: where saves in the background meet, so that no collective of training meets theirs."""
        if self._threads is not None and self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=TIMEOUT)
        return self._group


class StateFile:
    """`identity`: what a saved state must have been made with to be gone on from. Without a path nothing is saved."""

    def __init__(self, path: Path | None, identity: str, background: bool = False) -> None:
        self.path, self.identity, self.background, self.saves = path, identity, background, Saves(background)

    def folder(self, name: str = "") -> Path:
        """Where ranks save parts beside the file: the folder of that name, or a new one."""
        assert self.path is not None
        numbers = [int(found.name.rpartition("-")[2]) for found in self._folders()]
        # a new number each time: parts are never written over the ones that a file still names
        return self.path.with_name(name or f"{self.path.stem}-{max(numbers, default=0) + 1}")

    def _folders(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.stem}-*")) if self.path is not None else []

    def save(
        self,
        folder: str = "",
        after: Callable[[], object] = lambda: None,
        then: Callable[[], object] = lambda: None,
        **parts: object,
    ) -> None:
        """Plain data and tensors; what lay there is replaced whole or not at all, and `then` called (`Saves.begin`). Of
        the folders of parts that of the name `folder` stays, whose parts are there when `after` returns."""
        if (path := self.path) is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"identity": self.identity, **parts}
        if not self.background:
            self.saves.begin(path, lambda: self._write(path, folder, partial(torch.save, kept)), then)
            return
        self.saves.check(wait=True)  # no two copies are held
        # serialised now: training goes on to change the tensors
        torch.save(kept, taken := io.BytesIO())

        def write() -> None:
            after()
            self._write(path, folder, lambda stream: stream.write(taken.getbuffer()))

        self.saves.begin(path, write, then)

    def _write(self, path: Path, folder: str, into: Callable[[BinaryIO], object]) -> None:
        with whole_file(path, lasting=True, alone=True) as part, part.open("wb") as stream:
            into(stream)
        sync(path.parent)
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
        self.saves.check(wait=True)
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        for old in self._folders():
            shutil.rmtree(old, ignore_errors=True)


def write_parts(
    folder: Path, model: nn.Module, optimiser: Optimizer, group: Any = None, **more: object
) -> Callable[[], object]:
    """Weights, moments and `more` (tensors, or dicts of them) into a folder, by every rank its share. With a `group`
    (`Saves.group`) they are copied, and are there once what is returned returns; else they are there already."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(model, optimiser)
    box = {"model": weights, "optimiser": moments, **more}
    if group is None:
        dcp.save(box, checkpoint_id=str(folder))
        return lambda: None
    saving: Any = dcp.async_save(box, checkpoint_id=str(folder), process_group=group)
    return saving.result  # type: ignore[no-any-return]


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
    """Saves and loads; `more` is what goes along (plain data)."""

    def __init__(self, folder: Path | None, identity: str, group: Ranks, background: bool = False) -> None:
        self._group, self._file = group, StateFile(folder / FILE if folder else None, identity, background)
        self.saves = self._file.saves

    def load(self, model: nn.Module, optimiser: Optimizer) -> dict[str, Any] | None:
        """`more` of the state that fits, after the weights are taken up; None if there is none."""
        group, path = self._group, self._file.path
        if path is None:
            return None
        # several ranks take their shares from the file, so the first needn't hold all of it in memory
        found = (self._file.load(mmap=group.world > 1) if group.first else None) or {}
        # other ranks have nothing to give: the first one's is spread
        weights, moments = found.pop("model", {}), found.pop("optimiser", {})
        if not (found := group.broadcast(found)):
            return None
        if parts := found.pop("parts", ""):
            read_parts(path.with_name(parts), model, optimiser)
        elif group.world > 1:
            spread_whole(model, optimiser, weights, moments)
        else:
            model.load_state_dict(weights)
            optimiser.load_state_dict(moments)
        torch.set_rng_state(found.pop("rng"))
        return found

    def save(self, model: nn.Module, optimiser: Optimizer, more: Mapping[str, Any]) -> None:
        """Replace what lies there, whole or not at all; every rank calls it at the same step."""
        group, file, rng = self._group, self._file, torch.get_rng_state()
        if file.path is None:
            return
        if group.world == 1:
            file.save(parts="", model=model.state_dict(), optimiser=optimiser.state_dict(), rng=rng, **more)
            return
        self.saves.check(wait=True)
        name = group.broadcast(file.folder().name if group.first else "")
        written = write_parts(file.path.with_name(name), model, optimiser, self.saves.group())
        if group.first:
            file.save(name, written, parts=name, rng=rng, **more)
        else:
            self.saves.begin(file.path, written)
        # no rank goes on, and maybe ends, before the state is named
        if not file.background:
            group.barrier()
