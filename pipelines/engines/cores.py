"""How many cores this process may use."""

import os

_shared: list[bool] = []


def usable_cores() -> int:
    """Cores that the system gives this process: those of its affinity mask, where it has one; 1 in a worker process."""
    # Otherwise each of n workers would start n threads of its own.
    if _shared:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_cores() -> None:
    """Say that processes beside this one, a worker, use the other cores."""
    _shared.append(True)
