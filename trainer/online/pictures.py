"""A rollout as one small picture: the screens that were decided on, from left to right."""

from __future__ import annotations

import io
from collections.abc import Sequence

from trainer.online.rollouts import Rollout

HEIGHT, MOST = 160, 8


def filmstrip(rollout: Rollout) -> bytes:
    """PNG of at most `MOST` screens, the first ones. Raises `ValueError` for a rollout without screens."""
    from PIL import Image

    screens = []
    for sample in rollout.samples[:MOST]:
        with Image.open(io.BytesIO(sample.picture)) as image:
            width = max(1, round(image.width * HEIGHT / image.height))
            screens.append(image.convert("RGB").resize((width, HEIGHT)))
    if not screens:
        raise ValueError(f"rollout {rollout.key}: it has no screens")
    strip = Image.new("RGB", (sum(one.width + 4 for one in screens) - 4, HEIGHT), "white")
    left = 0
    for screen in screens:
        strip.paste(screen, (left, 0))
        left += screen.width + 4
    buffer = io.BytesIO()
    strip.save(buffer, "PNG")
    return buffer.getvalue()


def telling(rollouts: Sequence[Rollout]) -> Rollout | None:
    """The rollout to show: a live success before a failure, a longer one before a shorter; None without screens."""
    shown = [one for one in rollouts if one.samples and not one.replayed]
    return max(shown, key=lambda one: (bool(one.success), one.steps), default=None)
