"""The history of a navigation prompt: how the earlier steps are put into words, and how many of them are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from schemas.actions import Action, TakeNote, render

HISTORY_STEPS = 3
"""N: how many past actions a navigation prompt shows."""
HistoryForm = Literal["action", "think_action"]
"""What a history says of a step: the action alone, as the corpus writes it, or beside it what the policy thought."""
HISTORY_FORMS: tuple[HistoryForm, ...] = ("action", "think_action")
MOST_THOUGHT = 400
"""Characters of a thought that a history shows; of a step with a longer one it shows the action alone."""

_NOTE = f"{TakeNote.__name__}("


def shown_history(history: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """What is shown of (absolute step number from 1, action text) pairs, oldest first: the last `HISTORY_STEPS`, and
    the notes that were taken before them."""
    before = max(len(history) - HISTORY_STEPS, 0)
    return [*(one for one in history[:before] if one[1].startswith(_NOTE)), *history[before:]]


def with_answer(done: str, answer: str) -> str:
    """What a history says of an action that the world answered: `GetUrl() -> https://a.example`; the action alone
    where it said nothing."""
    return f"{done} -> {' '.join(answer.split())}" if answer else done


def history_text(history: Sequence[tuple[int, str]] | None) -> str:
    """(absolute step number from 1, action text) pairs, oldest first → lines of those that are shown (`shown_history`).

    An empty history is `none` (the first step); None is `unknown` (an action before this step was lost).
    """
    if history is None:
        return "unknown"
    if not history:
        return "none"
    return "\n".join(f"{number}. {action}" for number, action in shown_history(history))


def history_entry(action: Action, platform: str, thought: str = "", answer: str = "") -> str:
    """What a history says of a step, as `history_text` takes it: the action with what the world answered, and in
    brackets what was thought as far as it is shown (`shown_thought`).

        Click(box=(5,600)) (the menu is behind this button)

    Whoever trains with thoughts in histories and whoever plays what was so trained write them by this function.
    """
    done, words = with_answer(render(action, platform), answer), shown_thought(thought)
    return f"{done} ({words})" if words else done


def shown_thought(thought: str) -> str:
    """A thought as histories show it, on one line; empty where it has more than `MOST_THOUGHT` characters."""
    words = " ".join(thought.split())
    return words if len(words) <= MOST_THOUGHT else ""
