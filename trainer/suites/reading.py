"""Native files of a grounding benchmark → questions with their truth and the labels that results are broken down by.

The rows are read by `pipelines.suites` (boxes, frames, pictures, bad rows); a benchmark adds what scoring needs and
decontamination doesn't: labels, refusals, which files and wordings are asked. What can't be asked is counted by reason;
a file that ends too early is no reason but a damaged copy, and stops the suite as it stops a source.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.suites import BadRow, SuiteItem
from pipelines.suites._rows import Box, Form, Row
from pipelines.suites._rows import items as read_rows
from schemas.ids import digest

PATTERNS = ("**/*.json", "**/*.jsonl", "**/*.parquet")
Labels = Mapping[str, tuple[str, ...]]
"""Name of a label → its values; most have one, some (OSWorld-G's capabilities) several."""
MOST_EXAMPLES = 50


@dataclass(frozen=True, slots=True)
class GroundingQuestion:
    """One instruction on one screen. `box` is left, top, right, bottom in 0..1000, `polygon` replaces it where there is
    one; neither for a refusal. `screen` is the picture's sha256."""

    id: str
    instruction: str
    picture: bytes
    box: Box | None
    polygon: tuple[tuple[float, float], ...]
    refusal: bool
    labels: Labels
    screen: str

    @property
    def platform(self) -> str:
        return self.labels.get("platform", ("unknown",))[0]


@dataclass(frozen=True)
class Benchmark:
    """How a benchmark's rows are asked and distinguished; the constant `BENCHMARK` of its file.

    `labels(row, file, side)` gives the labels of a native row; `side(raw)` reads side files once (ids → categories).
    `asks(file)`: whether a file holds questions; `refuses(row, file)`: whether refusing is right; `skips(row, file)`:
    a reason for passing a row over, or "". `wordings`: the endings of the ids that are asked ("" = the instruction).
    `breakdowns`: tuples of labels that the authors report by; `headline`: None = share of all questions, or the label
    over whose values the mean is taken.
    """

    name: str
    title: str
    form: Form
    labels: Callable[[Row, str, Any], dict[str, str | tuple[str, ...]]]
    breakdowns: tuple[tuple[str, ...], ...]
    headline: str | None = None
    asks: Callable[[str], bool] = lambda file: True
    refuses: Callable[[Row, str], bool] = lambda row, file: False
    skips: Callable[[Row, str], str] = lambda row, file: ""
    side: Callable[[Raw], Any] = lambda raw: None
    wordings: tuple[str, ...] = ("",)


@dataclass
class Read:
    """What came of reading: questions asked, and rows that weren't, by reason (`examples` names the first of them)."""

    asked: int = 0
    not_asked: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def drop(self, reason: str, where: str) -> None:
        """Count a row that isn't asked."""
        self.not_asked[reason] += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{reason}: {where}"[:300])

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return {"asked": self.asked, "not_asked": dict(sorted(self.not_asked.items())), "told": self.examples}


class _Noting:
    """A form's `box_of` that also remembers the native row, so that labels can be read beside each item.

    `items` is lazy and calls it once a row, right before that row's items.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self.row: Row = {}

    def __call__(self, row: Row, size: tuple[int, int] | None) -> tuple[Box | None, tuple[tuple[float, float], ...]]:
        self.row = row
        return self._form.target(row, size)


def questions(
    benchmark: Benchmark, raw: Raw, read: Read, limit: int | None = None, seed: int = 0
) -> Iterator[GroundingQuestion]:
    """The benchmark's questions in the order of its files, a stream; `read` counts along.

    `limit`: only the questions of the smallest hash of (seed, id), so that more rows move little (those are held in
    memory, in the order of their ids). Raises `ValueError` for a folder without files of the benchmark, and for a file
    that can't be read to its end: a score over the rest would look like one over all.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"{benchmark.name}: expected a limit of at least 1, found {limit}")
    if not any(benchmark.asks(name) for pattern in PATTERNS for name in raw.files(pattern)):
        raise ValueError(
            f"{raw.root}: expected native files of {benchmark.title} (JSON, JSON lines or parquet), found none"
        )
    found = _questions(benchmark, raw, read)
    if limit is not None:
        every = Counter[str]()
        # the smallest hashes: a new question moves at most one out
        # `nsmallest` holds only as many pictures as are asked for
        chosen = heapq.nsmallest(limit, _count(found, every), key=lambda one: digest([seed, one.id]))
        read.not_asked["beyond_limit"] += every["seen"] - len(chosen)
        found = iter(sorted(chosen, key=lambda one: one.id))
    for question in found:
        read.asked += 1
        yield question


def _count(found: Iterator[GroundingQuestion], every: Counter[str]) -> Iterator[GroundingQuestion]:
    for question in found:
        every["seen"] += 1
        yield question


def _questions(benchmark: Benchmark, raw: Raw, read: Read) -> Iterator[GroundingQuestion]:
    side = benchmark.side(raw)
    noting = _Noting(benchmark.form)
    seen = Counter[str]()
    for file in sorted({name for pattern in PATTERNS for name in raw.files(pattern)}):
        if not benchmark.asks(file):
            continue
        # one file at a time, so that its name is known; a name that is no glob pattern matches itself
        for item in read_rows(raw, replace(benchmark.form, box_of=noting), (_literal(file),)):
            if isinstance(item, BadRow) and item.ends:
                raise ValueError(
                    f"{benchmark.name}: {item.file} can't be read on behind {item.locator}; copy the file again "
                    f"({item.reason}: {item.detail[:120]})"
                )
            if isinstance(item, BadRow):
                read.drop(item.reason, f"{item.file} {item.locator} {item.detail}")
                continue
            if reason := _unasked(benchmark, item, noting.row, file):
                read.drop(reason, f"{file} {item.id}")
                continue
            question = _question(benchmark, item, noting.row, file, side)
            seen[question.id] += 1
            # some benchmarks use an id twice: a number tells the repeats apart
            yield replace(question, id=f"{question.id}#{seen[question.id]}") if seen[question.id] > 1 else question


def _literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _unasked(benchmark: Benchmark, item: SuiteItem, row: Row, file: str) -> str:
    """Why an item isn't asked; "" if it is."""
    # adapters write a further wording's kind behind a colon; the instruction itself has none
    ending = item.id.rpartition(":")[2] if ":" in item.id.rpartition("/")[2] else ""
    if (f":{ending}" if ending else "") not in benchmark.wordings:
        return "other_wording"
    if reason := benchmark.skips(row, file):
        return reason
    if item.data is None:
        return next((note for note in item.notes if note.startswith("picture")), "picture_missing")
    # Before the boxes: a refusal has none.
    if benchmark.refuses(row, file):
        return ""
    # A box was given but makes no sense; without one there is nothing to hit.
    if "bad_box" in item.notes:
        return "bad_box"
    return "no_box" if item.box is None else ""


def _question(benchmark: Benchmark, item: SuiteItem, row: Row, file: str, side: object) -> GroundingQuestion:
    assert item.data is not None
    refusal = benchmark.refuses(row, file)
    labels = {
        name: (value,) if isinstance(value, str) else value for name, value in benchmark.labels(row, file, side).items()
    }
    return GroundingQuestion(
        item.id,
        item.instruction,
        item.data,
        None if refusal else item.box,
        () if refusal else item.points,
        refusal,
        labels,
        hashlib.sha256(item.data).hexdigest(),
    )


def stem(file: str) -> str:
    """A file's name without folder and ending."""
    return PurePosixPath(file).stem


def text(row: Row, *keys: str) -> str:
    """The first of some fields that holds a text, else "unknown"."""
    return next((row[key].strip() for key in keys if isinstance(row.get(key), str) and row[key].strip()), "unknown")
