"""What a record can cause, told from what the machine or the code does."""

from __future__ import annotations

import errno


class SourceError(RuntimeError):
    """What no record causes: without it nothing of the source can be mapped, such as a split list. It ends the run."""


class RecordError(ValueError):
    """A record that can't be mapped at all: it is quarantined whole. `items` = native items that go with it; None: as
    many as its shape says (`Adapter.count_items`)."""

    def __init__(self, reason: str, detail: str = "", items: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.items = items


OF_THE_NAME = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP})
"""Errors of the operating system that a name in a record causes; others say that the disk or the rights are bad."""


def is_of_the_name(error: Exception) -> bool:
    """Whether opening failed because of the name: nothing is there, it is too long, or holds what no name can."""
    if isinstance(error, OSError):
        return error.errno in OF_THE_NAME
    return isinstance(error, ValueError) and not isinstance(error, RecordError)  # a NUL, or a lone surrogate
