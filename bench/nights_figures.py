"""What a night cost, read from what it left: parts, bytes, texts embedded; and whether a part was made twice."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.store import Store
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest

KEPT = ("assets", "screens", "cache")
"""Folders of a $VESPER_HOME whose bytes are counted: data, and what saves work."""
SPENT = ("rows", "bytes", "judge", "embedded")
"""Names of `Cost`'s figures, as the issue lists them."""


class Parts:
    """Every part that was ever finished below a home: its marker, and whether it was written a second time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.seen: dict[Path, tuple[int, int]] = {}
        self.again: list[str] = []

    def look(self) -> None:
        """Take note of the markers as they are; called twice a second, since only a look distinguishes one from its
        replacement. A marker that is written again means that a part that was whole was made anew."""
        for path in self._markers():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            mark = (status.st_ino, status.st_mtime_ns)
            if path in self.seen and self.seen[path] != mark:
                self.again.append(str(path.relative_to(self.home)))
            self.seen[path] = mark

    def _markers(self) -> Iterator[Path]:
        for depth in ("*/*", "*/*/*"):
            yield from (self.home / "assets").glob(f"{depth}/parts/*.json")


@dataclass
class Cost:
    """What was spent between two looks. `rows`: native rows decoded (steps and samples that parts of `unified/*` took
    in); `bytes`: of files written and kept; `judge`: requests that a judge's endpoint got; `embedded`: texts that the
    embedding model read."""

    rows: int = 0
    bytes: int = 0
    judge: int = 0
    embedded: int = 0
    parts: int = 0
    by_group: dict[str, int] = field(default_factory=dict)
    """Bytes by the first words of the path."""


@dataclass
class Look:
    """A home at one moment: files with size and time, parts, texts embedded, requests so far."""

    files: dict[str, tuple[int, int]]
    parts: frozenset[Path]
    embedded: int
    judge: int

    @classmethod
    def at(cls, home: Path, parts: Parts, judge: int) -> "Look":
        parts.look()
        files = {}
        for name in KEPT:
            for path in (home / name).rglob("*"):
                if path.is_file() and not path.name.startswith(".") and path.suffix != ".lock":
                    status = path.stat()
                    files[str(path.relative_to(home))] = (status.st_size, status.st_mtime_ns)
        return cls(files, frozenset(parts.seen), len(embedded_texts(home)), judge)


def cost(before: Look, after: Look, home: Path) -> Cost:
    """What lies between two looks."""
    written = {name: size for name, (size, time) in after.files.items() if before.files.get(name) != (size, time)}
    groups: Counter[str] = Counter()
    for name, size in written.items():
        first, second, *_ = name.split("/")
        groups[first if first == "screens" else f"{first}/{second}"] += size
    new = after.parts - before.parts
    rows = 0
    for path in new:
        if path.relative_to(home).parts[1] == "unified":
            rows += int(json.loads(path.read_text())["counts"]["items_in"])
    return Cost(
        rows,
        sum(written.values()),
        after.judge - before.judge,
        after.embedded - before.embedded,
        len(new),
        dict(groups.most_common()),
    )


def embedded_texts(home: Path) -> list[str]:
    """Keys of the texts in the embedding cache; one that stands there twice was embedded twice."""
    return [key for path in (home / "cache" / "embeddings").glob("*/*.keys") for key in path.read_text().split()]


def rows_of(store: Store) -> int:
    """Native rows of all sources as they are now."""
    found = 0
    for path in (store.home / "assets" / "unified").glob("*"):
        manifest = store.current(f"unified/{path.name}")
        found += int(manifest.counts["items_in"]) if manifest is not None else 0
    return found


def current(home: Path) -> Iterator[Manifest]:
    """The current version of every asset."""
    store = Store(home)
    for path in sorted((home / "assets").rglob("current.json")):
        manifest = store.current(path.parent.relative_to(home / "assets").as_posix())
        if manifest is not None:
            yield manifest


def versions(home: Path) -> dict[str, str]:
    """Asset → data version."""
    return {manifest.asset: manifest.data_version for manifest in current(home)}


def damage(home: Path) -> list[str]:
    """Files of current versions that aren't there, or whose bytes aren't those that the manifest names."""
    found = []
    for manifest in current(home):
        for entry in (*manifest.files, *manifest.side_files):
            path = manifest.root / entry.path
            if not path.is_file() or file_sha256(path) != entry.sha256:
                found.append(f"{manifest.asset}: {entry.path}")
    return found


def against(spent: Cost, whole: Cost, share: float) -> dict[str, Any]:
    """For each figure: the share of a whole build that was spent, over the share of the rows that changed."""
    found: dict[str, Any] = {}
    for name in SPENT:
        made, of = getattr(spent, name), getattr(whole, name)
        found[name] = {"spent": made, "whole": round(of), "times": round(made / of / share, 3) if of else None}
    return found


def table(nights: Sequence[Mapping[str, Any]]) -> str:
    """The nights as lines for a terminal."""
    lines = [f"{'night':<6}{'seconds':>8}{'changed':>9}" + "".join(f"{name:>22}" for name in SPENT)]
    for night in nights:
        cells = "".join(
            f"{night['spent'][name]['spent']:>14,}"
            + (f"{night['spent'][name]['times']:>7.2f}x" if night["spent"][name]["times"] is not None else " " * 8)
            for name in SPENT
        )
        lines.append(f"{night['night']:<6}{night['seconds']:>8.0f}{night['changed']:>8.1%} {cells}")
    return "\n".join(lines)
