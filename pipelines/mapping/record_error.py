"""What a record can cause, told from what the machine or the code does."""

import errno
from collections.abc import Mapping


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


FIELDS_NAMED = 12


def with_fields(reason: str, detail: str, native: object) -> str:
    """What was expected, and beside it what the native unit has instead: the names of its fields, where one that was
    expected isn't there. They often say at once which other form of the dataset lies in the folder."""
    if reason != "missing_field" and not (reason.startswith("unknown_") and reason.endswith((":None", ":"))):
        return detail
    # A reject of one item wraps its native form; the fields that help are the inner ones.
    held = native.get("native") if isinstance(native, Mapping) and "native_index" in native else native
    if not isinstance(held, Mapping):
        return detail
    names = [str(name)[:40] for name in held]
    more = f" and {len(names) - FIELDS_NAMED} more" if len(names) > FIELDS_NAMED else ""
    return f"{detail}; it has {', '.join(names[:FIELDS_NAMED]) or 'no field'}{more}"


OF_THE_NAME = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP})
"""Errors of the operating system that a name in a record causes; others say that the disk or the rights are bad."""


def is_of_the_name(error: Exception) -> bool:
    """Whether opening failed because of the name: nothing is there, it is too long, or holds what no name can."""
    if isinstance(error, OSError):
        return error.errno in OF_THE_NAME
    return isinstance(error, ValueError) and not isinstance(error, RecordError)  # a NUL, or a lone surrogate
