"""Multimodal-Mind2Web: Mind2Web's actions, one parquet row each, with a screenshot of the full page.

Licence: openrail (its card; the parent text set is CC-BY-4.0).

A raw row (of `data/train-00000-of-00027-<hash>.parquet`, shortened; operation and candidates are JSON in strings, and
`attributes` JSON in a string once more):

    {"action_uid": "u1", "raw_html": "...", "cleaned_html": "...", "operation":
     "{\\"original_op\\": \\"CLICK\\", \\"value\\": \\"\\", \\"op\\": \\"CLICK\\"}",
     "pos_candidates": ["{\\"tag\\": \\"a\\", \\"is_original_target\\": true, \\"attributes\\": \\"{...}\\"}"],
     "neg_candidates": [...], "website": "site", "domain": "d", "subdomain": "s", "annotation_id": "e1",
     "confirmed_task": "Do it", "screenshot": {"bytes": ..., "path": null}, "action_reprs": ["[a]  x -> CLICK"],
     "target_action_index": "0", "target_action_reprs": "[a]  x -> CLICK"}

| native (`original_op`, else `op`) | unified |
|---|---|
| CLICK, TYPE, SELECT, HOVER, ENTER | as in mind2web |
| end of the task | nothing: the source has no row for it |

Rows of a task need not be adjacent: they are put together by annotation_id over all files of a split, and ordered by
target_action_index; a missing index is a gap (rule `steps_missing_in_source`). The frame is the row's own screenshot; a
row without a usable one takes its html (else body) candidate's box (rule `frame_from_html`). Split: train, else test.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, picture_bytes, plain_number, refusing, text_of, whole_number
from pipelines.native.mind2web_actions import actions_of, elements_of, is_lossy, operation_of, page_size, target_of
from pipelines.native.spill import Spill
from schemas.action_types import ActionSpace

BATCH_ROWS = 8
HELD_BYTES = 256 << 20
"""Rows of unfinished episodes held in memory; more of them wait on disk."""
_SHARD = re.compile(r"(?P<split>.+?)-\d+-of-\d+.*\.parquet")
_UNREAD = ("raw_html", "cleaned_html")
_READ = (
    "action_uid",
    "operation",
    "pos_candidates",
    "neg_candidates",
    "website",
    "domain",
    "subdomain",
    "annotation_id",
    "confirmed_task",
    "screenshot",
    "action_reprs",
    "target_action_index",
    "target_action_reprs",
)
_OTHER = "other operations"

DESCRIPTOR = Descriptor(
    id="multimodal_mind2web",
    title="Multimodal-Mind2Web",
    licence="openrail",
    platforms=("web",),
    size="14,193 actions of 2,022 tasks; train 7,775 of 1,009",
    citation="Zheng et al., GPT-4V(ision) is a Generalist Web Agent, if Grounded, arXiv 2401.01614",
    frame="pixels of the row's full-page screenshot, x, y, width, height, origin top left of the page",
    record_unit="episode",
    known_problems=(
        "train screenshots may be rendered badly",
        "236 train episodes have a step without a positive candidate",
        "screens of one task have several sizes; some have 100 million pixels and are refused (image_bomb)",
        "the same tasks as mind2web",
    ),
    loss=(
        Loss("CLICK", "Click", "kept", "centre of the target's box"),
        Loss("TYPE", "Click, Type", "kept", "empty text is quarantined"),
        Loss("SELECT", "Click, Type", "lossy", "the option's place is unknown; its text is typed. v2: SelectOption"),
        Loss("HOVER", "Hover", "kept", "from original_op; op says CLICK"),
        Loss("ENTER", "PressEnter", "kept", "from original_op; op says CLICK; needs no target"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<op>, or no operation at all"),
        Loss("raw_html, cleaned_html", "-", "lossy", "stay in the raw file"),
        Loss("neg_candidates", "screens.elements", "lossy", "boxes and names only"),
        Loss("action_reprs", "-", "lossy", "the row's own is kept in native_action: a notation, no sentence"),
    ),
    download=Download("osunlp/Multimodal-Mind2Web", files=("data/*.parquet",)),
)


class MultimodalMind2webAdapter(Adapter):
    """One record per episode, of rows that may lie anywhere in the split's files."""

    descriptor = DESCRIPTOR
    items_at = ("rows",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per split: an episode may lie in several of its shards. A file of another name is its own part."""
        groups: dict[str, list[str]] = {}
        for name in raw.files("**/*.parquet"):
            match = _SHARD.fullmatch(name)
            groups.setdefault(match["split"] if match else name, []).append(name)
        return [tuple(names) for _, names in sorted(groups.items())]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Episodes in the order in which they are complete; those of a damaged file come last, with what was read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Counted first: an episode is complete when as many rows were read.
        sizes: Counter[str] = Counter()
        sound = []
        for file in files:
            try:
                with pq.ParquetFile(raw.path(file)) as table:
                    if missing := sorted(set(_READ) - set(table.schema_arrow.names)):
                        rows = int(table.metadata.num_rows)
                        yield Broken(file, "schema", "unknown_schema", f"missing columns {missing}", rows)
                        continue
                    for batch in table.iter_batches(columns=["annotation_id"]):
                        sizes.update(str(value) for value in batch.column(0).to_pylist())
                # Only files whose ids were all read: otherwise an episode would seem complete too early.
                sound.append(file)
            except (pa.ArrowException, OSError) as error:
                yield Broken(file, "file", "truncated_record", f"parquet: {str(error)[:200]}", 0, ends=True)
        held = _Held()
        for file in sound:
            number = 0
            try:
                with pq.ParquetFile(raw.path(file)) as table:
                    unknown = sorted(set(table.schema_arrow.names) - set(_READ) - set(_UNREAD))
                    rows = int(table.metadata.num_rows)
                    for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=list(_READ)):
                        for row in batch.to_pylist():
                            key = held.put(row, file, number, unknown)
                            number += 1
                            if held.count(key) == sizes[key]:
                                yield held.take(key)
            except (pa.ArrowException, OSError) as error:
                detail = f"parquet: {str(error)[:200]}"
                yield Broken(file, f"row {number}", "truncated_record", detail, rows - number, ends=True)
        for key in held.open_episodes():
            yield held.take(key)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text."""
        rows: list[dict[str, Any]] = record.payload["rows"]
        pictures: list[bytes | None] = record.payload["pictures"]
        first = rows[0]
        with refusing(len(rows)):
            name, goal = (text_of(first, field, _OTHER) for field in ("annotation_id", "confirmed_task"))
        site = first.get("website")
        folder = record.file.rpartition("/")[2]
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=goal,
            split="train" if folder.startswith("train") else "test",
            app=site if isinstance(site, str) and site else None,
        )
        due = 0
        # By their numbers; rows without one come last and are rejected.
        for place in sorted(range(len(rows)), key=lambda place: _order(rows[place])):
            index = _index(rows[place])
            if index is not None:
                # Sorted by their numbers, so a smaller one than the next that is due stands twice.
                if index < due:
                    detail = f"target_action_index {index} stands twice"
                    builder.reject("duplicate", native=rows[place], native_index=index, word=_OTHER, detail=detail)
                    continue
                if index > due:
                    builder.gap("steps_missing_in_source")
                due = index + 1
            _map_row(builder, rows[place], pictures[place], index, self.space)
        found: list[tuple[str, str, Any]] = [
            (f"unknown_field:{name[:60]}", "the row is mapped without it", name) for name in record.payload["unknown"]
        ]
        return notices(builder.finish(), found)


