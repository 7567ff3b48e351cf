"""Training that gives the same bits twice: kernels that are deterministic, and a fixed number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def deterministic(device: str | torch.device, threads: int) -> Iterator[None]:
    """Deterministic kernels on a CPU (a few have no such form on a GPU: there it stays as it is) and so many threads;
    both as they were when the block ends.

    PyTorch would also fill every new tensor with nan there, so that a read of what was never written shows: a tenth
    or more of a nano model's step, and nothing here reads such memory.
    """
    filling: Any = torch.utils.deterministic  # its stubs don't know the name
    was = torch.are_deterministic_algorithms_enabled(), filling.fill_uninitialized_memory, torch.get_num_threads()
    torch.set_num_threads(threads)
    # some kernels that training needs have no deterministic form on a GPU
    if torch.device(device).type == "cpu":
        torch.use_deterministic_algorithms(True)
        filling.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was[0])
        filling.fill_uninitialized_memory = was[1]
        torch.set_num_threads(was[2])
