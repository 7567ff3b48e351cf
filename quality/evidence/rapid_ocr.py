"""Texts on pictures as RapidOCR reads them, a package that brings its models (PP-OCRv6: Chinese, English and more).

A line is one element of role `text`. Reading takes about a second of a core a screen.
"""

import functools
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

from pipelines.store.images import open_image
from quality.evidence.ocr_text import NoReader, element_of, is_word
from quality.items.screens import Element

INSTALL = "pip install rapidocr onnxruntime"
"""No extra: OpenCV and ONNX Runtime come with it, which few who judge need."""
LEAST_SURE = 0.7
"""Confidence (0..1) below which a line isn't believed: icons are read as signs with less."""


@functools.cache
def _engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ModuleNotFoundError as missing:
        raise NoReader(f"reading: RapidOCR isn't installed (no module {missing.name!r}): {INSTALL}") from None
    # Workers share the cores already.
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "error", **threads})


def version() -> str:
    """The package's version, e.g. "rapidocr 3.10.0". Raises `NoReader` where it isn't installed."""
    _engine()
    return f"rapidocr {version_of('rapidocr')}"


def read_texts(data: bytes) -> list[Element]:
    """Encoded picture → its texts, from the top, boxes in 0..1000. Raises `NoReader`, `ImageError`."""
    image = open_image(data).convert("RGB")
    # It takes pictures as OpenCV has them, blue first.
    said = _engine()(np.asarray(image)[:, :, ::-1])
    if said.boxes is None:
        return []
    found = []
    for corners, text, sure in zip(said.boxes, said.txts, said.scores, strict=True):
        if sure < LEAST_SURE or not is_word(text):
            continue
        # Four corners, as a line may be slanted.
        (left, top), (right, bottom) = np.min(corners, axis=0).tolist(), np.max(corners, axis=0).tolist()
        box = max(0.0, left), max(0.0, top), min(image.width, right), min(image.height, bottom)
        found.append(element_of(box, text.strip(), image.size))
    return sorted(found, key=lambda one: (one.box[1], one.box[0]))
