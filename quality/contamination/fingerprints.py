"""`fingerprints/<suite>`: what is kept of evaluation data, so that training data can be held against it.

Two kinds of evaluation data: suites that exist for scoring only (`pipelines.suites`, from native files), and the test
splits of sources that also train (from `unified/<source>`). Neither leaves here as a row anyone could train on: kept
are the words of the instruction, hashes, the target's box, the picture's look and a small thumbnail,
which is what a person needs to see beside a hit. A picture shared by many items is kept once.

Tables: `items`, `pictures`, `thumbs` (not hashed: an encoder's bytes change with its version), and `rejects` (native
rows that are no item, with the reason).
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipelines.mapping.adapter import Raw
from pipelines.prompts import prompt_text, template
from pipelines.prompts.history import PROMPT_VERSIONS
from pipelines.raw.file_hashes import FileHashes
from pipelines.raw.rawdata import list_raw
from pipelines.store import Build, CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.store.images import ImageError, open_image, phash
from pipelines.suites import BadRow, SuiteItem, get, registry
from quality.contamination.text_prints import VERSION as TEXT_VERSION
from quality.contamination.text_prints import TextPrint, shingles, text_print
from quality.duplicates.looks import VERSION as LOOK_VERSION
from quality.duplicates.looks import look
from schemas.ids import digest
from schemas.tables import Column, Table

CODE_VERSION = f"4.{TEXT_VERSION}.{LOOK_VERSION}"
SPLIT_SOURCES = ("aitz", "android_control", "gui_odyssey", "mind2web", "multimodal_mind2web")
"""Sources whose test split is an evaluation suite of its own."""
THUMB_PX = 480
THUMB_QUALITY = 60
FLUSH_PICTURES = 256
HAS_ITEMS = CheckSpec("there are items", "The suite yielded no item. Only warns for a source without a test split")
ROWS_ADD_UP = CheckSpec("every row is an item or has a reason", "Rows of the suite were skipped silently")
FILES_WHOLE = CheckSpec(
    "every file is read to its end", "A file of the suite ends too early: training data isn't held against its rest"
)
MOST_ROWS = CheckSpec("most rows are items", "More than half of the suite's rows were refused")
HAS_PICTURES = CheckSpec("pictures are there", "More than one in ten items has no picture", blocking=False)
CHECKS = (HAS_ITEMS, ROWS_ADD_UP, FILES_WHOLE, MOST_ROWS, HAS_PICTURES)


class Items(Table, version=2):
    """What an evaluation asks, as far as training data could be like it."""

    item_id = Column(pa.string(), "item of the suite")
    scope = Column(
        pa.string(), "target: a place on the screen; goal: of an episode; step: a screen of one, no own task"
    )
    language = Column(pa.string(), "of the instruction, ISO 639-1", null=True)
    app = Column(pa.string(), "app or site", null=True)
    words = Column(pa.string(), "the normalised instruction", null=True)
    weight = Column(pa.float32(), "how telling the words are", null=True)
    meaning = Column(pa.string(), "what its vector wouldn't say: values, names, turns, parts (JSON)", null=True)
    literals = Column(pa.list_(pa.string()), "names, numbers and quotations in it", null=True)
    shingles = Column(pa.list_(pa.uint64()), "hashes of its runs of words", null=True)
    box = Column(pa.list_(pa.float32()), "what is meant: left, top, right, bottom in 0..1000", null=True)
    points = Column(pa.list_(pa.float32()), "outline of what is meant: x, y, x, y, ... in 0..1000", null=True)
    picture_sha256 = Column(pa.string(), "its screen", null=True)
    picture = Column(pa.string(), "name of the screen's file", null=True)
    notes = Column(pa.list_(pa.string()), "what is odd about the row")


PICTURES = pa.schema(
    [
        ("sha256", pa.string()),
        ("phash", pa.uint64()),
        ("width_px", pa.int32()),
        ("height_px", pa.int32()),
        ("cells", pa.binary()),
    ]
)
"""`cells` is the look (`quality.duplicates.looks`)."""
THUMBS = pa.schema([("sha256", pa.string()), ("thumb", pa.binary())])
"""`thumb` is a small WebP."""
REJECTS = pa.schema([("file", pa.string()), ("locator", pa.string()), ("reason", pa.string()), ("detail", pa.string())])


def asset_of(suite: str) -> str:
    """Key of a suite's fingerprints; that of a source's test split is `asset_of(split_name(source))`."""
    return f"fingerprints/{suite}"


def split_name(source: str) -> str:
    """The name under which a source's test split stands among the suites."""
    return f"{source}_test"


