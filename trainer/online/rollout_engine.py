"""What makes the replies of rollouts: a copy of the policy in this process (`engine`), or servers (`trainer.vllm`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, Self

from trainer.modeling.sampler import POLICY
from trainer.online.rollouts import RolloutJob

if TYPE_CHECKING:
    import torch

    from trainer.modeling.generation import Completion


class RolloutEngine(Protocol):
    """Use it with `with`. `cond` guards all that it shares with the workers; `active` are the keys of the rollouts that
    run; `error` ends the run. `lockstep`: it answers once every running rollout waits, and calls `refill`, under
    `cond`, before each batch, which says whether it has let more run. `one_slot`: it has room for one set of weights,
    so that who lets rollouts run must never let those of two slots run side by side."""

    cond: threading.Condition
    active: set[str]
    refill: Callable[[], bool]
    error: BaseException | None
    lockstep: bool
    one_slot: bool
    batches: int
    replies: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def publish(self, weights: Mapping[str, torch.Tensor], version: int, slot: str = POLICY) -> None:
        """Answer those who ask this slot with these weights (a state dict) from now on. Raises `EngineFailed`."""
        ...

    def ask(self, job: RolloutJob, row: Mapping[str, object], seed: int) -> tuple[Completion, int, int]:
        """(reply, tokens of the prompt, version of the weights). Raises `BadSample` for a row that can't be put to the
        model, `EngineFailed`, `PolicyError` where no reply can be had though others may."""
        ...

    def figures(self) -> dict[str, float]:
        """What it survived, and what that took: of wall time, so never in a file that is hashed."""
        ...
