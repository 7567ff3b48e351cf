"""What a source adapter is: native files in, steps, samples, screens and rejects out, each native unit counted once.

An adapter is one file in `pipelines/sources/` with one subclass of `Adapter`; see `docs/add-a-dataset.md`.
It reads records as a stream (`records`) and maps one at a time (`map`), with an `EpisodeBuilder` or a
`SampleBuilder` doing the bookkeeping. What it can't map it rejects, with a reason; nothing is guessed.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from pipelines.mapping.card import Descriptor
from pipelines.mapping.raw_files import Raw
from pipelines.mapping.record_error import RecordError
from pipelines.store.images import ImageError, ImageInfo, plain_image, read_pixels
from pipelines.store.known_pictures import known_pictures
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.ids import digest


@dataclass(frozen=True, slots=True)
class Record:
    """One native record and where it was found. `native_id` is None if the source gives none.

    `content` is what makes two records the same (None: the whole payload): leave out paths that say where a copy lies.
    """

    file: str
    locator: str
    payload: Any
    native_id: str | None = None
    content: Any = None

    def content_digest(self) -> str:
        """Digest of what makes two records the same."""
        return digest(self.payload if self.content is None else self.content)


@dataclass(frozen=True, slots=True)
class Broken:
    """A record that couldn't even be read; quarantined with what is known of it. `ends`: its file can't be read on
    behind it, so nobody knows what else was lost."""

    file: str
    locator: str
    reason: str
    detail: str = ""
    items: int = 0
    native: Any = None
    ends: bool = False


Reader = Callable[[Raw, str], Iterator[Record | Broken]]


@dataclass(frozen=True, slots=True)
class RejectedUnit:
    """Something that was not mapped. Unit "image" counts no native item: its row lives on without a picture."""

    unit: Literal["record", "item", "image"]
    items: int
    reason: str
    detail: str
    native: Any


@dataclass(frozen=True, slots=True)
class RecordScreen:
    """A screen of a record: its frame, its verified picture (or why there is none), its elements in 0..1000.

    `info` without `data` is a picture that the store holds already."""

    width_px: int | None
    height_px: int | None
    data: bytes | None
    info: ImageInfo | None
    elements: Sequence[Mapping[str, Any]]
    problem: str | None

    @property
    def sha256(self) -> str | None:
        """Name of the picture in the store, or None if there is none."""
        return self.info.sha256 if self.info else None

    @classmethod
    def load(
        cls,
        data: bytes | None,
        elements: Sequence[Mapping[str, object]] = (),
        frame: tuple[int, int] | None = None,
        *,
        normalised: bool = False,
    ) -> "RecordScreen":
        """Verify a picture. Without one (or with a bad one) the frame (width, height in px) must be known, or the
        native coordinates `normalised` already; else `RecordError("bad_frame")` is raised."""
        info: ImageInfo | None = None
        # The word that stands in a row's provenance until a picture is found.
        problem: str | None = "image_missing"
        if data is not None:
            try:
                data, info = _verified(data)
                problem = None
            except ImageError as error:
                problem = error.reason
        # Coordinates in pixels mean nothing without a frame; the picture's own is as good as a stated one.
        if frame is None and info is not None:
            frame = (info.width_px, info.height_px)
        if frame is None and not normalised:
            raise RecordError("bad_frame", f"no usable picture ({problem}) and no size of the screen")
        width, height = frame or (None, None)
        return cls(width, height, data if info is not None else None, info, tuple(elements), problem)

    @classmethod
    def of_pixels(cls, pixels: np.ndarray, elements: Sequence[Mapping[str, object]] = ()) -> "RecordScreen":
        """A screen of raw pixels, uint8 [height, width, 3], stored as PNG. Pixels whose PNG is in the store already are
        not encoded again: then `data` is None, and `info` says all."""
        height, width = pixels.shape[:2]
        known = known_pictures()
        # The size is part of the key: the same bytes read with another width are another picture.
        hashed = hashlib.sha256(f"{width}x{height}:".encode())
        hashed.update(np.ascontiguousarray(pixels).data)
        key = hashed.hexdigest()
        info = known.of_pixels(key) if known else None
        if info is not None:
            return cls(width, height, None, info, tuple(elements), None)
        try:
            data, info = read_pixels(pixels)
        except ImageError as error:
            return cls(width, height, None, None, tuple(elements), error.reason)
        if known:
            known.add_pixels(key, info)
        return cls(width, height, data, info, tuple(elements), None)


def _verified(data: bytes) -> tuple[bytes | None, ImageInfo]:
    """(the bytes to store or None if the store holds them, what is known of them): decoded whole, unless the same
    bytes were before. Raises `ImageError`."""
    known = known_pictures()
    # Outside of a part (tests, a look at one record) nothing is remembered.
    if known is None:
        return plain_image(data)
    native = hashlib.sha256(data).hexdigest()
    if (info := known.get(native)) is not None:
        return data, info
    if (info := known.of_pixels(native)) is not None:  # not plain, and stored as PNG before
        return None, info
    stored, info = plain_image(data)
    # Stored under another hash than the native file has: remember which native bytes became it.
    if stored is data:
        known.add(info)
    else:
        known.add_pixels(native, info)
    return stored, info


@dataclass
class Mapped:
    """A mapped record. `items == mapped + items of the rejects` is asserted by the driver."""

    items: int = 0
    mapped: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    screens: dict[str, RecordScreen] = field(default_factory=dict)
    rejects: list[RejectedUnit] = field(default_factory=list)
    losses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(native word, status) → count."""


def _at(payload: object, path: str) -> object:
    for name in () if path == "." else path.split("/"):
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