def suite_names() -> list[str]:
    """All suites that training data is held against: the registered ones, then test splits."""
    return [*registry(), *(split_name(source) for source in SPLIT_SOURCES)]


def build_fingerprints(store: Store, suite: str, raw: Raw) -> Manifest:
    """Native files of a registered suite → `fingerprints/<suite>`.

    Raises `ValueError` for an unknown suite or an empty folder. Files that didn't change are not read again.
    """
    registered = get(suite)
    names = list_raw(raw)
    if not names:
        raise ValueError(f"{asset_of(suite)}: expected native files of {registered.card.title}, found none")
    hashes = FileHashes(store.home / "cache" / "raw" / f"{suite}.json")
    # Name and hash of each file: the suite is read again when one of them changes.
    listing = [[name, sha256] for name, sha256 in zip(names, hashes.all([raw.path(n) for n in names]), strict=True)]
    hashes.save()
    spec = PartSpec("all", digest([CODE_VERSION, listing]))
    known = store.current(f"raw/{suite}")
    inputs = {known.asset: known.version} if known is not None else {}
    with store.build(
        asset_of(suite), code_version=CODE_VERSION, config={"suite": suite}, inputs=inputs, parts=[spec]
    ) as build:
        build.run_part(spec, lambda out: write_items(out, "all", registered.items(raw)))
        return commit_items(build, suite)


def commit_items(build: Build, suite: str, *, may_be_empty: bool = False) -> Manifest:
    counts, reasons = Counter[str](), Counter[str]()
    for result in build.results:
        counts.update({key: value for key, value in result.counts.items() if isinstance(value, int)})
        reasons.update(result.counts["reasons"])
    # Damaged files block: what stands behind their break is held against nothing.
    damaged = sorted(name for result in build.results for name in result.counts["damaged"])
    shown = counts["items"] - counts["without_picture"]
    checks = [
        HAS_ITEMS.check(counts["items"] > 0, counts["items"], "at least 1", limit=1, blocking=not may_be_empty),
        ROWS_ADD_UP.check(
            counts["items"] + counts["rejected"] == counts["read"],
            f"{counts['items']} + {counts['rejected']}",
            counts["read"],
            counts["items"] + counts["rejected"],
        ),
        FILES_WHOLE.check(not damaged, "; ".join(damaged[:5]) or "all files", "all files", len(damaged), 0),
        MOST_ROWS.check(
            2 * counts["rejected"] <= counts["read"],
            f"{counts['rejected']} rejected",
            f"at most half of {counts['read']}",
            counts["rejected"],
            counts["read"] / 2,
        ),
        HAS_PICTURES.check(
            10 * shown >= 9 * counts["items"], f"{shown} of {counts['items']} items", "nine of ten", shown
        ),
    ]
    return build.commit(counts={"suite": suite, **counts, "reasons": dict(sorted(reasons.items()))}, checks=checks)


PrintedItem = tuple[dict[str, Any], bytes | None]
"""A row of `items`, and its picture."""


def write_items(out: PartWriter, key: str, found: Iterable[SuiteItem | BadRow | PrintedItem]) -> dict[str, Any]:
    """Stream items into tables; pictures are written as they come and never held all at once."""
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, str]] = []
    damaged: set[str] = set()
    counts: Counter[str] = Counter(items=0, rejected=0, read=0, without_picture=0)
    seen: Counter[str] = Counter()
    with _PictureWriter(out, key) as pictures:
        for item in found:
            counts["read"] += 1
            if isinstance(item, BadRow):
                if item.ends:
                    damaged.add(f"{item.file}: {item.reason}")
                rejects.append(
                    {"file": item.file, "locator": item.locator, "reason": item.reason, "detail": item.detail[:400]}
                )
                continue
            row, data = _suite_row(item) if isinstance(item, SuiteItem) else item
            if data is not None:
                row["picture_sha256"], wrong = pictures.add(data)
                row["notes"] = [*row["notes"], *([wrong] if wrong else [])]
            counts["without_picture"] += row["picture_sha256"] is None
            # Ids may repeat within a suite, and every item counts.
            seen[row["item_id"]] += 1
            if seen[row["item_id"]] > 1:
                row["item_id"] += f"#{seen[row['item_id']]}"
            rows.append(row)
        counts["pictures"] = pictures.count
    counts["items"], counts["rejected"] = len(rows), len(rejects)
    # Sorted, so that the order of files has no say in the bytes.
    out.table("items", pa.Table.from_pylist(sorted(rows, key=lambda row: row["item_id"]), schema=Items.schema))
    out.table("rejects", pa.Table.from_pylist(rejects, schema=REJECTS))
    notes = Counter(note for row in rows for note in row["notes"])
    reasons = {**Counter(reject["reason"] for reject in rejects), **notes}
    return {**counts, "damaged": sorted(damaged), "reasons": reasons}


