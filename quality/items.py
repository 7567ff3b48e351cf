"""What a judge sees: episodes with their steps, and native samples, with pictures and elements fetched on use.

`load_part` reads one part of `unified/<source>`; nothing is decoded before a judge asks for it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.manifest import Manifest, StoreError
from quality.evidence.pixels import Grey, Shift, grey_full, grey_small, measure_shift
from schemas.actions import Action, parse
from schemas.ids import item_episode, item_sample, item_step
from schemas.tables import Samples, Screens, Steps

Box = tuple[float, float, float, float]
Row = dict[str, Any]
CACHED_GREYS = 256
CACHED_FULL = 16
CACHED_SHIFTS = 4096


class ScreenSource(Protocol):
    """Whatever gives a picture's encoded bytes: a `Store`, or a folder of pictures."""

    def screen_bytes(self, sha256: str) -> bytes: ...


class ScreenFolder:
    """The `screens/` folder of a `vesper unify` output as a `ScreenSource`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths = {path.stem: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def path(self, sha256: str) -> Path:
        """File of a picture. Raises `StoreError` if the folder has none."""
        if sha256 not in self._paths:
            raise StoreError(f"screen {sha256[:64]} is not in {self.folder}")
        return self._paths[sha256]

    def screen_bytes(self, sha256: str) -> bytes:
        return self.path(sha256).read_bytes()


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a screen; `box` in 0..1000."""

    box: Box
    role: str
    text: str
    name: str

    @property
    def label(self) -> str:
        """What people call it: its accessible name, else what is drawn on it."""
        return self.name or self.text

    @property
    def area(self) -> float:
        return max(self.box[2] - self.box[0], 0.0) * max(self.box[3] - self.box[1], 0.0)

    def holds(self, point: Sequence[float], margin: float = 0.0) -> bool:
        """Whether a point lies in the box, borders included, widened by `margin` units."""
        left, top, right, bottom = self.box
        return left - margin <= point[0] <= right + margin and top - margin <= point[1] <= bottom + margin


class Screen:
    """A picture: elements, encoded bytes and grey versions, each fetched once and on use."""

    def __init__(self, sha256: str, bank: ScreenBank) -> None:
        self.sha256 = sha256
        self._bank = bank

    @cached_property
    def elements(self) -> list[Element]:
        """Elements that the source knows here; empty if it knows none."""
        return self._bank.elements(self.sha256)

    @property
    def grey(self) -> Grey:
        """Small grey picture (see `quality.evidence.pixels`); kept in a bounded cache."""
        return self._bank.grey(self.sha256)

    def grey_full(self) -> Grey:
        """Grey picture at full size; the last few are kept."""
        return self._bank.grey_full(self.sha256)

    def shift_to(self, after: Screen, skip_top: float) -> Shift | None:
        """How the view moved from this screen to another (`quality.evidence.pixels.measure_shift`), measured once."""
        return self._bank.shift(self, after, skip_top)

    def data(self) -> bytes:
        """Encoded bytes as stored."""
        return self._bank.source.screen_bytes(self.sha256)


class ScreenBank:
    """All screens of a part: rows of the `screens` table by hash, and a bounded cache of small grey pictures."""

    def __init__(self, screens: pa.Table, source: ScreenSource) -> None:
        self.source = source
        self._screens = screens.combine_chunks()
        self._rows = {sha: row for row, sha in enumerate(screens.column("screenshot_sha256").to_pylist())}
        self._made: dict[str, Screen] = {}
        self._greys: OrderedDict[str, Grey] = OrderedDict()
        self._full: OrderedDict[str, Grey] = OrderedDict()
        self._shifts: dict[tuple[str, str, float], Shift | None] = {}

    def screen(self, sha256: str | None) -> Screen | None:
        """The screen of a hash; None for None (`image_missing`)."""
        if sha256 is None:
            return None
        if sha256 not in self._made:
            self._made[sha256] = Screen(sha256, self)
        return self._made[sha256]

    def shift(self, before: Screen, after: Screen, skip_top: float) -> Shift | None:
        key = (before.sha256, after.sha256, skip_top)
        if key not in self._shifts:
            if len(self._shifts) > CACHED_SHIFTS:
                self._shifts.clear()
            self._shifts[key] = measure_shift(before.grey, after.grey, skip_top)
        return self._shifts[key]

    def size(self, sha256: str) -> tuple[int, int] | None:
        """(width, height) in px; None for a screen that has no row."""
        row = self._rows.get(sha256)
        if row is None:
            return None
        return self._screens.column("width_px")[row].as_py(), self._screens.column("height_px")[row].as_py()

    def elements(self, sha256: str) -> list[Element]:
        row = self._rows.get(sha256)
        if row is None:
            return []
        listed = self._screens.column("elements")[row].as_py() or []
        return [
            Element(tuple(plain["box"]), plain["role"] or "", plain["text"] or "", plain["name"] or "")
            for plain in listed
            if plain["box"] is not None
        ]

    def grey(self, sha256: str) -> Grey:
        return self._kept(self._greys, CACHED_GREYS, sha256, grey_small)

    def grey_full(self, sha256: str) -> Grey:
        return self._kept(self._full, CACHED_FULL, sha256, grey_full)

    def _kept(self, kept: OrderedDict[str, Grey], most: int, sha256: str, make: Callable[[bytes], Grey]) -> Grey:
        if sha256 in kept:
            kept.move_to_end(sha256)
            return kept[sha256]
        grey = kept[sha256] = make(self.source.screen_bytes(sha256))
        if len(kept) > most:
            kept.popitem(last=False)
        return grey


