"""The card of a source: what it is, where it is published, and what becomes of each of its native words."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["kept", "lossy", "dropped"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One row of a source's loss table: a native action (or annotation) and what becomes of it."""

    native: str
    unified: str
    status: Status
    note: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """Where a source's native files are published: `repo` is a dataset repository of the hub, `url` an fsspec URL of a
    folder; `files` are the glob patterns of what is wanted of it (none: everything). `unpack` names archives by a
    pattern that all parts of one share, with the folder that their members go to; an archive itself is never stored."""

    repo: str = ""
    url: str = ""
    files: tuple[str, ...] = ()
    unpack: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The card of a source, a constant in its adapter's file."""

    id: str
    title: str
    origin: str
    licence: str
    platforms: tuple[str, ...]
    language: str
    objectives: tuple[str, ...]
    size: str
    citation: str
    frame: str
    """Native coordinate frame: unit, axis order, origin."""
    record_unit: str
    """What one record is: "episode", "screen", "row"."""
    item_unit: str
    """What is counted within a record: "action", "expression", "element", "question"."""
    known_problems: tuple[str, ...]
    loss: tuple[Loss, ...]
    companions: tuple[str, ...] = ()
    download: Download | None = None
    """None: nothing is known that a program could fetch; `origin` says where a person finds it."""