class _Held:
    """Rows of episodes that aren't complete yet."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, int, tuple[Any, bytes] | None]]] = {}
        self._unknown: dict[str, list[str]] = {}
        self._bytes = 0
        self._spill = Spill()
        self._spilled = 0

    def put(self, row: dict[str, Any], file: str, number: int, unknown: list[str]) -> str:
        key = str(row["annotation_id"])
        data = picture_bytes(row.pop("screenshot")) or b""
        size = len(data) + sum(len(str(text)) for text in (row["neg_candidates"] or []))
        pair: tuple[Any, bytes] | None = (row, data)
        # Beyond the limit rows wait on disk: shards interleave their episodes.
        if self._bytes + size > HELD_BYTES:
            self._spill.put(f"{file}#{number}", row, data)
            self._spilled, pair = self._spilled + 1, None
        else:
            self._bytes += size
        self._rows.setdefault(key, []).append((file, number, pair))
        self._unknown[key] = unknown
        return key

    def count(self, key: str) -> int:
        return len(self._rows[key])

    def open_episodes(self) -> list[str]:
        return list(self._rows)

    def take(self, key: str) -> Record:
        rows, pictures = [], []
        places = self._rows.pop(key)
        for file, number, pair in places:
            self._spilled -= pair is None
            row, data = pair or self._spill.get(f"{file}#{number}")
            rows.append(row)
            pictures.append(data or None)
        # Nothing is open any more, so all that was held is free.
        if not self._rows:
            self._bytes = 0
            self._spill = self._spill if self._spilled else Spill()
        payload = {"rows": rows, "pictures": pictures, "unknown": self._unknown.pop(key)}
        native_id = key if isinstance(rows[0].get("annotation_id"), str) else None
        # The pictures aren't part of it: equal rows are repeats whatever their encoding.
        return Record(places[0][0], f"row {places[0][1]}", payload, native_id, content=rows)


def _index(row: dict[str, Any]) -> int | None:
    """target_action_index, a text of digits; some tools write it as a number."""
    index = whole_number(plain_number(row.get("target_action_index")))
    return index if index is not None and 0 <= index < 10**6 else None


def _order(row: dict[str, Any]) -> tuple[bool, int]:
    index = _index(row)
    return index is None, index or 0


def _map_row(
    builder: EpisodeBuilder, row: dict[str, Any], picture: bytes | None, index: int | None, space: ActionSpace
) -> None:
    """Add or reject one action."""
    word = _OTHER
    native = {
        "action_uid": row.get("action_uid"),
        "operation": row.get("operation"),
        "pos_candidates": row.get("pos_candidates"),
        "action_repr": row.get("target_action_reprs"),
    }
    try:
        if index is None:
            raise ItemError("bad_value", f"target_action_index: {row.get('target_action_index')!r:.60}")
        action = _decoded(row)
        word = operation_of(action)
        rules = ["frame_of_screenshot"]
        bare = RecordScreen.load(picture, normalised=True)
        frame: tuple[float, float] | None = None
        # The picture's own size, as boxes were written for it.
        if bare.info is not None:
            frame = (float(bare.info.width_px), float(bare.info.height_px))
        elif (page := page_size(action, word)) is not None:
            frame, rules = page, ["frame_from_html"]
        target = target_of(action, word) if word != "ENTER" else None
        actions, box = actions_of(word, action["operation"].get("value"), target, frame, space)
        screen = bare
        if frame is not None:
            size = (max(1, round(frame[0])), max(1, round(frame[1])))
            screen = RecordScreen(*size, bare.data, bare.info, tuple(elements_of(action, frame)), bare.problem)
    except ItemError as error:
        place = index if index is not None else -1
        builder.reject(error.reason, native=native, native_index=place, word=word, detail=error.detail)
        return
    mapped = MappedAction(actions, word, is_lossy(word, space), ["centre_of_target", *rules] if box else rules, box)
    builder.take(mapped, native, index, screen)


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its JSON strings read. A candidate that can't be read stays text, and is passed over by tag.

    Raises `ItemError("bad_value")` for an operation that is no JSON.
    """
    try:
        operation = row.get("operation")
        action = {"operation": json.loads(operation) if isinstance(operation, str) else operation}
    except (ValueError, RecursionError) as error:
        raise ItemError("bad_value", f"operation: {error}") from error
    for name in ("pos_candidates", "neg_candidates"):
        listed = row.get(name)
        action[name] = [_candidate(text) for text in listed] if isinstance(listed, list) else listed
    return action


def _candidate(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text
