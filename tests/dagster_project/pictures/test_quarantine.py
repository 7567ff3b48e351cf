"""The table of what a source's adapter couldn't map, as people read it on the asset."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from PIL import Image

from dagster_project.pictures.quarantine import EXAMPLES, REASONS, quarantine_table
from pipelines.store import Manifest, PartSpec, PartWriter, Store
from schemas.tables import Quarantine


def row(reason: str, record: str, file: str = "a.json", detail: str = "off the screen") -> dict[str, Any]:
    facts = {"source": "x", "unit": "item", "items": 1, "native": "{}"}
    return {**facts, "reason": reason, "detail": detail, "file": file, "record": record}


def unified(store: Store, rows: Sequence[dict[str, Any]], shown: Sequence[tuple[str, str]] = ()) -> Manifest:
    """A source with these rows in quarantine, and a step with a screen of each record (file, place) of `shown`."""
    picture = io.BytesIO()
    Image.new("RGB", (300, 600), "teal").save(picture, "PNG")
    digest = store.put_screen(picture.getvalue()).sha256
    steps = [
        {"provenance": json.dumps({"file": file, "locator": place}), "screenshot_sha256": digest}
        for file, place in shown
    ]

    def write(out: PartWriter) -> None:
        out.table("quarantine", Quarantine.table(rows))
        out.table("steps", pa.Table.from_pylist(steps or [{"provenance": "{}", "screenshot_sha256": None}]))

    with store.build("unified/x", code_version="1", parts=[PartSpec("a", str(rows))]) as build:
        build.run_part(PartSpec("a", str(rows)), write)
        return build.commit()


def lines(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()[2:]]


def test_each_reason_has_its_count_and_three_records_with_the_line_that_explains_them(tmp_path: Path) -> None:
    rows = [row("off_screen", f"row {n}") for n in (0, 0, 1, 2, 3)] + [row("duplicate", "row 9", "b/c.json")]
    shown = lines(quarantine_table(unified(Store(tmp_path), rows), Store(tmp_path)))
    assert [cells[:2] for cells in shown] == [["**off_screen**", "5"], ["", ""], ["", ""], ["**duplicate**", "1"]]
    assert len(shown) == EXAMPLES + 1 and shown[3][2] == "b/c.json, row 9"
    assert [cells[2] for cells in shown[:3]] == [f"a.json, row {n}" for n in range(3)]
    assert shlex.split(shown[3][5].strip("`")) == ["vesper", "explain", "x/b/c.json#row 9"]


def test_a_record_of_which_another_item_was_mapped_shows_its_screen(tmp_path: Path) -> None:
    rows = [row("off_screen", "row 1"), row("off_screen", "row 11")]
    shown = lines(quarantine_table(unified(Store(tmp_path), rows, [("a.json", "row 1")]), Store(tmp_path)))
    assert shown[0][4].startswith("![screen](data:image/png;base64,") and shown[1][4] == ""


def test_words_of_the_data_stay_words(tmp_path: Path) -> None:
    hostile = "`x` | ![a](http://evil/b) <img src=x onerror=alert(1)>\n| c"
    rows = [row("a|b", "r", "`;curl evil`.json", hostile), row("a|b", "r\n2", "$(x).json")]
    text = quarantine_table(unified(Store(tmp_path), rows), Store(tmp_path))
    assert "<img" not in text and "![a]" not in text and len(text.splitlines()) == 4
    assert [len(cells) for cells in lines(text)] == [6, 6] and "vesper explain" not in text


def test_rarer_reasons_are_counted_and_a_whole_source_has_no_table(tmp_path: Path) -> None:
    rows = [row(f"reason_{n:02}", "r") for n in range(REASONS + 2)]
    text = quarantine_table(unified(Store(tmp_path), rows), Store(tmp_path))
    assert text.endswith("and 2 rarer reasons") and len(lines(text)) == REASONS + 2
    assert quarantine_table(unified(Store(tmp_path), []), Store(tmp_path)) == ""
