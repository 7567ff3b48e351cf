"""Small evaluation suites and training data over pages drawn on the spot: own pictures, native forms, real store."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from goldmaker import commit_gold, step_row
from PIL import Image, ImageDraw

from pipelines.mapping.adapter import Raw
from pipelines.prompts import grounding_text, messages
from pipelines.store import Manifest, Store
from quality.contamination.fingerprints import build_fingerprints
from schemas.actions import Click, Finished
from schemas.tables import Samples, Screens, Steps

SIZE = (540, 960)
WORDS = [
    "mail",
    "cart",
    "note",
    "alarm",
    "clock",
    "photo",
    "train",
    "hotel",
    "garden",
    "music",
    "paper",
    "winter",
    "silver",
    "doctor",
]


def page(seed: int, size: tuple[int, int] = SIZE, *, note: str = "") -> Image.Image:
    """A page of rows with words, icons and a coloured bar; another seed is another page. `note` changes a little."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    bar = tuple(int(v) for v in rng.integers(20, 200, 3))
    draw.rectangle((0, 0, size[0], size[1] // 14), fill=bar)
    top = size[1] // 10
    while top < size[1] - 60:
        height = int(rng.integers(40, 120))
        shade = tuple(int(v) for v in rng.integers(120, 250, 3))
        draw.rectangle(
            (int(rng.integers(8, 60)), top, int(rng.integers(size[0] // 2, size[0] - 8)), top + height - 14),
            fill=shade,
            outline="black",
        )
        draw.text((70, top + 6), " ".join(rng.choice(WORDS, 4)), fill="black", font_size=20)
        top += height
    draw.text((12, size[1] - 40), note, fill="black", font_size=24)
    return image


def encode(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """A picture's bytes."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def suite_row(
    number: int, instruction: str, box: Sequence[float] = (100, 200, 160, 240), **more: Any
) -> dict[str, Any]:
    """A row of ScreenSpot-Pro's form on page `number`."""
    return {
        "id": f"q{number}",
        "img_filename": f"app_os/shot_{number}.png",
        "bbox": list(box),
        "img_size": list(SIZE),
        "instruction": instruction,
        "application": "app",
        **more,
    }


def make_suite(
    store: Store,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    pictures: dict[int, bytes],
    suite: str = "screenspot_pro",
) -> Manifest:
    """Native files of a suite → its fingerprints in the store. `pictures` maps page number → bytes."""
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    (folder / "images" / "app_os").mkdir(parents=True, exist_ok=True)
    (folder / "annotations" / "app_os.json").write_text(json.dumps(list(rows)))
    for number, data in pictures.items():
        (folder / "images" / "app_os" / f"shot_{number}.png").write_bytes(data)
    return build_fingerprints(store, suite, Raw(folder))


def sample(
    store: Store,
    number: int,
    data: bytes,
    text: str,
    *,
    box: Sequence[float] = (500.0, 500.0, 600.0, 540.0),
    source: str = "train_set",
    split: str = "train",
    parents: Sequence[str] = (),
    objective: str = "grounding",
) -> dict[str, Any]:
    """A grounding sample (by default) on a picture."""
    sha = store.put_screen(data).sha256
    centre = f"[{round((box[0] + box[2]) / 2)},{round((box[1] + box[3]) / 2)}]"
    prompt = grounding_text(text) if objective == "grounding" else text
    return {
        "sample_id": f"{source}{number}".encode().hex().zfill(32)[-32:],
        "source": source,
        "split": split,
        "platform": "mobile",
        "objective": objective,
        "images": [sha],
        "messages": messages(objective, prompt),
        "answer": centre,
        "target_boxes": [list(box)],
        "tokens": 10,
        "licence": "CC0-1.0",
        "parents": list(parents),
        "synthetic": True,
        "provenance": "{}",
    }


def episode(
    store: Store,
    name: str,
    instruction: str,
    pictures: Sequence[bytes],
    *,
    source: str = "train_set",
    split: str = "train",
    app: str | None = None,
    actions: Sequence[Any] | None = None,
) -> list[dict[str, Any]]:
    """Steps on the given pictures: clicks at different places, then Finished."""
    rows = []
    for index, data in enumerate(pictures):
        info = store.put_screen(data)
        last = index == len(pictures) - 1
        action = actions[index] if actions else (Finished() if last else Click((100 + 37 * index, 300)))
        rows.append(
            step_row(
                name,
                index,
                info.sha256,
                action,
                source=source,
                split=split,
                platform="mobile",
                app=app,
                instruction=instruction,
                width_px=info.width_px,
                height_px=info.height_px,
            )
        )
    return rows


def train_on(
    store: Store,
    samples: Sequence[dict[str, Any]] = (),
    steps: Sequence[dict[str, Any]] = (),
    source: str = "train_set",
    parts: int = 1,
) -> Manifest:
    """Gold (and unified screens) of one source."""
    shas = {sha for row in samples for sha in row["images"]} | {row["screenshot_sha256"] for row in steps}
    screens = []
    for sha in sorted(shas - {None}):
        info = store.put_screen(store.screen_bytes(sha))
        screens.append(
            {
                "screenshot_sha256": sha,
                "width_px": info.width_px,
                "height_px": info.height_px,
                "phash": info.phash,
                "elements": [],
                "source": source,
            }
        )
    return commit_gold(
        store, source, Steps.table(steps), Samples.table(samples), screens=Screens.table(screens), parts=parts
    )