class Adapter(ABC):
    """Base of the source adapters. `version` goes up whenever the mapping changes.

    Most sources are files that stand alone, each read by one reader: `patterns` and `reader` say how. Whoever groups
    files overrides `parts`, whoever groups what was read overrides `records`.
    """

    descriptor: ClassVar[Descriptor]
    version: ClassVar[int] = 1
    patterns: ClassVar[tuple[str, ...]]
    """Globs of the native files, each of which stands alone."""
    reader: ClassVar[Reader]
    """Streams the records of one file (see `pipelines.native.record_readers`)."""
    rows_alone: ClassVar[tuple[str, ...]] = ()
    """Endings of files that `parquet_rows` or `json_lines` alone read, where what comes of a row depends on no other
    row: a large one is read in pieces, each a part of its own."""
    side_lists: ClassVar[tuple[str, ...]] = ()
    """Globs of files that every part depends on where they are there, such as a split list."""
    items_at: ClassVar[tuple[str, ...]] = ()
    """Where a record's native items lie: paths of names to lists within its payload ("steps", "task/actions"; "." is
    the payload itself), whose lengths are added. Empty: a record is one item."""
    space: ActionSpace = ACTION_SPACE
    """Which actions its rows may hold (`pipelines.sources.get` gives an adapter of another): what a space hasn't is
    rejected as `no_counterpart`, or written with what it has."""

    @property
    def mapping_version(self) -> str:
        """What of the adapter goes into code versions: its version, and its action space where that isn't the usual."""
        return f"{self.version}" if self.space == ACTION_SPACE else f"{self.version}.{self.space}"

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Groups of relative file names; no episode may span two. Side files (split lists) need not be named. Small
        groups are joined to one part of the stage (see `pipelines.unify.parts_by_cost`)."""
        return [(name,) for pattern in self.patterns for name in raw.files(pattern)]

    def side_files(self, raw: Raw) -> list[str]:
        """Files that every part depends on, such as split lists."""
        return [name for pattern in self.side_lists for name in raw.files(pattern)]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Stream the records of a part, in order."""
        # An attribute of the class: through the instance a plain function would get `self` as its first
        # argument.
        read = type(self).reader  # by the class: a plain function isn't to be bound
        for file in files:
            yield from read(raw, file)

    def count_items(self, record: Record) -> int:
        """Native items of a record, read from its shape alone: what goes with it where it is refused whole."""
        listed = [found for path in self.items_at if isinstance(found := _at(record.payload, path), list | tuple)]
        return sum(map(len, listed)) if listed else 1

    def items_held(self, record: Record, raw: Raw) -> int:
        """The same for a source of which some stand in files beside the record. Raises what `map` does where these
        can't be read."""
        del raw
        return self.count_items(record)

    @abstractmethod
    def map(self, record: Record, raw: Raw) -> Mapped:
        """Map one record. Raises `RecordError` to quarantine it whole."""


@dataclass(frozen=True)
class RecordBatch:
    """Whole native records as columns: rows `starts[r]` up to `starts[r + 1]` of the table are record r's."""

    file: str | pa.Array
    """The file of all records, or of each."""
    table: pa.Table
    starts: np.ndarray
    native_ids: pa.Array
    """Text, no nulls."""
    locators: pa.Array
    contents: Sequence[bytes]
    """16 bytes a record: equal iff two records are the same (see `pipelines.mapping.columns.record_digests`)."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def where(self, index: int) -> tuple[str, str]:
        """(file, locator) of a record."""
        file = self.file if isinstance(self.file, str) else self.file[index].as_py()
        return file, self.locators[index].as_py()

    def select(self, records: np.ndarray) -> "RecordBatch":
        """Some of the records, in this order."""
        # Rows of the chosen records, moved together: for each the distance from its new to its old beginning.
        sizes = np.diff(self.starts)[records]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.starts[:-1][records] - starts[:-1], sizes) + np.arange(starts[-1])
        chosen = pa.array(records)
        file = self.file if isinstance(self.file, str) else self.file.take(chosen)
        return RecordBatch(
            file,
            self.table.take(pa.array(rows)),
            starts,
            self.native_ids.take(chosen),
            self.locators.take(chosen),
            [self.contents[index] for index in records],
        )


@dataclass
class MappedBatch:
    """A mapped batch. As in `Mapped`, items == mapped + items of the rejects."""

    items: int = 0
    mapped: int = 0
    steps: pa.Table | None = None
    samples: pa.Table | None = None
    screens: dict[str, RecordScreen] = field(default_factory=dict)
    rejects: list[tuple[int, RejectedUnit]] = field(default_factory=list)
    """(number of the record in the batch, what was rejected of it), in order."""
    losses: Counter[tuple[str, str]] = field(default_factory=Counter)


class BatchAdapter(Adapter):
    """An adapter whose sound records are mapped by column, many at once. `map` remains the definition: it maps the
    records that no column can hold, and repeats; both ways give the same rows."""

    @abstractmethod
    def batches(self, raw: Raw, files: tuple[str, ...]) -> Iterator[RecordBatch | Record | Broken]:
        """Stream the records of a part: batches, and between them single records that `map` must take."""

    @abstractmethod
    def map_batch(self, batch: RecordBatch, raw: Raw) -> MappedBatch:
        """Map a batch; it holds sound records only, so nothing is raised."""

    @abstractmethod
    def record(self, batch: RecordBatch, index: int) -> Record:
        """A record of a batch on its own, as `map` takes it."""

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The same stream, one record at a time."""
        for found in self.batches(raw, files):
            if isinstance(found, RecordBatch):
                yield from (self.record(found, index) for index in range(len(found)))
            else:
                yield found
