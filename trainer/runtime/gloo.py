"""A process group over Gloo beside that of training: the learner's with a server that takes its weights."""

from datetime import timedelta
from typing import Any

LOOPBACK = "127.0.0.1"
JOIN_S = 120.0
"""For all members to come."""


def gloo_group(store: object, rank: int, size: int, address: str, timeout_s: float) -> object:
    """A member of a Gloo group, over the loopback if the group is of one machine. Raises `RuntimeError` where others
    don't come."""
    import torch.distributed as dist

    kind: Any = dist.ProcessGroupGloo
    options = kind._Options()
    # the default device is that of the host's name, which the loopback doesn't reach
    options._devices = [kind.create_device(hostname=LOOPBACK) if address == LOOPBACK else kind.create_default_device()]
    options._timeout = timedelta(seconds=timeout_s)
    return kind(store, rank, size, options)
