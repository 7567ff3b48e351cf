"""Prompts and replies in one place: everything that trains, judges or acts writes and reads the same text.

The wording stands in `templates/<version>/*.txt`; the version and the digest of those files enter the
lineage of whatever was made with them. Prompts are short and deterministic. The instruction stands *before* the
image, so that in a causal model the image tokens can look for what was asked.

| objective | prompt | answer |
|---|---|---|
| navigation | `Goal: …`, `History:` and the last N actions (`history_entry`), numbers absolute | the three tags |
| grounding | `Where is <expression>?` | `[x,y]`, or `[-1,-1]` if it is not on the screen |
| grounding | and `Answer with its box [l,t,r,b] and, behind it, how sure you are from 0 to 1.` | `[1,2,3,4] 0.8` |
| perception | `What is at [x,y]?` / `What is in [l,t,r,b]?` / `List the elements.` | `ROLE text`, one line an element |
| perception | `List the elements with their places.` | `ROLE text [x,y]`, one line an element |
| perception | `What is the unlabelled element at [x,y] for?` | its accessible name |
| vqa | the question | a short phrase, an action, or numbered steps |
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS, PromptVersion, history_text
from schemas.actions import Action, render
from schemas.ids import canonical_json
from schemas.tables import OBJECTIVES

PROMPT_VERSION = PROMPT_VERSIONS[0]

REFUSAL = "[-1,-1]"
"""The grounding answer for an element that is not on the screen."""

LIST_QUESTION = "List the elements."
PLACES_QUESTION = "List the elements with their places."
TRANSITION_QUESTION = "Which action leads from the first screen to the second?"
APP_QUESTION = "Which app or site is on the screen?"

_FOLDER = Path(__file__).parent / "templates"


@cache
def template(name: str, version: PromptVersion = PROMPT_VERSION) -> str:
    """Text of one template, in the words of a version or else of `PROMPT_VERSION`. Raises `ValueError` naming the
    templates that exist."""
    known = sorted(path.stem for path in (_FOLDER / PROMPT_VERSION).glob("*.txt"))
    if name not in known:
        raise ValueError(f"prompt template {name!r} of version {version!r}: not found; known are {known}")
    own = _FOLDER / version / f"{name}.txt"
    return (own if own.is_file() else _FOLDER / PROMPT_VERSION / own.name).read_text(encoding="utf-8")


@cache
def template_digest(version: PromptVersion = PROMPT_VERSION) -> str:
    """sha256 over all templates of a version: goes into lineage, so an edited wording is seen."""
    names = sorted(path.name for path in (_FOLDER / PROMPT_VERSION).glob("*.txt"))
    whole = [[name, template(name.removesuffix(".txt"), version)] for name in names]
    return hashlib.sha256(canonical_json(whole).encode()).hexdigest()


def messages(objective: str, text: str, images: int = 1) -> str:
    """Prompt text + number of pictures → canonical JSON chat: one user turn, the text first, then the images.

    Raises `ValueError` for an unknown objective, an empty text or a negative number of pictures.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"messages: expected an objective of {OBJECTIVES}, found {objective!r}")
    if not text.strip():
        raise ValueError(f"messages: the {objective} prompt is empty")
    if images < 0:
        raise ValueError(f"messages: expected 0 or more images, found {images}")
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    content += [{"type": "image"}] * images
    return canonical_json([{"role": "user", "content": content}])


def prompt_text(messages_json: str) -> str:
    """The text of the last user turn: the inverse of `messages`. Raises `ValueError` if there is none."""
    try:
        turns = json.loads(messages_json)
        user = [turn for turn in turns if turn["role"] == "user"][-1]
        content = user["content"]
        parts = [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"messages: expected a JSON chat with a user turn, found {messages_json[:80]!r}") from error
    return "\n".join(parts)


