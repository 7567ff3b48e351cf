"""What must not be stored again: ids of records that were taken down, remembered in the store for every later ingest.

    $VESPER_HOME/takedown.json    all that was ever taken down: ids, reasons, digests; nothing of the records themselves

An id is `sample:<sample_id>`, `step:<source>/<episode>/<index>`, `episode:<source>/<episode>` (a trace),
`screen:<sha256>` or `record:<source>/<native id>`. Whatever of a native record is named, the whole record goes: that is
what can be taken out of a raw file.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.ids import GENERATED_SOURCE

NAME = "takedown.json"
REASON = "takedown"
"""Of the quarantine row that stands where the record stood."""
_FORMS = {
    "sample": re.compile(r"[0-9a-f]{32}"),
    "step": re.compile(r"[a-z0-9_]+/.+/\d+", re.DOTALL),
    "episode": re.compile(r"[a-z0-9_]+/.+", re.DOTALL),
    "screen": re.compile(r"[0-9a-f]{64}"),
    "record": re.compile(r"[a-z0-9_]+/.+", re.DOTALL),
}
MAX_ID, MAX_REASON = 4096, 500
_HEX = re.compile(rb"[0-9a-f]{32,}")
_IS_HEX = re.compile(r"[0-9a-f]{32,}").fullmatch
_TELLING = 8
"""Characters from which an episode's name without its source means it."""


@dataclass(frozen=True, slots=True)
class WithdrawnEntry:
    """One line of a list."""

    id: str
    reason: str

    @property
    def kind(self) -> str:
        return self.id.partition(":")[0]

    @property
    def rest(self) -> str:
        return self.id.partition(":")[2]


@dataclass
class TakenDown:
    """All that was taken down. `reasons` holds every list's own ids; the others are what these stand for."""

    reasons: dict[str, str] = field(default_factory=dict)
    records: dict[str, dict[str, str]] = field(default_factory=dict)
    """Source → native id → reason."""
    episodes: set[str] = field(default_factory=set)
    """`episode:<source>/<episode>`"""
    samples: set[str] = field(default_factory=set)
    """`sample_id`, and the ids of tasks that were made of a record."""
    screens: set[str] = field(default_factory=set)
    """sha256 of pictures that only these records show."""
    places: dict[str, list[list[str]]] = field(default_factory=dict)
    """Source → [file, locator] of its records, where they stand until the raw files are cut; then none."""
    nameless: dict[str, list[list[str]]] = field(default_factory=dict)
    """Those of `places` whose records have no native id: they are known by their content's digest once it was read."""
    texts: set[str] = field(default_factory=set)
    """`text_key` of each of their texts: what a cache by text knows them by."""
    trained: set[str] = field(default_factory=set)
    """`asset@version` of checkpoints that were trained on a record."""

    def add(self, entries: Iterable[WithdrawnEntry]) -> None:
        """Take entries of a list in."""
        for entry in entries:
            self.reasons[entry.id] = entry.reason
            if entry.kind == "sample":
                self.samples.add(entry.rest)
            elif entry.kind == "step":
                # A step goes with its episode: a trace with a hole would still be the trace.
                self.episodes.add("episode:" + entry.rest.rpartition("/")[0])
            elif entry.kind == "episode":
                self.episodes.add(entry.id)
            elif entry.kind == "screen":
                self.screens.add(entry.rest)
            else:
                source, _, native = entry.rest.partition("/")
                self.records.setdefault(source, {})[native] = entry.reason

    @property
    def asked_screens(self) -> set[str]:
        """Pictures that a list names itself: no record may show them."""
        return {name.partition(":")[2] for name in self.reasons if name.startswith("screen:")}

    @property
    def names(self) -> set[str]:
        """All names by which a row may mean what was taken down."""
        return self.episodes | self.samples | self.screens

    def stands_in(self, data: bytes) -> bool:
        """Whether a plain file names one of them: as a JSON string, or within an item's id."""
        hashes = self.samples | self.screens  # looked up as whole runs of hex digits: there may be thousands
        if not hashes.isdisjoint(run.decode() for run in _HEX.findall(data)):
            return True
        names = {_escaped(name) for name in self.episodes | {one for one in self.samples if not _IS_HEX(one)}}
        # Within ids the name is followed by a quote, a step or a version; a longer id isn't met.
        ids = {name.partition(":")[2] for name in names if name.startswith("episode:")}
        bare = {one for name in ids if len(one := name.partition("/")[2]) >= _TELLING}
        listed = {f'"{name}"' for name in names | bare} | {f"{one}{end}" for one in ids for end in ('"', "/", "@")}
        return any(name.encode() in data for name in listed)

    def is_meant_by(self, lines: bytes) -> bool:
        """Whether lines of JSON name one of them, or one is a trajectory that was taken down: such a line tells task
        and seed, of which the trajectory's id is made (`generators.generation.records`)."""
        if self.stands_in(lines):
            return True
        prefix = f"episode:{GENERATED_SOURCE}/"
        attempts = {name.removeprefix(prefix) for name in self.episodes if name.startswith(prefix)}
        tasks = {one.rpartition("-")[0].encode() for one in attempts}
        # Only lines that mention the task are parsed.
        mentions = (line for line in lines.splitlines() if any(task in line for task in tasks))
        return any(_trajectory_id(line) in attempts for line in mentions)

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def to_json(self) -> str:
        plain = {name: sorted(value) if isinstance(value, set) else value for name, value in asdict(self).items()}
        return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, home: Path) -> "TakenDown":
        """What the store remembers; nothing if nothing was taken down yet. Raises `ValueError` if it can't be read."""
        path = home / NAME
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            plain.pop("judged", None)  # older stores remembered whether a model had judged a record
            plain |= {name: set(plain[name]) for name in ("episodes", "samples", "screens", "texts", "trained")}
            return cls(**plain)
        except FileNotFoundError:
            return cls()
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: expected what was taken down, found {error}; restore it before you go on"
            ) from None


