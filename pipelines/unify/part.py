"""One part of a source: its files through the adapter, by column or record by record, each native unit counted once."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc

from pipelines import sources
from pipelines.mapping.adapter import (
    Adapter,
    BatchAdapter,
    Broken,
    Mapped,
    MappedBatch,
    Record,
    RecordBatch,
    RecordError,
    RecordScreen,
    RejectedUnit,
)
from pipelines.mapping.raw_files import Piece
from pipelines.mapping.record_error import is_of_the_name, with_fields
from pipelines.mapping.unicode_text import element_without_nul
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.known_pictures import using
from pipelines.takedown.withdrawn import REASON, taken_of
from pipelines.unify.chunks import ChunkWriter
from pipelines.unify.counts import Counts, FileLook
from pipelines.unify.record_ids import OTHER, REPEAT, RecordIds
from pipelines.unify.refused import CAUSED_BY_NO_RECORD, bounded, refused_items
from pipelines.unify.tracked_raw import TrackedRaw
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.ids import canonical_json, digest
from schemas.tables import Samples, Steps, check_rows

IDS, READS = "ids", "reads"
"""Side files of a part: digests of its records (see `record_ids`), and what it read (see `tracked`)."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartArguments:
    """All a worker needs to run a part; plain data, so that any Beam runner can ship it."""

    source: str
    home: str
    asset: str
    version: str
    spec: PartSpec
    root: str
    companions: dict[str, str]
    groups: tuple[tuple[str, ...], ...]
    """Native files: the adapter reads a group at a time."""
    piece: Piece | None = None
    """Of the only file, where that isn't read whole."""
    side_files: tuple[str, ...] = ()
    decided: dict[int, str] = field(default_factory=dict)
    """Number of a record in the part → what `record_ids.across_parts` decided of its id."""
    space: ActionSpace = ACTION_SPACE
    """Of the actions that its rows may hold."""

    @property
    def files(self) -> tuple[str, ...]:
        """All native files of the part."""
        return tuple(file for group in self.groups for file in group)

    @property
    def stem(self) -> str:
        """What the part's files are named after: a part that was run again with other ids gets files of its own."""
        return f"{self.spec.key}.{digest(sorted(self.decided.items()))[:8]}" if self.decided else self.spec.key


def unify_part(item: PartArguments, out: PartWriter) -> dict[str, object]:
    """Map a part's files and write its tables; returns its counts."""
    # Named, not shipped: an adapter may hold what can't be pickled, and every worker has the same code.
    adapter = sources.get(item.source, item.space)
    store = Store(item.home)
    companions = {name: Path(path) for name, path in item.companions.items()}
    pieces = {item.files[0]: item.piece} if item.piece else {}
    raw = TrackedRaw(Path(item.root), companions, frozenset(item.files) | frozenset(item.side_files), pieces)
    with using(store.known_pictures()):
        part = _Part(item, adapter, raw, store, out)
        for group in item.groups:
            if isinstance(adapter, BatchAdapter):
                for found in _to_the_end(adapter.batches(raw, group), group):
                    # What a batched reader can't put into columns comes as single records, or as Broken ones,
                    # in between.
                    part.batch(adapter, found) if isinstance(found, RecordBatch) else part.one(found)
            else:
                for record in _to_the_end(adapter.records(raw, group), group):
                    part.one(record)
            part.ids.end_group()
        counts = part.finish(item)
    out.side(IDS, part.ids.dump())
    if (reads := raw.reads()) is not None:
        out.arrow(READS, reads)
    return counts.plain()


_Found = TypeVar("_Found", bound=Record | Broken | RecordBatch)


