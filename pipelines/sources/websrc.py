"""WebSRC: questions on the pieces of web pages, with the element that holds the answer.

A site folder `<domain>/<nn>/` holds `dataset.csv` (its columns in any order) and `processed_data/<page>.{png,json}`.
A raw row (made up), and the page's boxes in page pixels:

    question,id,element_id,answer_start,answer
    What is the price of the tea?,sh010000100001,42,0,4.50

    {"2": {"rect": {"x": 100, "y": 80, "width": 900, "height": 400}}, "42": {"rect": {"x": 300, ...}}}

| native | unified |
|---|---|
| question | a vqa sample: question → answer; yes/no questions have no element |
| `element_id` with a box inside the picture | also a grounding sample: "Where is the answer to …?" → the box's centre |

The picture is a crop whose origin is the box of element 2. A question whose page is on a split list
(`dataset_split_release.json`) as dev or test is held out. Rows of the parquet re-host are refused (`unknown_schema`).
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, SplitListError, is_text, notices, read_once, unknown_fields
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import csv_rows, field_id
from schemas.coordinates import centre_in_units

COLUMNS = ("question", "id", "element_id", "answer_start", "answer")
SPLITS = "dataset_split_release.json"
ORIGIN = "2"
"""The element whose box the picture was cut to."""
WORD = "question"
_ID = re.compile(r"[a-z]{2}\d{12}")

DESCRIPTOR = Descriptor(
    id="websrc",
    title="WebSRC",
    origin="https://github.com/X-LANCE/WebSRC-Baseline",
    licence="none stated for the data (UNCONFIRMED; code MIT)",
    platforms=("web",),
    objectives=("vqa", "grounding"),
    size="some 400,000 questions on 6,400 pages of 11 domains",
    citation="Chen et al., WebSRC: A Dataset for Web-Based Structural Reading Comprehension, arXiv 2101.09465",
    frame="page pixels, x, y, width, height; the picture begins at the box of element 2",
    item_unit="question",
    known_problems=(
        "questions are made from templates, many ask for the same fact",
        "some pictures are shorter than the page they were cut from",
        "hidden nodes have empty or negative boxes",
    ),
    loss=(
        Loss(WORD, "vqa sample", "kept", "with a grounding sample where the answer's element lies in the picture"),
        Loss("answer_start", "-", "lossy", "an offset into the page's source, which has no place on the screen"),
    ),
    download=Download("X-LANCE/WebSRC_v1.0"),
)


class WebsrcAdapter(Adapter):
    """One record per question."""

    descriptor = DESCRIPTOR
    version = 2
    side_lists = (f"**/{SPLITS}",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per site."""
        names = raw.files("**/dataset.csv") + raw.files("**/*.parquet")
        return [(name,) for name in names]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time, its columns by name."""
        for file in files:
            if file.endswith(".parquet"):
                yield Broken(file, "table", "unknown_schema", "the parquet re-host has no boxes", 0)
            else:
                yield from csv_rows(raw, file, COLUMNS, of_id=field_id("id"))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One question → samples. Raises `RecordError`: bad_value, empty_text."""
        row: dict[str, str] = record.payload
        question, answer, name = row["question"], row["answer"], row["id"]
        if not _ID.fullmatch(name):
            raise RecordError("bad_value", f"id: expected two letters and twelve digits, found {name[:40]!r}")
        if not question.strip() or not answer.strip():
            raise RecordError("empty_text", "the question or its answer is empty")
        if not (is_text(question) and is_text(answer)):
            raise RecordError("bad_value", "text that is not Unicode")
        page = posixpath.join(posixpath.dirname(record.file), "processed_data", name[2:9])
        data = raw.read_if_there(f"{page}.png")
        screen = RecordScreen.load(data, normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=name, split=_split(raw, name))
        builder.sample("vqa", question, answer, screen, 0, WORD)
        found = unknown_fields(row, frozenset(COLUMNS))
        if row["element_id"] != "-1" and screen.info is not None:
            size = (screen.info.width_px, screen.info.height_px)
            try:
                box = _box(raw.read_if_there(f"{page}.json"), row["element_id"], size)
            except ItemError as error:
                found.append((error.reason, error.detail, {"id": name, "element_id": row["element_id"]}))
            else:
                asked, at = f'the answer to "{question.strip().rstrip("?").strip()}"', centre_in_units(box)
                rules = ["centre_of_box"]
                builder.point(asked, at, screen, 0, WORD, k=1, count=False, target_boxes=[box], rules=rules)
        return notices(builder.finish(), found)


def _box(data: bytes | None, element: str, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The element's box in the crop, 0..1000. Raises `ItemError`."""
    try:
        tree: Any = json.loads(data) if data is not None else {}
        first, rect = tree[ORIGIN]["rect"], tree[element]["rect"]
        left, top = rect["x"] - first["x"], rect["y"] - first["y"]
        corners = [left, top, left + rect["width"], top + rect["height"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ItemError("no_target", f"no box of element {element[:20]}: {error}", WORD) from error
    return unit_box(corners, size, WORD)


def _split(raw: Raw, name: str) -> str:
    lists = _lists(raw.path(SPLITS))
    return next((split for split, prefixes in lists.items() if name.startswith(prefixes)), "train")


@read_once(2, dict)
def _lists(path: Path) -> dict[str, tuple[str, ...]]:
    """held-out split → the beginnings of its question ids (domain letters, site or page number)."""
    try:
        plain = json.loads(path.read_bytes())
        found = {"test": tuple(plain.get("test", [])), "validation": tuple(plain.get("dev", []))}
    except (ValueError, AttributeError, TypeError) as error:
        raise SplitListError(f"{SPLITS}: expected an object of lists: {error}") from error
    if not all(isinstance(one, str) and len(one) >= 4 for prefixes in found.values() for one in prefixes):
        raise SplitListError(f"{SPLITS}: expected lists of site or page ids, such as sp01 or sp0100001")
    return found
