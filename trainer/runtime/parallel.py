"""Several processes that train one model: torch.distributed, and what they must agree on.

`torchrun --nproc-per-node N -m dagster_project.cli train STAGE` starts N ranks (gloo on CPU, nccl on GPU). The model
lies in N parts (`trainer.modeling.sharding`); losses are summed over all ranks and divided by the weights of all ranks,
so the number of ranks changes no gradient.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT = timedelta(hours=6)
"""Of a collective: the other ranks wait while the first one reads or writes a store. A rank that dies ends the run at
once, whatever this is."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; (0, 1) is a process on its own."""

    rank: int = 0
    world: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files."""
        return self.rank == 0

    def sums(self, values: Sequence[float]) -> list[float]:
        """Each value summed over all ranks, in float64."""
        if self.world == 1:
            return list(values)
        # in float64, where the order of ranks hardly shows
        tensor = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        found: list[float] = tensor.tolist()
        return found

    def largest(self, value: float) -> float:
        """The largest value of all ranks."""
        if self.world == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return float(tensor)

    def broadcast(self, value: object) -> Any:
        """The first rank's value, on every rank (any picklable thing; the ranks trust one another)."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device(self.device))
        return box[0]

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.sums([0.0])


def ranks() -> Ranks:
    """What this process is: of a process group where one was made (see `launched`), else on its own."""
    if not dist.is_available() or not dist.is_initialized():
        return Ranks()
    on_gpu = dist.get_backend() == "nccl"
    device = f"cuda:{torch.cuda.current_device()}" if on_gpu else "cpu"
    return Ranks(dist.get_rank(), dist.get_world_size(), device)


@contextmanager
def launched(device: str = "") -> Iterator[Ranks]:
    """Join the ranks that torchrun started; without torchrun it is this process alone. `device`: "cpu" or "cuda", where
    the ranks compute, each on a GPU of its own ("": on GPUs if there are any).

    However the block ends, the process group is taken down. SIGTERM and SIGINT end a rank at once, also one that
    waits for others in a collective (what is saved is saved whole, so nothing is lost), and no rank outlives torchrun.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield Ranks()
        return
    # the defaults end a process at once; Python's own handlers wait for a collective that may never end
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        # so no rank outlives the torchrun agent, not even one that was killed
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    on_gpu = device == "cuda" or (not device and torch.cuda.is_available())
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    try:
        yield ranks()
    finally:
        dist.destroy_process_group()


class NotTrained(Exception):
    """The first rank called the others to train and then had no need to."""


def following(group: Ranks, value: object) -> Any:
    """The first rank's value as training begins. Raises `NotTrained` if it doesn't (see `trainer.stages.launch`)."""
    order, found = group.broadcast(("train", value))
    if order != "train":
        raise NotTrained
    return found


_HOLLOW: ContextVar[bool] = ContextVar("hollow models", default=False)


@contextmanager
def hollow_models() -> Iterator[None]:
    """Within it `trainer.modeling.model.load_model` reads no weights: they come from the first rank, part by part."""
    token = _HOLLOW.set(True)
    try:
        yield
    finally:
        _HOLLOW.reset(token)


def hollow() -> bool:
    """Whether models are to be built without weights."""
    return _HOLLOW.get()