def _to_the_end(found: Iterator[_Found], files: Sequence[str]) -> Iterator[_Found | Broken]:
    """What a reader finds. One that fails on what stands in a file leaves the rest of the part unread: that is a
    damaged file, and neither the end of the source nor a secret."""
    last = files[0]
    try:
        for one in found:
            last = one.file if isinstance(one.file, str) else last
            yield one
    except CAUSED_BY_NO_RECORD:
        # A fault of the code mustn't look like a damaged file: it would quarantine a whole source, silently.
        raise
    except Exception as error:
        # An OSError about the name (too long, a loop of links) is the record's fault; any other is the
        # disk's.
        if isinstance(error, OSError) and not is_of_the_name(error):
            raise
        logger.warning("%s: its reader stopped: %s: %s", last, type(error).__name__, error)
        yield Broken(last, "behind what was read", "unreadable", f"{type(error).__name__}: {error}", ends=True)


class _Part:
    """The books of a part."""

    def __init__(self, item: PartArguments, adapter: Adapter, raw: TrackedRaw, store: Store, out: PartWriter) -> None:
        self.ids = RecordIds(item.decided)
        self._source = item.source
        self._adapter = adapter
        self._raw = raw
        self._store = store
        self._chunks = ChunkWriter(out)
        self._counts = Counts()
        self._read: set[str] = set()
        self._broken: dict[str, str] = {}
        self._damaged: dict[str, str] = {}
        self._taken = taken_of(store.home, item.source)

    def finish(self, item: PartArguments) -> Counts:
        """Write the rest; all counts."""
        self._chunks.flush()
        self._counts.images_missing = self._chunks.images_missing
        self._counts.texts_cleaned = self._chunks.texts_cleaned
        read, broken, damaged = self._read, self._broken, self._damaged
        looks = [FileLook(_storable(file), file in read, broken.get(file), damaged.get(file)) for file in item.files]
        self._counts.add_files(looks, whole=item.piece is None)
        return self._counts

    def batch(self, adapter: BatchAdapter, found: RecordBatch) -> None:
        """Records by column; those whose id must change are mapped alone."""
        decisions = self.ids.check(found.native_ids.to_pylist(), found.contents)
        # Takedowns are looked for before mapping by name, and after it by rows and pictures.
        alone = sorted({*decisions, *(self._taken.natives(found.native_ids) if self._taken else ())})
        for index in alone:
            self._map(adapter.record(found, index), decisions.get(index), found.native_ids[index].as_py())
        if alone:
            # The rest of the batch stays by column: `select` renumbers, so `where` is that of the selection.
            found = found.select(np.setdiff1d(np.arange(len(found)), alone))
        if len(found):
            mapped = _safely_map_batch(adapter, self._raw, found)
            taken = mapped and self._taken and self._taken.tables(mapped.steps, mapped.samples, mapped.screens)
            # Something of this batch was withdrawn, or surprised the columns. Which record it was only the
            # slow way tells.
            if mapped is None or taken:
                for index in range(len(found)):
                    self._map(adapter.record(found, index), None, found.native_ids[index].as_py())
                self._chunks.may_end()
                return
            self._counts.records_in += len(found)
            self._read.update([found.file] if isinstance(found.file, str) else found.file.unique().to_pylist())
            if mapped.steps is not None:
                types = pc.value_counts(mapped.steps["action_type"].drop_null())
                self._counts.actions.update({str(pair["values"]): pair["counts"] for pair in types.to_pylist()})
            self._book(found.where, mapped, len(found), mapped.rejects)
            for name, table in (("steps", mapped.steps), ("samples", mapped.samples)):
                if table is not None:
                    self._chunks.table(name, table)
            self._keep_screens(mapped.screens)
        self._chunks.may_end()

    def one(self, record: Record | Broken) -> None:
        """A record alone."""
        if isinstance(record, Broken):
            self._counts.records_in += 1
            self._counts.records_quarantined += 1
            items = bounded(record.items)
            self._counts.items_in += items
            self._broken.setdefault(record.file, _storable(record.reason))
            if record.ends:
                self._damaged.setdefault(record.file, _storable(record.reason))
            reject = RejectedUnit("record", items, record.reason, record.detail, record.native)
            self._quarantine(record.file, record.locator, reject)
        else:
            self._alone(record)
        self._chunks.may_end()

    def _alone(self, record: Record) -> None:
        self._read.add(record.file)
        try:
            # A record without a native id is named by its content, so an exact repeat is still found.
            content = record.content_digest()
            native_id = record.native_id if record.native_id is not None else content
            decision = self.ids.check([native_id], [bytes.fromhex(content)[:16]]).get(0)
        except (ValueError, TypeError, RecursionError) as error:
            # Values that no JSON has (NaN, sets, endless nesting) have no digest, and the record no name.
            self._counts.records_in += 1
            self._refuse(record, RecordError("bad_value", f"no digest: {type(error).__name__}: {error}"), "")
        else:
            self._map(record, decision, native_id)

    def _map(self, record: Record, decision: str | None, native_id: str) -> None:
        # Counted before anything can fail: in = mapped + quarantined has to hold for the worst record, too.
        self._counts.records_in += 1
        try:
            # Mapped first although it is refused: only then is it known how many items go with it.
            mapped = _safely_map(self._adapter, self._raw, record)
            if decision == REPEAT:
                raise RecordError("duplicate", f"an exact repeat of record {native_id!r}", items=mapped.items)
            if self._taken and self._taken.holds(native_id, mapped.steps, mapped.samples, mapped.screens):
                raise RecordError(REASON, items=mapped.items)
        except RecordError as error:
            self._refuse(record, error, native_id)
            return
        # Another record has the name already: both stay, this one under a name of its own.
        if decision == OTHER:
            _give_id(mapped, native_id, record.content_digest()[:8])
        where = (record.file, record.locator)
        self._book(lambda _: where, mapped, 1, [(0, reject) for reject in mapped.rejects])
        self._counts.actions.update(row["action_type"] for row in mapped.steps if row.get("action_type"))
        self._chunks.rows("steps", mapped.steps)
        self._chunks.rows("samples", mapped.samples)
        self._keep_screens(mapped.screens)

    def _refuse(self, record: Record, error: RecordError, native_id: str) -> None:
        """Quarantine a record whole."""
        self._counts.records_quarantined += 1
        items = refused_items(self._adapter, record, self._raw, error.items)
        self._counts.items_in += items
        # Whatever else was wrong with it, a withdrawn record's payload must not lie in the quarantine.
        reject = RejectedUnit("record", items, error.reason, error.detail, record.payload)
        if error.reason == REASON or (self._taken and self._taken.native(native_id)):
            reject = RejectedUnit("record", items, REASON, "on the store's takedown list", None)
        self._quarantine(record.file, record.locator, reject)

    def _book(
        self,
        where: Callable[[int], tuple[str, str]],
        mapped: Mapped | MappedBatch,
        records: int,
        rejects: Sequence[tuple[int, RejectedUnit]],
    ) -> None:
        rejected = sum(reject.items for _, reject in rejects)
        # The one invariant of adapters, checked at every record, as a total over a source could cancel out.
        if mapped.items != mapped.mapped + rejected:
            raise AssertionError(
                f"{self._source} {where(0)}: {mapped.items} items in, {mapped.mapped} mapped + {rejected} "
                "quarantined: the adapter lost or invented some"
            )
        for record, reject in rejects:
            self._quarantine(*where(record), reject)
            self._counts.images_broken += reject.unit == "image"
        self._counts.records_mapped += records
        self._counts.items_in += mapped.items
        self._counts.items_mapped += mapped.mapped
        for (word, status), number in mapped.losses.items():
            self._counts.losses[f"{_storable(word)}|{status}"] += number

    def _quarantine(self, file: str, locator: str, reject: RejectedUnit) -> None:
        reason = _storable(reject.reason)
        row = {
            "source": self._source,
            "unit": reject.unit,
            "items": reject.items,
            "reason": reason,
            "detail": _storable(with_fields(reason, reject.detail[:400], reject.native)[:500]),
            "file": _storable(file),
            "record": _storable(locator),
            "native": _shown(reject.native),
        }
        self._chunks.rows("quarantine", [row])
        # A refused picture is one refusal, and takes no item with it: its rows stay, without the picture.
        self._counts.reasons[reason] += max(reject.items, 1) if reject.unit != "image" else 1
        self._counts.items_quarantined += reject.items

    def _keep_screens(self, screens: Mapping[str, RecordScreen]) -> None:
        """Store pictures, once each; those without data are in the store already."""
        for sha256, screen in screens.items():
            # No picture could be read, so there is none to store; the row that shows it is counted as lacking
            # one.
            if screen.info is None:
                continue
            elements = [element_without_nul(element) for element in screen.elements]
            if not self._chunks.is_news(sha256, elements):
                continue
            if screen.data is not None:
                self._store.put_screen(screen.data, screen.info)
            row = {
                "screenshot_sha256": sha256,
                "width_px": screen.info.width_px,
                "height_px": screen.info.height_px,
                "phash": screen.info.phash,
                "elements": elements,
                "source": self._source,
            }
            self._chunks.rows("screens", [row])