class _PictureWriter:
    """Writes the tables `pictures` and `thumbs` in pieces, each picture once."""

    def __init__(self, out: PartWriter, key: str) -> None:
        self._path = out.path(f"part-{key}.pictures.parquet", table="pictures")
        self._thumb_path = out.path(f"part-{key}.thumbs.parquet", table="thumbs", hashed=False)
        self._rows: list[dict[str, Any]] = []
        self._thumbs: list[dict[str, Any]] = []
        self._seen: dict[str, str | None] = {}
        self.count = 0

    def __enter__(self) -> "_PictureWriter":
        self._writer = pq.ParquetWriter(self._path, PICTURES, compression="zstd")
        self._thumb_writer = pq.ParquetWriter(self._thumb_path, THUMBS, compression="none")
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()
        self._thumb_writer.close()

    def add(self, data: bytes) -> tuple[str | None, str | None]:
        """(sha256, None), or (None, reason) for bytes that are no usable picture."""
        sha = hashlib.sha256(data).hexdigest()
        # A picture of many items is decoded and kept once.
        if sha not in self._seen:
            try:
                image = open_image(data)
                self._rows.append(_picture_row(sha, image))
                self._thumbs.append({"sha256": sha, "thumb": _thumb(image)})
                self._seen[sha] = None
                self.count += 1
            except ImageError as error:
                # The reason is remembered, so that each item on a bad picture has it.
                self._seen[sha] = error.reason
            if len(self._rows) >= FLUSH_PICTURES:
                self._flush()
        wrong = self._seen[sha]
        return (sha, None) if wrong is None else (None, wrong)

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=PICTURES))
            self._thumb_writer.write_table(pa.Table.from_pylist(self._thumbs, schema=THUMBS))
        self._rows, self._thumbs = [], []


def _picture_row(sha: str, image: Image.Image) -> dict[str, Any]:
    return {
        "sha256": sha,
        "phash": phash(image),
        "width_px": image.width,
        # Bytes, not a list: looks are compared as arrays.
        "height_px": image.height,
        "cells": look(image).to_bytes(),
    }


def _thumb(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMB_PX, THUMB_PX))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=THUMB_QUALITY)
    return buffer.getvalue()


def _suite_row(item: SuiteItem) -> tuple[dict[str, Any], bytes | None]:
    points = [number for point in item.points for number in point]
    row = item_row(
        item.id,
        item.scope,
        text_print(item.instruction),
        box=item.box,
        points=points,
        language=item.language,
        app=item.app,
        picture=item.picture,
        notes=item.notes,
    )
    return row, item.data


def item_row(identity: str, scope: str, text: TextPrint, **more: Any) -> dict[str, object]:
    """A row of `items`; what is left out is null or empty."""
    box = more.get("box")
    return {
        "item_id": identity,
        "scope": scope,
        "language": more.get("language"),
        "app": more.get("app"),
        "words": text.plain,
        "weight": text.weight,
        "meaning": text.meaning.as_json(),
        "literals": sorted(text.literals),
        "shingles": shingles(text.words),
        "box": None if box is None else [float(v) for v in box],
        "points": [float(v) for v in more.get("points") or ()],
        "picture_sha256": more.get("sha"),
        "picture": more.get("picture"),
        "notes": list(more.get("notes") or ()),
    }


def subject(messages: str) -> str:
    """What a prompt is about, without the wording that all prompts of a kind share; empty if that is all there is."""
    # What a template adds is common to all prompts, and would make them alike.
    text = prompt_text(messages)
    for pattern in _patterns():
        if (found := pattern.fullmatch(text)) is not None:
            named = found.groupdict()
            return (named.get("goal") or named.get("expression") or "").strip()
    return text.strip()


_TEMPLATES = (
    "navigation_no_thinking",
    "navigation",
    "plan",
    "caption",
    "region",
    "perception_point",
    "perception_list",
    "grounding",
)
_SLOT = re.compile(r"\\\{(\w+)\\\}")


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """The templates as patterns: a slot is a group of its name."""
    # Slots may hold anything, line breaks included.
    # A version has words of its own for some; equal patterns twice do no harm.
    texts = dict.fromkeys(template(name, version).strip() for version in PROMPT_VERSIONS for name in _TEMPLATES)
    patterns = (_SLOT.sub(r"(?P<\1>.*?)", re.escape(text)) for text in texts)
    return tuple(re.compile(rf"{pattern}\s*", re.DOTALL) for pattern in patterns)
