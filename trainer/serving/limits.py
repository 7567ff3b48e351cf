"""What a server of a checkpoint takes at most."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """What a request may hold at most."""

    body_bytes: int = 48 * 2**20
    images: int = 8
    image_bytes: int = 20 * 2**20
    image_pixels: int = 40_000_000
    text_chars: int = 200_000
    turns: int = 64
    max_tokens: int = 2048
    n: int = 16
