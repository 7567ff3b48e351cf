"""What ranks tell one another about their data, beside the collectives of training.

It goes by a gloo group of its own, in the machine's memory: a thread that makes batches for a GPU may use it while the
GPU's own collectives run.
"""

import pickle
from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

from trainer.runtime.parallel import TIMEOUT, Ranks

T = TypeVar("T")


class Exchange:
    """Made by all ranks at the same time; so is every call of it. Values are any that can be pickled (the ranks trust
    one another). A process on its own gets back what it gives."""

    def __init__(self, group: Ranks) -> None:
        self._world = group.world
        # a collective of its own group never waits behind those of training
        self._own = dist.new_group(backend="gloo", timeout=TIMEOUT) if group.world > 1 else None

    def told(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        found = [value] * self._world
        if self._own is not None:
            dist.all_gather_object(found, value, group=self._own)
        return found

    def dealt(self, values: Sequence[T]) -> list[T]:
        """One value for each rank → the values that the ranks have for this one, in their order."""
        if self._own is None:
            return list(values)
        parts = [pickle.dumps(value, pickle.HIGHEST_PROTOCOL) for value in values]
        sizes = [len(part) for part in parts]
        # sizes first: a rank doesn't know how much the others have for it
        counted = torch.empty(self._world, dtype=torch.int64)
        dist.all_to_all_single(counted, torch.tensor(sizes), group=self._own)
        theirs: list[int] = counted.tolist()
        taken = torch.empty(sum(theirs), dtype=torch.uint8)
        given = torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)
        dist.all_to_all_single(taken, given, theirs, sizes, group=self._own)
        return [pickle.loads(part.numpy().tobytes()) for part in taken.split(theirs)]