class BankView(ScreenBank):
    """Another bank's screens with other elements; pictures and measurements are shared."""

    def __init__(self, bank: ScreenBank) -> None:
        self.__dict__.update(bank.__dict__)
        self._made = {}
        self._bank = bank


@dataclass(frozen=True)
class Step:
    """One step: its row of `steps`, its action, its screen and the screens around it (None where there is none)."""

    row: Row
    item_id: str
    screen: Screen | None
    previous: Screen | None
    next: Screen | None
    follows_gap: bool = False
    """An item right before or after this one was quarantined, so neighbouring screens prove nothing."""

    @cached_property
    def action(self) -> Action | None:
        """The action; None on a last screen without one."""
        text = self.row["action_text"]
        return None if text is None else parse(text)

    @property
    def platform(self) -> str:
        return str(self.row["platform"])

    @cached_property
    def provenance(self) -> Row:
        return provenance(self.row)


@dataclass(frozen=True)
class Episode:
    """One episode: steps in order. `item_id` names the version judged (`…@r1` after a repair)."""

    item_id: str
    steps: list[Step]
    bank: ScreenBank = field(repr=False, compare=False)

    @property
    def instruction(self) -> str:
        return str(self.steps[0].row["instruction"])

    @property
    def source(self) -> str:
        return str(self.steps[0].row["source"])

    @property
    def actions(self) -> list[Step]:
        """Steps that have an action."""
        return [step for step in self.steps if step.row["action_text"] is not None]

    @property
    def one_picture(self) -> bool:
        """Whether several actions share the only picture: then nothing shows what they changed."""
        return len(self.steps) > 1 and len({step.row["screenshot_sha256"] for step in self.steps}) == 1

    @property
    def is_prefix(self) -> bool:
        """Whether a repair cut this episode: then its end isn't claimed to reach the goal."""
        return any("cut" in repair for step in self.steps for repair in step.provenance.get("repairs", ()))


@dataclass(frozen=True)
class Sample:
    """One native sample (grounding, perception, VQA) with its screens."""

    row: Row
    item_id: str
    screens: list[Screen]
    bank: ScreenBank = field(repr=False, compare=False)
    siblings: tuple[Row, ...] = ()
    """Rows of the other samples on the same first picture: a shift shared by all shows only among them."""

    @property
    def screen(self) -> Screen | None:
        return self.screens[0] if self.screens else None

    @cached_property
    def provenance(self) -> Row:
        return provenance(self.row)


Item = Episode | Sample


def provenance(row: Mapping[str, Any]) -> Row:
    """The provenance of a row as a dict."""
    plain = json.loads(row["provenance"] or "{}")
    return plain if isinstance(plain, dict) else {}


def step_id(row: Mapping[str, Any]) -> str:
    """`step:<source>/<episode>/<index>`, with `@r<round>` once a repair made it a new item."""
    base = item_step(row["source"], row["episode_id"], row["step_index"])
    return base + version_suffix(row)


def version_suffix(row: Mapping[str, Any]) -> str:
    """`@r<round>` of the last repair, or nothing."""
    round_number = provenance(row).get("round", 0)
    return f"@r{round_number}" if round_number else ""


