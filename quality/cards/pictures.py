"""The pictures of a card: rows drawn, spread over action types and objectives, and all of them on one sheet."""

import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from pipelines.derivers.base import unit_hash
from pipelines.prompts import prompt_text
from pipelines.store import PartWriter, Store, StoreError
from pipelines.store.images import ImageError
from pipelines.store.manifest import Manifest
from quality.items.drawing import draw_action, draw_boxes
from schemas.actions import parse

PICTURES = 12
SIDE_PX = 480
SHEET_COLUMNS = 6
SHEET_CELL_PX = 220
Row = dict[str, Any]


def draw_samples(out: PartWriter, store: Store, unified: Manifest) -> list[tuple[str, str]]:
    """Twelve rows with a picture, spread over action types and objectives, drawn; (file, caption)."""
    shown: list[tuple[str, str]] = []
    images = []
    for row in _spread(_drawable(unified)):
        try:
            image, caption = _picture(store, row)
        except (ImageError, StoreError):
            # A picture that can't be drawn makes room for the next.
            continue
        image.thumbnail((SIDE_PX, SIDE_PX))
        name = f"pictures/{len(shown) + 1:02}.png"
        out.bytes(name, _png(image))
        shown.append((name, caption))
        images.append(image)
        if len(shown) == PICTURES:
            break
    if images:
        out.bytes("sheet.png", _png(_sheet(images)))
    return shown


def first_pictures(out: PartWriter, cards: Mapping[str, Manifest]) -> list[tuple[str, str]]:
    """The first picture of up to twelve sources."""
    shown: list[tuple[str, str]] = []
    images = []
    for source, card in cards.items():
        # Each source's first, which its card has drawn already.
        first = next((entry for entry in card.files if entry.path.endswith("pictures/01.png")), None)
        if first is None or len(shown) == PICTURES:
            continue
        data = (card.root / first.path).read_bytes()
        name = f"pictures/{len(shown) + 1:02}.png"
        out.bytes(name, data)
        shown.append((name, source))
        images.append(Image.open(io.BytesIO(data)).convert("RGB"))
    if images:
        out.bytes("sheet.png", _png(_sheet(images)))
    return shown


def _drawable(unified: Manifest) -> Iterator[tuple[str, Row]]:
    """(group, row) of all rows with a picture."""
    columns = [
        "episode_id",
        "step_index",
        "instruction",
        "screenshot_sha256",
        "action_type",
        "action_text",
        "target_box",
    ]
    for path in unified.paths("steps"):
        for row in _rows(path, columns):
            if row["screenshot_sha256"] and row["action_text"]:
                yield row["action_type"], row
    columns = ["sample_id", "objective", "images", "messages", "answer", "target_boxes"]
    for path in unified.paths("samples"):
        for row in _rows(path, columns):
            if row["images"]:
                yield row["objective"], row


def _rows(path: Path, columns: list[str]) -> Iterator[Row]:
    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(columns=columns):
            yield from batch.to_pylist()


def _spread(rows: Iterator[tuple[str, Row]]) -> Iterator[Row]:
    """Rows in turn from each group, within a group by a hash of the row's id: a new row changes few choices."""
    groups: dict[str, list[tuple[float, str, Row]]] = defaultdict(list)
    for group, row in rows:
        name = str(row.get("sample_id") or f"{row['episode_id']}/{row['step_index']}")
        groups[group].append((unit_hash(0, name), name, row))
        # Cut now and then, so that memory doesn't grow with the corpus.
        if len(groups[group]) > 4 * PICTURES:
            groups[group] = sorted(groups[group], key=lambda item: item[:2])[:PICTURES]
    ordered = {name: sorted(group, key=lambda item: item[:2])[:PICTURES] for name, group in sorted(groups.items())}
    # In turn, so that rare actions are seen as well.
    for turn in range(PICTURES):
        for chosen in ordered.values():
            if turn < len(chosen):
                yield chosen[turn][2]


def _picture(store: Store, row: Row) -> tuple[Image.Image, str]:
    if "action_text" in row:
        data = store.screen_bytes(row["screenshot_sha256"])
        image = draw_action(data, parse(row["action_text"]), row["target_box"], 2 * SIDE_PX)
        name = f"{row['episode_id']}/{row['step_index']}"
        return image, f"{row['instruction'][:140]} → {row['action_text'][:120]} ({name[:80]})"
    image = draw_boxes(store.screen_bytes(row["images"][0]), row["target_boxes"], 2 * SIDE_PX)
    return image, f"{prompt_text(row['messages'])[:140]} → {row['answer'][:120]} ({row['sample_id']})"


def _sheet(images: Sequence[Image.Image]) -> Image.Image:
    columns, cell = SHEET_COLUMNS, SHEET_CELL_PX
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (min(columns, len(images)) * cell, rows * cell), "white")
    for place, image in enumerate(images):
        small = image.copy()
        small.thumbnail((cell - 10, cell - 10))
        left, top = place % columns * cell, place // columns * cell
        sheet.paste(small, (left + (cell - small.width) // 2, top + (cell - small.height) // 2))
    return sheet


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    # 128 colours: cards are kept in every version.
    image.convert("RGB").quantize(128).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
