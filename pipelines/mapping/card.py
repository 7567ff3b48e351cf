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


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """The card of a source, a constant in its adapter's file. What most sources have needn't be said."""

    id: str
    title: str
    origin: str = ""
    """Where it is published; the hub's page of what is downloaded, unless it says otherwise."""
    licence: str
    platforms: tuple[str, ...]
    language: str = "en"
    objectives: tuple[str, ...] = ("navigation",)
    size: str
    citation: str
    frame: str
    """Native coordinate frame: unit, axis order, origin."""
    record_unit: str = "row"
    """What one record is: "episode", "screen", "row"."""
    item_unit: str = "action"
    """What is counted within a record: "action", "expression", "element", "question"."""
    known_problems: tuple[str, ...]
    loss: tuple[Loss, ...]
    companions: tuple[str, ...] = ()
    download: Download | None = None
    """None: nothing is known that a program could fetch; `origin` says where a person finds it."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a card that says nowhere where the source is published."""
        if not self.origin:
            if self.download is None or not self.download.repo:
                raise ValueError(f"{self.id}: expected an origin, or a download from a repository of the hub")
            # The card is frozen; its page follows from the repository.
            object.__setattr__(self, "origin", f"https://huggingface.co/datasets/{self.download.repo}")
