"""A rollout as one small picture: the screens that were decided on, from left to right."""

import io
from collections.abc import Sequence

from pipelines.prompts import prompt_text
from trainer.online.rollouts import Rollout

# pixels, and screens
HEIGHT, MOST = 160, 8


def filmstrip(rollout: Rollout) -> bytes:
    """PNG of at most `MOST` screens, the first ones, whose text `Description` says what they show. Raises
    `ValueError` for a rollout without screens."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    screens = []
    for sample in rollout.samples[:MOST]:
        with Image.open(io.BytesIO(sample.picture)) as image:
            width = max(1, round(image.width * HEIGHT / image.height))
            screens.append(image.convert("RGB").resize((width, HEIGHT)))
    if not screens:
        raise ValueError(f"rollout {rollout.key}: it has no screens")
    # 4 white pixels between two screens
    strip = Image.new("RGB", (sum(one.width + 4 for one in screens) - 4, HEIGHT), "white")
    left = 0
    for screen in screens:
        strip.paste(screen, (left, 0))
        left += screen.width + 4
    buffer = io.BytesIO()
    about = PngInfo()
    about.add_itxt("Description", _caption(rollout))
    strip.save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def _caption(rollout: Rollout) -> str:
    asked = " ".join(prompt_text(rollout.samples[0].messages).split())[:140]
    ended = {True: "success", False: "no success", None: "undecided"}[rollout.success]
    return f"{rollout.task_id}: {asked}: {ended} after {rollout.steps} steps ({rollout.ended})"


def telling(rollouts: Sequence[Rollout]) -> Rollout | None:
    """The rollout to show: a live success before a failure, a longer one before a shorter; None without screens."""
    shown = [one for one in rollouts if one.samples and not one.replayed]
    return max(shown, key=lambda one: (bool(one.success), one.steps), default=None)
