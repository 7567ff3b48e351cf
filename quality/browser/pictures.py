"""Pictures of the store for the page: the screen as it is, or a small JPEG of it, made when first asked for and kept.

$VESPER_HOME/cache/browse/small/<ab>/<sha256>-<side>.jpg
"""

import io
import re
from pathlib import Path

from pipelines.store import Store
from pipelines.store.images import open_image
from pipelines.whole_files import whole_file

SIDES = {"card": 420, "strip": 240}
"""Name of a size → the longest side in pixels."""
_SHA = re.compile(r"[0-9a-f]{64}")
_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}
"""First bytes of what the store holds (`pipelines.store.images`) → media type."""


class PictureError(ValueError):
    """A picture that can't be given; the message says what was expected."""


def picture(store: Store, sha256: str, size: str) -> tuple[bytes, str]:
    """(bytes, media type) of a screen; `size`: `full`, or a name in `SIDES`. Raises `PictureError` for what names no
    screen, `StoreError` for one that isn't there, `ImageError` for one that can't be read."""
    # It becomes part of a path.
    if not _SHA.fullmatch(sha256):
        raise PictureError(f"sha: expected 64 hex digits, found {sha256[:80]!r}")
    if size == "full":
        data = store.screen_bytes(sha256)
        # By its first bytes: names don't tell, and the browser needs a type. Others are converted.
        kind = next((kind for first, kind in _TYPES.items() if data.startswith(first)), "")
        return (data, kind) if kind else (_jpeg(data, 4096), "image/jpeg")
    if size not in SIDES:
        raise PictureError(f"size: expected full, {', '.join(SIDES)}, found {size[:40]!r}")
    path = small_path(store.home, sha256, SIDES[size])
    if not path.is_file():
        jpeg = _jpeg(store.screen_bytes(sha256), SIDES[size])
        # Small ones are kept: drawing a page of them takes longer than reading it.
        with whole_file(path) as beside:
            beside.write_bytes(jpeg)
    return path.read_bytes(), "image/jpeg"


def small_path(home: Path, sha256: str, side_px: int) -> Path:
    """Where the small picture of a screen lies."""
    return home / "cache" / "browse" / "small" / sha256[:2] / f"{sha256}-{side_px}.jpg"


def _jpeg(data: bytes, side_px: int) -> bytes:
    image = open_image(data)
    image.thumbnail((side_px, side_px))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