def _trajectory_id(line: bytes) -> str | None:
    """None for a line of another kind."""
    try:
        plain = json.loads(line)
        return f"{plain['contract']['task_id']}-{plain['seed']}"
    except (ValueError, KeyError, TypeError):
        return None


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def read_list(path: Path) -> list[WithdrawnEntry]:
    """A CSV file with columns `id` and `reason`, or JSONL with these keys. Raises `ValueError` naming the line."""
    if path.suffix not in (".csv", ".jsonl"):
        raise ValueError(
            f"{path.name}: expected a .csv or .jsonl file with id and reason, found {path.suffix or 'no'!r}"
        )
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows: Iterable[Any] = csv.DictReader(stream) if path.suffix == ".csv" else map(_json, stream)
        found = [_entry(row, f"{path.name} row {number}") for number, row in enumerate(rows, 1)]
    if not found:
        raise ValueError(f"{path.name}: expected at least one row with id and reason, found none")
    return found


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        return error


def _entry(row: object, where: str) -> WithdrawnEntry:
    if not isinstance(row, Mapping) or not isinstance(row.get("id"), str) or not isinstance(row.get("reason"), str):
        raise ValueError(f"{where}: expected texts `id` and `reason`, found {str(row)[:80]!r}")
    entry = WithdrawnEntry(row["id"].strip(), row["reason"].strip())
    form = _FORMS.get(entry.kind)
    if form is None or not form.fullmatch(entry.rest) or len(entry.id) > MAX_ID:
        raise ValueError(
            f"{where}: expected sample:<32 hex>, step:<source>/<episode>/<index>, episode:<source>/<episode>, "
            f"screen:<sha256> or record:<source>/<native id>, found {entry.id[:80]!r}"
        )
    if not entry.reason or len(entry.reason) > MAX_REASON:
        raise ValueError(f"{where}: expected a reason of 1 to {MAX_REASON} characters, found {len(entry.reason)}")
    return entry


class TakenOfSource:
    """Tells whether a native record of a source was taken down: by its id before it is mapped, by what it became
    after."""

    def __init__(self, taken: TakenDown, source: str) -> None:
        self._records = taken.records.get(source, {})
        prefix = f"episode:{source}/"
        self._episodes = {name.removeprefix(prefix) for name in taken.episodes if name.startswith(prefix)}
        self._samples, self._screens = taken.samples, taken.asked_screens

    def native(self, native_id: str) -> bool:
        """By the record's id."""
        return native_id in self._records or native_id in self._episodes

    def natives(self, native_ids: pa.Array) -> list[int]:
        """Places of records in a column of ids."""
        known = pa.array(sorted({*self._records, *self._episodes}), pa.string())
        return pc.indices_nonzero(pc.is_in(native_ids, known)).to_pylist()  # type: ignore[no-any-return]

    def holds(
        self, native_id: str, steps: Iterable[Mapping[str, Any]], samples: Iterable[Mapping[str, Any]], screens: Any
    ) -> bool:
        """By its id, the rows that it became, or the pictures that it shows."""
        return (
            self.native(native_id)
            or any(row["episode_id"] in self._episodes for row in steps)
            or any(row["sample_id"] in self._samples for row in samples)
            or not self._screens.isdisjoint(screens)
        )

    def tables(self, steps: pa.Table | None, samples: pa.Table | None, screens: Any) -> bool:
        """By the rows and pictures of many records at once."""
        return (
            (steps is not None and _any(steps["episode_id"], self._episodes))
            or (samples is not None and _any(samples["sample_id"], self._samples))
            or not self._screens.isdisjoint(screens)
        )


def _any(column: pa.ChunkedArray, wanted: set[str]) -> bool:
    return bool(wanted) and bool(pc.any(pc.is_in(column, pa.array(sorted(wanted), pa.string()))).as_py())


def taken_of(home: str | Path, source: str) -> TakenOfSource | None:
    """For the ingest of a source; None while nothing was ever taken down."""
    taken = TakenDown.load(Path(home))
    return TakenOfSource(taken, source) if taken else None
