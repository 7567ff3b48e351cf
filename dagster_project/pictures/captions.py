"""What stands under a picture: which item it is, what was asked and done, and what a judge says of it.

All of it comes from data, so it is escaped: no part of it is read as Markdown or HTML.
"""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.markdown_text import markdown_text
from pipelines.prompts import prompt_text
from schemas.ids import item_sample, item_step

WORDS = 140
"""Characters that are shown of an instruction, an action or a reason."""


def item_of(row: Mapping[str, Any]) -> str:
    """The item id of a row of steps or samples."""
    if "sample_id" in row:
        return item_sample(row["sample_id"])
    return item_step(row["source"], row["episode_id"], row["step_index"])


def caption(row: Mapping[str, Any], score: int | None = None, reason: str = "") -> str:
    """A line of Markdown about a row of steps (its own instruction before the episode's) or samples; `score` 0 to 10
    and `reason` are a judge's."""
    asked, answered = asked_and_answered(row)
    verdict = f"**score {score}**: " if score is not None else ""
    because = f" · judge: {markdown_text(reason, WORDS)}" if reason else ""
    return f"{verdict}{markdown_text(asked, WORDS)} → **{markdown_text(answered, WORDS)}**{because} · {_name(row)}"


def asked_and_answered(row: Mapping[str, Any]) -> tuple[str, str]:
    """What a row of steps (its own instruction before the episode's) or samples asks, and the action or answer."""
    if "sample_id" in row:
        return prompt_text(row["messages"]), row["answer"]
    return row.get("step_instruction") or row["instruction"], row["action_text"]


def _name(row: Mapping[str, Any]) -> str:
    return f"*{markdown_text(item_of(row), WORDS)}*"


def below(captions: Sequence[str]) -> str:
    """Captions under a picture: one as a paragraph, several as a list in the order of what the picture shows."""
    if len(captions) > 1:
        return "\n\n" + "\n".join(f"{number}. {line}" for number, line in enumerate(captions, 1))
    return "".join(f"\n\n{line}" for line in captions)


def origin_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """(file, place in it) of the native record that a row was mapped from; blank where it doesn't say."""
    stated = json.loads(row["provenance"])
    return str(stated.get("file", "")), str(stated.get("locator", ""))


def caption_in(png: bytes) -> str:
    """What a picture says of itself (`trainer.online.pictures`); "" for one that says nothing."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        return str(image.info.get("Description", ""))
