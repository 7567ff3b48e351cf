"""What of a source was quarantined: by reason, how much, with examples and how to look into each."""

import base64
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.pictures.captions import origin_of
from pipelines.markdown_text import markdown_text
from pipelines.store import Store
from pipelines.store.images import open_image
from pipelines.store.manifest import Manifest

REASONS, EXAMPLES = 12, 3
"""Reasons that are listed, the most frequent first, and records that are named for each."""
LOOKED_AT = 100
"""Rows of a reason in a part, among which different records are found: one record may lose many items."""
SIDE_PX, WORDS = 160, 160
PLAIN = re.compile(r"[\w ./#:@+=,'-]+")
"""What a name may hold that a line to copy is made of: no sign that ends a code span or a cell of the table."""
COLUMNS = ["source", "reason", "detail", "file", "record"]
Row = Mapping[str, Any]


def quarantine_table(manifest: Manifest, store: Store) -> str:
    """Markdown; "" where nothing was quarantined."""
    counts: Counter[str] = Counter()
    found: dict[str, dict[tuple[str, str], Row]] = {}
    for path in manifest.paths("quarantine"):
        table = pq.read_table(path, columns=COLUMNS)  # not `native`: a whole record each
        for entry in pc.value_counts(table["reason"]).to_pylist():
            counts[entry["values"]] += entry["counts"]
            records = found.setdefault(entry["values"], {})
            if len(records) < EXAMPLES:
                same = table.filter(pc.equal(table["reason"], entry["values"])).slice(0, LOOKED_AT)
                for row in same.to_pylist():
                    records.setdefault((row["file"], row["record"]), row)
    examples = {reason: list(records.values())[:EXAMPLES] for reason, records in found.items()}
    reasons = counts.most_common(REASONS)
    pictures = _pictures(manifest, store, [row for reason, _ in reasons for row in examples[reason]])
    lines = ["| reason | count | file and record | what was found | picture | to look into it |", "|" + "---|" * 6]
    for reason, count in reasons:
        for place, row in enumerate(examples[reason]):
            first = (f"**{markdown_text(reason, WORDS)}**", f"{count:,}") if place == 0 else ("", "")
            lines.append("| " + " | ".join((*first, *_cells(row, pictures))) + " |")
    if len(counts) > len(reasons):
        lines += ["", f"and {len(counts) - len(reasons)} rarer reasons"]
    return "\n".join(lines) if reasons else ""


def _cells(row: Row, pictures: Mapping[tuple[str, str], str]) -> tuple[str, str, str, str]:
    place = f"{markdown_text(row['file'], WORDS)}, {markdown_text(row['record'], WORDS)}"
    name = f"{row['source']}/{row['file']}#{row['record']}"
    line = f"`vesper explain {shlex.quote(name)}`" if PLAIN.fullmatch(name) else ""
    return place, markdown_text(row["detail"], WORDS), pictures.get((row["file"], row["record"]), ""), line


def _pictures(manifest: Manifest, store: Store, rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(file, record) → its screen, where another item of that record was mapped."""
    wanted, found = {(row["file"], row["record"]) for row in rows}, dict[tuple[str, str], str]()
    # One pass over the text of the column, as the tables may have millions of rows; which of them it is, JSON tells.
    named = "|".join(re.escape(json.dumps(record, ensure_ascii=False)) for _, record in sorted(wanted))
    for table, column in (("steps", "screenshot_sha256"), ("samples", "images")):
        for path in manifest.paths(table) if wanted else ():
            columns = pq.read_table(path, columns=["provenance", column])
            for row in columns.filter(pc.match_substring_regex(columns["provenance"], named)).to_pylist():
                place = origin_of(row)
                digest = row[column] if table == "steps" else next(iter(row[column]), None)
                if place in wanted and place not in found and digest:
                    found[place] = _thumbnail(store.screen_bytes(digest))
    return found


def _thumbnail(data: bytes) -> str:
    image = open_image(data)
    image.thumbnail((SIDE_PX, SIDE_PX))
    buffer = io.BytesIO()
    image.convert("RGB").quantize(64).save(buffer, "PNG", optimize=True)
    return f"![screen](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})"