def make_episode(rows: Sequence[Row], bank: ScreenBank) -> Episode:
    """Rows of one episode (any order) → `Episode`. Raises `ValueError` on rows of two episodes or none."""
    ordered = sorted(rows, key=lambda row: row["step_index"])
    keys = {(row["source"], row["episode_id"]) for row in ordered}
    if len(keys) != 1:
        raise ValueError(f"episode: expected rows of one episode, found {sorted(keys)[:3]}")
    screens = [bank.screen(row["screenshot_sha256"]) for row in ordered]
    alone = len({row["screenshot_sha256"] for row in ordered}) == 1  # a script on one picture: nothing shows effects
    gaps = [_gap_before(ordered, place) for place in range(len(ordered))]
    steps = []
    for place, row in enumerate(ordered):
        after_gap = gaps[place]
        before_gap = place + 1 < len(ordered) and gaps[place + 1]
        before_gap = before_gap or _is_one_action(ordered, place)
        previous = screens[place - 1] if place and not after_gap and not alone else None
        following = screens[place + 1] if place + 1 < len(ordered) and not before_gap and not alone else None
        steps.append(
            Step(
                row, step_id(row), screens[place], previous, following, after_gap or gaps[min(place + 1, len(gaps) - 1)]
            )
        )
    rounds = max((provenance(row).get("round", 0) for row in ordered), default=0)
    [(source, episode_id)] = keys
    return Episode(item_episode(source, episode_id) + (f"@r{rounds}" if rounds else ""), steps, bank)


def _is_one_action(rows: Sequence[Row], place: int) -> bool:
    """Whether this row and the next are parts of one native action: no picture was taken between them."""
    if place + 1 >= len(rows):
        return False
    here, after = (provenance(row).get("native_index") for row in rows[place : place + 2])
    return here is not None and here == after


def _gap_before(rows: Sequence[Row], place: int) -> bool:
    """Whether an action between the previous row and this one was lost (quarantined or refused)."""
    if place == 0:
        return rows[0]["step_index"] > 0 or 0 in gap_indices(rows[0])
    if rows[place]["step_index"] - rows[place - 1]["step_index"] > 1:
        return True
    return rows[place]["step_index"] in gap_indices(rows[place])


def gap_indices(row: Mapping[str, Any]) -> list[int]:
    """Step indices before which an action of the episode is missing (`gap_at` in the provenance)."""
    gaps = provenance(row).get("gap_at")
    if gaps is None or gaps is False:
        return []
    return [int(gap) for gap in (gaps if isinstance(gaps, list) else [gaps])]


def episodes_of(steps: pa.Table, bank: ScreenBank) -> Iterator[Episode]:
    """Episodes of a `steps` table in order of first appearance."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in steps.to_pylist():
        grouped.setdefault((row["source"], row["episode_id"]), []).append(row)
    for rows in grouped.values():
        yield make_episode(rows, bank)


def make_samples(rows: Sequence[Row], bank: ScreenBank) -> list[Sample]:
    """Rows of `samples` → items, each knowing the others on the same picture."""
    on_picture: dict[str, list[Row]] = {}
    for row in rows:
        on_picture.setdefault(_first_image(row), []).append(row)
    made = []
    for row in rows:
        screens = [screen for sha in row["images"] or () if (screen := bank.screen(sha)) is not None]
        item_id = item_sample(row["sample_id"]) + version_suffix(row)
        made.append(Sample(row, item_id, screens, bank, tuple(on_picture[_first_image(row)])))
    return made


def _first_image(row: Row) -> str:
    return (row["images"] or [""])[0]


@dataclass(frozen=True)
class Part:
    """One part of a source: tables and the items made from them."""

    key: str
    steps: pa.Table
    samples: pa.Table
    screens: pa.Table
    bank: ScreenBank = field(repr=False)

    @cached_property
    def episodes(self) -> list[Episode]:
        return list(episodes_of(self.steps, self.bank))

    @cached_property
    def native_samples(self) -> list[Sample]:
        return make_samples(self.samples.to_pylist(), self.bank)

    @property
    def items(self) -> list[Item]:
        return [*self.episodes, *self.native_samples]


def part_keys(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Parts of a manifest: key → {table: sha256 of its file}."""
    parts: dict[str, dict[str, str]] = {}
    for entry in manifest.files:
        if entry.table is not None:
            parts.setdefault(_part_key(entry.path, entry.table), {})[entry.table] = entry.sha256
    return parts


def _part_key(path: str, table: str) -> str:
    return path.rpartition("/")[2].removeprefix("part-").removesuffix(f".{table}.parquet")


def load_part(manifest: Manifest, key: str, source: ScreenSource) -> Part:
    """One part of a unified manifest. Tables the part lacks are empty."""

    def read(name: str, schema: pa.Schema) -> pa.Table:
        for entry in manifest.files:
            if entry.table == name and _part_key(entry.path, name) == key:
                return pq.read_table(manifest.root / entry.path)
        return schema.empty_table()

    screens = read("screens", Screens.schema)
    return Part(key, read("steps", Steps.schema), read("samples", Samples.schema), screens, ScreenBank(screens, source))
