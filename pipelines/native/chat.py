"""Chats as public datasets write them: `conversations` of {from, value} or `messages` of {role, content} → turns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.adapter import RecordError

_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "function_call": "assistant",
    "observation": "user",
    "tool": "user",
}
_PICTURE = re.compile(r"<image>(?:[^<\n]*</image>)?|<\|vision_start\|>.*?<\|vision_end\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One turn. `role` is system, user or assistant; `extra` holds the other keys of the native turn."""

    role: str
    text: str
    extra: Mapping[str, Any]


def said_by(listed: object, *roles: str) -> int:
    """How many turns of a native chat are of these native roles, whatever else is in it."""
    rows = listed if isinstance(listed, list) else []
    return sum(isinstance(row, Mapping) and (row.get("from") or row.get("role")) in roles for row in rows)


def turns(listed: object, items: int | None = None) -> list[ChatTurn]:
    """A native chat → its turns, text parts joined by newlines, picture parts left out.

    Raises `RecordError`: `missing_field` unless it is a list of objects with a role and a text, `unknown_role:<word>`
    for a role never seen; `items` native items go with it.
    """
    if not isinstance(listed, list) or not listed:
        raise RecordError("missing_field", f"expected a list of turns, found {str(listed)[:60]!r}", items)
    found = []
    for place, turn in enumerate(listed):
        if not isinstance(turn, Mapping):
            raise RecordError("missing_field", f"turn {place}: expected an object, found {str(turn)[:60]!r}", items)
        # The two forms of chats: from and value, or role and content.
        word = turn.get("from", turn.get("role"))
        text = _text(turn.get("value", turn.get("content")))
        if not isinstance(word, str) or text is None:
            raise RecordError("missing_field", f"turn {place}: expected from and value, or role and content", items)
        if word.lower() not in _ROLES:
            raise RecordError(f"unknown_role:{word[:40]}", f"turn {place}", items)
        # Kept for adapters that read more than texts.
        extra = {name: value for name, value in turn.items() if name not in ("from", "role", "value", "content")}
        found.append(ChatTurn(_ROLES[word.lower()], text, extra))
    return found


def exchanges(found: list[ChatTurn]) -> list[tuple[str, str]]:
    """(user text, assistant text) pairs in order; an answer to nothing and an unanswered question are left out."""
    pairs: list[tuple[str, str]] = []
    asked: str | None = None
    for turn in found:
        if turn.role == "user":
            # A question after a question replaces it.
            asked = turn.text
        elif turn.role == "assistant" and asked is not None:
            pairs.append((asked, turn.text))
            asked = None
    return pairs


def without_pictures(text: str) -> str:
    """A turn's text without the marks that stand for pictures."""
    return _PICTURE.sub("", text).strip()


def has_steps(history: str) -> bool:
    """Whether the part of a prompt that lists the steps before lists any: it is neither empty nor "None"."""
    return history.strip().partition("\n")[0].strip(" .[]").lower() not in ("", "none")


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [
            part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | Mapping)
        ]
        return "\n".join(part for part in parts if isinstance(part, str))
    return None
