"""Memory that is free goes back to the system."""

import ctypes
import functools
from collections.abc import Callable


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim  # type: ignore[no-any-return]
    except (AttributeError, OSError, TypeError):  # another C library than glibc
        return None


def give_back() -> None:
    """Return what the C library keeps of freed memory, where it can; some tenths of a second for gigabytes.

    Batches of ever different sizes leave glibc's heap full of holes, which it keeps: a quarter of an hour of online RL
    on a CPU grew to 6 GB, most of them free.
    """
    if (trim := _trim()) is not None:
        trim(0)
