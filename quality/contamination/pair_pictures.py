"""A hit as a person wants to see it: the training item with its target drawn, and the suite's item beside it."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from pipelines.store import Manifest, PartWriter, Store, StoreError
from pipelines.store.images import ImageError
from quality.items.drawing import draw_action, draw_boxes, to_png
from schemas.actions import parse

if TYPE_CHECKING:
    from quality.contamination.suite_index import SuiteIndex

PAIRS = pa.schema(
    [
        ("item_id", pa.string()),
        ("suite", pa.string()),
        ("suite_item", pa.string()),
        ("kind", pa.string()),
        ("file", pa.string()),
    ]
)
"""`file` is the picture's name within the version."""
PANEL_PX = 480
CAPTION_PX = 84


def draw_pairs(
    out: PartWriter, store: Store, index: SuiteIndex, hits: Sequence[Mapping[str, Any]], shown: Mapping[str, Any]
) -> dict[str, int]:
    """Rows of `hits` → `pairs/<number>.png` and the table `pairs`. `shown` maps item id → its quarantine row."""
    # Only of what is drawn, as gold tables are large.
    targets = _targets(store, hits)
    found = [index.item(hit["suite"], hit["suite_item"]) for hit in hits]
    thumbs = index.thumbs(row["picture_sha256"] for row in found if row["picture_sha256"] is not None)
    rows = []
    for number, (hit, row) in enumerate(zip(hits, found, strict=True)):
        mine = shown[hit["item_id"]]
        left = _left(store, mine["picture_sha256"], targets.get(hit["item_id"], ([], None)))
        right = _right(thumbs.get(row["picture_sha256"] or ""), row)
        words = [f"{hit['item_id']} ({mine['source']})", mine["text"] or ""]
        theirs = [f"{hit['suite']}: {hit['suite_item']}", row["words"]]
        measure = f"{hit['kind']} {hit['measure']:.3g} (threshold {hit['threshold']:.3g})"
        name = f"pairs/{number:03d}.png"
        out.bytes(name, to_png(side_by_side(left, right, words, theirs, measure)), hashed=False)
        rows.append({**{key: hit[key] for key in ("item_id", "suite", "suite_item", "kind")}, "file": name})
    out.table("pairs", pa.Table.from_pylist(rows, schema=PAIRS))
    return {"drawn": len(rows)}


def side_by_side(
    left: Image.Image | None, right: Image.Image | None, words: Sequence[str], theirs: Sequence[str], measure: str
) -> Image.Image:
    """Two pictures (None: an empty panel) with captions under them."""
    panels = [_panel(left), _panel(right)]
    height = max(panel.height for panel in panels)
    whole = Image.new("RGB", (2 * PANEL_PX + 24, height + CAPTION_PX + 8), "white")
    draw = ImageDraw.Draw(whole)
    for place, (panel, lines) in enumerate(zip(panels, (words, theirs), strict=True)):
        x = 8 + place * (PANEL_PX + 8)
        whole.paste(panel, (x, 4))
        # A few lines each, so that pairs have one height.
        text = [part for line in lines for part in textwrap.wrap(_ascii(line), 76)[:3]]
        draw.multiline_text((x, height + 8), "\n".join([*text[:4], measure] if place else text[:5]), fill="black")
    return whole


def _panel(image: Image.Image | None) -> Image.Image:
    if image is None:
        empty = Image.new("RGB", (PANEL_PX, PANEL_PX // 3), (235, 235, 235))
        ImageDraw.Draw(empty).text((8, 8), "no picture: the words alone were hit", fill="black")
        return empty
    copy = image.copy()
    copy.thumbnail((PANEL_PX, PANEL_PX))
    return copy


def _ascii(text: str) -> str:
    """What the built-in font can draw."""
    return text.encode("ascii", "replace").decode()[:400]


Target = tuple[list[list[float]], str | None]
"""Boxes, and the text of an action."""


def _targets(store: Store, hits: Sequence[Mapping[str, Any]]) -> dict[str, Target]:
    """Item → what is drawn on it, for those items of `hits` that have a target."""
    wanted: dict[str, set[str]] = {}
    for hit in hits:
        wanted.setdefault(hit["source"], set()).add(hit["item_id"])
    found: dict[str, Target] = {}
    for source, names in wanted.items():
        gold = store.require(f"gold/{source}")
        samples = [name.removeprefix("sample:") for name in names if name.startswith("sample:")]
        for row in _rows(gold, "samples", ["sample_id", "target_boxes", "answer", "objective"], "sample_id", samples):
            # The answer as a click, so that it is drawn as a point.
            action = f"Click(box=({row['answer'].strip('[]')}))" if row["objective"] == "grounding" else None
            found[f"sample:{row['sample_id']}"] = (row["target_boxes"], action)
        parts = [name.split(":", 1)[1].split("/", 1)[1] for name in names if not name.startswith("sample:")]
        episodes = sorted(set(parts) | {part.rpartition("/")[0] for part in parts})
        columns = ["episode_id", "step_index", "target_box", "action_text"]
        for row in _rows(gold, "steps", columns, "episode_id", episodes):
            boxes = [row["target_box"]] if row["target_box"] else []
            name = f"{source}/{row['episode_id']}"
            found[f"step:{name}/{row['step_index']}"] = (boxes, row["action_text"])
            # An episode is shown by its first step.
            if row["step_index"] == 0:
                found[f"episode:{name}"] = (boxes, row["action_text"])
    return found


def _rows(gold: Manifest, table: str, columns: list[str], key: str, values: Sequence[str]) -> list[dict[str, Any]]:
    if not values:
        return []
    chosen: list[dict[str, Any]] = []
    for path in gold.paths(table):
        chosen += pq.read_table(path, columns=columns, filters=[(key, "in", list(values))]).to_pylist()
    return chosen


def _left(store: Store, sha: str | None, target: Target) -> Image.Image | None:
    if sha is None:
        return None
    boxes, text = target
    try:
        action = parse(text) if text else None
    except ValueError:  # an answer that is no point, such as a refusal
        action = None
    try:
        return draw_action(store.screen_bytes(sha), action, boxes[0] if boxes else None, PANEL_PX)
    except (StoreError, ImageError):
        return None


def _right(thumb: bytes | None, row: Mapping[str, Any]) -> Image.Image | None:
    if thumb is None:
        return None
    points = list(zip(row["points"][::2], row["points"][1::2], strict=True))
    # A suite may give an outline or a point instead of a box.
    boxes = [row["box"]] if row["box"] else [[x - 8, y - 8, x + 8, y + 8] for x, y in points]
    return draw_boxes(thumb, boxes) if boxes else Image.open(io.BytesIO(thumb)).convert("RGB")