def _safely_map(adapter: Adapter, raw: TrackedRaw, record: Record) -> Mapped:
    """Native records are hostile until mapped: a shape the adapter didn't foresee costs the record, not the run."""
    try:
        mapped = adapter.map(record, raw)
    except (RecordError, *CAUSED_BY_NO_RECORD):
        raise
    except KeyError as error:
        # Adapters index records directly, so a field that is missing ends here, with one reason for all of
        # them.
        raise RecordError("missing_field", f"expected a field {error.args[0]!r}") from error
    except Exception as error:
        if isinstance(error, OSError) and not is_of_the_name(error):
            raise
        raise RecordError("bad_record", f"{type(error).__name__}: {error}") from error
    # Checked record by record: found at the end of a chunk, one bad value would cost thousands of rows.
    try:
        check_rows(Steps, mapped.steps)
        check_rows(Samples, mapped.samples)
        _encode_texts(element for screen in mapped.screens.values() for element in screen.elements)
    except UnicodeEncodeError as error:
        raise RecordError("bad_value", f"a text holds a lone surrogate: {error.reason}", mapped.items) from error
    except ValueError as error:
        raise RecordError("bad_value", str(error), mapped.items) from error
    return mapped


def _encode_texts(rows: Iterable[Mapping[str, object]]) -> None:
    """Raises `UnicodeEncodeError` for the first text that holds a lone surrogate."""
    for row in rows:
        for value in row.values():
            if isinstance(value, str):
                value.encode()