def navigation_text(
    goal: str,
    history: Sequence[tuple[int, str]] | None,
    *,
    thinking: bool = False,
    steps: int = HISTORY_STEPS,
    version: PromptVersion = PROMPT_VERSION,
) -> str:
    """Navigation prompt; `steps` of the history are shown (`shown_history`). `thinking=False` says so in the prompt:
    the reply's tags are empty because the source has no thoughts, and that must not teach a model to stop thinking when
    it is asked to."""
    name = "navigation" if thinking else "navigation_no_thinking"
    return template(name, version).format(goal=goal.strip(), history=history_text(history, steps, version))


def version_of(text: str) -> PromptVersion:
    """The version whose words a navigation prompt begins with; `v1` of any other text."""
    heads = {version: template("navigation", version).partition("{goal}")[0] for version in PROMPT_VERSIONS}
    return next((version for version, head in heads.items() if text.startswith(head)), PROMPT_VERSION)


def before_history(text: str) -> str:
    """What stands in a navigation prompt between its goal and its history (`version_of`)."""
    return template("navigation", version_of(text)).partition("{goal}")[2].partition("{history}")[0]


def asks_to_think(text: str) -> bool:
    """Whether a navigation prompt asks for thoughts (see `navigation_text`)."""
    return not text.endswith(template("navigation_no_thinking").rpartition("{history}")[2])


def grounding_text(expression: str, *, box: bool = False, confidence: bool = False) -> str:
    """`Where is <expression>?`, which asks for a point; and where more is wanted, the sentence that asks for it."""
    return f"{template('grounding').format(expression=expression.strip())}{_asked_form(box, confidence)}"


def with_asked_form(messages_json: str, *, box: bool, confidence: bool) -> str:
    """A grounding chat that asks for a point → one that asks for a box, for how sure the reply is, or both; as it is
    where neither is wanted. Raises `ValueError` if there is no user turn with a text."""
    asked = _asked_form(box, confidence)
    return with_text(messages_json, asked) if asked else messages_json


def with_text(messages_json: str, more: str) -> str:
    """A chat with more text behind its last question. Raises `ValueError` if there is no user turn with a text."""
    text, turns = prompt_text(messages_json), json.loads(messages_json)
    turn = [turn for turn in turns if turn["role"] == "user"][-1]
    if isinstance(turn["content"], str):
        turn["content"] += more
        return canonical_json(turns)
    parts = [part for part in turn["content"] if part["type"] == "text"]
    if not parts:
        raise ValueError(f"messages: expected a question to ask more of, found {text!r:.80}")
    parts[-1]["text"] += more
    return canonical_json(turns)


def _asked_form(box: bool, confidence: bool) -> str:
    """What is added to a grounding question whose reply is to be more than a point; "" for a point."""
    if not box and not confidence:
        return ""
    sure = " and, behind it, how sure you are from 0 to 1" if confidence else ""
    return f" Answer with its {'box [l,t,r,b]' if box else 'point [x,y]'}{sure}."


def point_text(x: int, y: int) -> str:
    """`What is at [x,y]?`, the point in 0..1000."""
    return template("perception_point").format(x=x, y=y)


def region_text(box: Sequence[float]) -> str:
    """`What is in [l,t,r,b]?`, the box in 0..1000, its sides rounded."""
    left, top, right, bottom = (int(side + 0.5) for side in box)
    return template("region").format(left=left, top=top, right=right, bottom=bottom)


def caption_text(x: int, y: int) -> str:
    """What an element without visible text is for, asked at a point in 0..1000."""
    return template("caption").format(x=x, y=y)


def plan_text(goal: str) -> str:
    """The goal, and the question which steps lead there."""
    return template("plan").format(goal=goal.strip())


def reply_text(action: Action, platform: str, thought: str | None = None, conclusion: str | None = None) -> str:
    """The navigation answer: three tags in order, empty where the source has nothing; the action by `render`."""
    return template("reply").format(thought=thought or "", action=render(action, platform), conclusion=conclusion or "")


def point_answer(x: int, y: int) -> str:
    """The grounding answer `[x,y]`, ints in 0..1000."""
    return f"[{x},{y}]"
