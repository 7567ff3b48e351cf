"""Several processes that train one model: torch.distributed, FSDP2, and what they must agree on.

`torchrun --nproc-per-node N -m trainer mid_trained --home …` starts N ranks (gloo on CPU, nccl on GPU). Parameters,
gradients and optimiser state lie in N parts (`fully_shard` per decoder layer and vision block, the rest in one group);
losses are summed over all ranks and divided by the weights of all ranks, so the number of ranks changes no gradient.
"""

from __future__ import annotations

import copy
import ctypes
import os
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from trainer.runtime.precision import in_bf16

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

    def told(self, value: Any) -> Any:
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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
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


def following(group: Ranks, value: Any) -> Any:
    """The first rank's value as training begins. Raises `NotTrained` if it doesn't (see `trainer.stages.launch`)."""
    order, found = group.told(("train", value))
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


# --- one model in parts ---------------------------------------------------------------------------------------------


def sharded(model: Any, group: Ranks, bf16: bool | None = None) -> Any:
    """A plain model, the same on every rank → the same model in parts; the first rank's own stays as it is.

    Where another rank's model is hollow (`hollow_models`), it gets its parts from the first, so that only one process
    holds a whole model. With `bf16` (None: on a GPU) the parts compute in bfloat16 and keep float32 weights; gradients
    are summed in float32.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    from trainer.modeling.model import forward_labels

    on_gpu = group.device != "cpu"
    mesh = init_device_mesh("cuda" if on_gpu else "cpu", (group.world,))
    half = in_bf16(bf16, mesh.device_type)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    parted = copy.deepcopy(model) if group.first else model
    parted.tie_weights()  # moving a model to another device may have parted them
    for block in (*parted.model.visual.blocks, *parted.model.language_model.layers):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(parted, mesh=mesh, mp_policy=policy)
    if group.sums([any(parameter.is_meta for parameter in parted.parameters())])[0]:
        _hand_out(model, parted, group)
    parted.forward_labels = types.MethodType(forward_labels, parted)
    register_fsdp_forward_method(parted, "forward_labels")
    return parted


def _hand_out(model: Any, parted: Any, group: Ranks) -> None:
    """Fill hollow parts with the first rank's weights, and buffers that no checkpoint holds."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    if not group.first:
        parted.to_empty(device=group.device)
        parted.tie_weights()
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(parted, model.state_dict() if group.first else {}, options=options)
    for _, buffer in sorted(parted.named_buffers()):
        dist.broadcast(buffer, src=0)


def gather_into(model: Any, parted: Any, group: Ranks) -> None:
    """Put the weights of a model in parts together again, in the first rank's plain model."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    whole = get_model_state_dict(parted, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if group.first:
        model.load_state_dict(whole)


def norm_of(norm: torch.Tensor) -> torch.Tensor:
    """The whole value of a norm that may lie in parts."""
    full: torch.Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return full