def _shown(native: object) -> str:
    """A native unit as the quarantine shows it, whatever it is."""
    try:
        return canonical_json(native)
    except (ValueError, TypeError, RecursionError) as error:
        return canonical_json({"not_shown": f"{type(native).__name__}: {error}"[:200]})


def _storable(text: str) -> str:
    """A text as a table can hold it, lone surrogates written out: the quarantine tells of records that have them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _safely_map_batch(adapter: BatchAdapter, raw: TrackedRaw, batch: RecordBatch) -> MappedBatch | None:
    """None if one of the records surprised the columns: then each is mapped alone, and only that one is lost."""
    try:
        mapped = adapter.map_batch(batch, raw)
        # Columns hold encoded text already; elements are dicts still, and would fail only when the chunk is
        # written.
        _encode_texts(element for screen in mapped.screens.values() for element in screen.elements)
        return mapped
    except CAUSED_BY_NO_RECORD:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_of_the_name(error):
            raise
        message = f"{type(error).__name__}: {error}"
        logger.warning("%s: %d records go one by one: %s", batch.where(0)[0], len(batch), message[:300])
        return None


def _give_id(mapped: Mapped, native_id: str, suffix: str) -> None:
    """Rows of a record whose name another one has: `<name>#<digest>`."""
    for row in mapped.steps:
        # Steps are told apart by their episode; a sample has a digest for a name, which takes the suffix in.
        row["episode_id"] = f"{native_id}#{suffix}"
    for row in mapped.samples:
        row["sample_id"] = digest([row["sample_id"], suffix])[:32]
