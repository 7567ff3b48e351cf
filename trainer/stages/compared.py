"""What a comparison of two sides holds: figures, samples on which they differ, curves."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from pipelines.store.manifest import Manifest

SAMPLES, PICTURE_PX = 12, (360, 360)


@dataclass(frozen=True)
class SideWords:
    """How a page says which side a sample is with: what the data itself says, and yes and no of a side."""

    truth: str = "truth"
    yes: str = "right"
    no: str = "wrong"


@dataclass(frozen=True)
class Figure:
    """A measure of both sides, each with its 95 % interval, and their paired difference (second − first)."""

    domain: str
    measure: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    difference: Mapping[str, Any]


@dataclass(frozen=True)
class DifferingSample:
    """A sample of which the two sides say different things. `picture`: a data URL, "" without one."""

    sample_id: str
    question: str
    truth: str
    replies: tuple[str, str]
    right: tuple[bool, bool]
    picture: str


@dataclass(frozen=True)
class Comparison:
    """`sides`: their names. `versions`: what was compared: evaluations, mixtures or verdicts. `curves`: tag → for each
    side [(step, value)]."""

    stage: str
    sides: tuple[str, str]
    versions: tuple[Manifest, Manifest]
    figures: tuple[Figure, ...]
    curves: Mapping[str, tuple[list[tuple[int, float]], list[tuple[int, float]]]]
    samples: tuple[DifferingSample, ...]
    differing: int
    """Samples on which the two differ, of which `samples` shows some."""
    words: SideWords = SideWords()
    differs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Setting or input → (the first side's, the second's) where the two differ; "" where a side doesn't set it."""
    why: str = ""
    """What the experiments were to find out."""


def picture_url(encoded: bytes) -> str:
    """A picture as a small data URL: the page is one file that opens anywhere."""
    with Image.open(io.BytesIO(encoded)) as image:
        image.thumbnail(PICTURE_PX)
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
