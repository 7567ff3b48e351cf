"""A picture of what the trigger scan suspects: one row a pattern, the first screens it was seen on, contrast raised."""

import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from pipelines.store.images import open_image
from quality.safety.trigger_scan import Trigger

COLUMNS, ROWS = 8, 8
TILE_PX, CAPTION_PX = 96, 14
AROUND_PX = 12


def montage(triggers: Sequence[Trigger], load: Callable[[str], bytes]) -> bytes:
    """PNG: crops of the first `COLUMNS` screens of the first `ROWS` triggers. Raises `ImageError`, `StoreError`."""
    shown = triggers[:ROWS]
    sheet = Image.new("RGB", (COLUMNS * TILE_PX, max(len(shown), 1) * (TILE_PX + CAPTION_PX)), "white")
    draw = ImageDraw.Draw(sheet)
    for row, trigger in enumerate(shown):
        top = row * (TILE_PX + CAPTION_PX)
        draw.text((2, top + 1), f"pattern {trigger.number}: {trigger.reason}"[:120], fill="black")
        for column, (screen, box) in enumerate(trigger.seen[:COLUMNS]):
            sheet.paste(_crop(open_image(load(screen)), box), (column * TILE_PX, top + CAPTION_PX))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _crop(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """The patch with its surroundings, three times its contrast about the patch's mean, as a square tile."""
    side = max(box[2] - box[0], box[3] - box[1]) + 2 * AROUND_PX
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    crop = image.crop((x - side // 2, y - side // 2, x - side // 2 + side, y - side // 2 + side))
    pixels = np.asarray(crop, np.float32)
    middle = pixels[AROUND_PX:-AROUND_PX, AROUND_PX:-AROUND_PX].mean(axis=(0, 1))
    raised = np.clip(128 + 3 * (pixels - middle), 0, 255).astype(np.uint8)
    return Image.fromarray(raised).resize((TILE_PX - 2, TILE_PX - 2), Image.Resampling.NEAREST)
