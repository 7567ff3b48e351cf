"""Reference token counts: cheap, the same on every machine, good enough to weigh a mixture.

The formula is named in the metadata of every table (`schemas.tables.TOKEN_FORMULA`); a trainer recounts with its
own tokenizer before it promises a batch size.
"""

from collections.abc import Iterable

from pipelines.prompts import prompt_text

BYTES_PER_TOKEN = 4
IMAGE_PATCH_PX = 32
"""Side of the square that becomes one image token (patch 16, merged 2 x 2, as in Qwen3-VL)."""


def text_tokens(text: str) -> int:
    """ceil(UTF-8 bytes / 4)."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def image_tokens(width_px: int, height_px: int) -> int:
    """ceil(width/32) * ceil(height/32). Raises `ValueError` for a size that is not positive."""
    if width_px <= 0 or height_px <= 0:
        raise ValueError(f"image tokens: expected a positive size, found {width_px}x{height_px}")
    return -(-width_px // IMAGE_PATCH_PX) * -(-height_px // IMAGE_PATCH_PX)


def count_tokens(messages: str, answer: str, sizes_px: Iterable[tuple[int, int]]) -> int:
    """Tokens of one sample: prompt text (of the JSON chat) and answer, plus its images of (width, height) pixels.

    A size of (0, 0) is a picture that is missing and counts nothing. Raises `ValueError` if `messages` isn't a chat.
    """
    return prompt_tokens(prompt_text(messages), answer, sizes_px)


def prompt_tokens(text: str, answer: str, sizes_px: Iterable[tuple[int, int]]) -> int:
    """The same of a prompt whose text is at hand, so that no chat is read for it."""
    images = sum(image_tokens(*size) for size in sizes_px if any(size))
    return text_tokens(text) + text_tokens(answer) + images
