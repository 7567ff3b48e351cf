"""Steps → navigation samples: goal, the last actions and the screen → one reply."""

import json
from collections.abc import Iterator
from functools import partial

from pipelines.derivers.base import DerivedSample, Episode, ScreenFacts, squash, step_candidate
from pipelines.prompts import navigation_text, reply_text
from pipelines.prompts.history import HistoryConfig, history_entry, shown_history, with_answer
from schemas.actions import Action, GetUrl, format, parse
from schemas.rows import StepRow

DERIVER = "navigation"
STEP_DERIVER = "navigation_step"
VERSION = 1
_ASKED = format(GetUrl())


def gaps(provenance: str) -> set[int]:
    """Step indexes just before which a native action was lost, from a step's provenance (`gap_at`: int or list)."""
    value = json.loads(provenance).get("gap_at")
    if value is None or value is False:
        return set()
    return {int(item) for item in value} if isinstance(value, list) else {int(value)}


def navigation(episode: Episode, facts: ScreenFacts) -> Iterator[DerivedSample]:
    """Rows of one episode in step order → a candidate per step that has both a picture and an action.

    The goal form asks for the next action towards the episode's goal. Where the source instructs the single step, the
    step form asks for just that; it trains only, since the goal form is what is evaluated. An episode without a goal (a
    random walk) has no goal form.

    History never crosses a gap: neither a `gap_at` of the episode nor a step index that is missing (a step that a
    verdict removed). A prompt just after one says that its history is unknown.
    """
    shown = facts.config.history
    asked = partial(navigation_text, steps=shown.steps, version=shown.prompt)
    lost = set().union(*(gaps(row["provenance"]) for row in episode)) if episode else set()
    history: list[tuple[int, str]] | None = None
    previous: int | None = None
    for row in episode:
        index = row["step_index"]
        if previous is None:
            history = [] if index == 0 and 0 not in lost else None
        elif index != previous + 1 or index in lost:
            history = None
        previous = index
        history = answered(history, row)
        if row["action_text"] is None:
            continue
        action = parse(row["action_text"])
        size = facts.sizes.get(row["screenshot_sha256"] or "")
        if size is not None:
            thinking = bool(row["thought"])
            answer = reply_text(action, row["platform"], row["thought"], row["conclusion"])
            goal, words = squash(row["instruction"]), squash(row["step_instruction"])
            box = row["target_box"]
            if goal:
                text = asked(row["instruction"], history, thinking=thinking)
                yield step_candidate(row, size, "navigation", DERIVER, VERSION, text, answer, box)
            if words and words != goal and row["split"] == "train":
                text = asked(words, history, thinking=thinking)
                yield step_candidate(row, size, "navigation", STEP_DERIVER, VERSION, text, answer, box)
        history = with_step(history or [], row, action, shown)


def with_step(
    history: list[tuple[int, str]], row: StepRow, action: Action, config: HistoryConfig
) -> list[tuple[int, str]]:
    """A history with one step more, as far as it is shown."""
    thought, conclusion = row["thought"] or "", row["conclusion"] or ""
    said = history_entry(action, row["platform"], config.form, thought=thought, conclusion=conclusion)
    return shown_history([*history, (row["step_index"] + 1, said)], config.steps)


def answered(history: list[tuple[int, str]] | None, row: StepRow) -> list[tuple[int, str]] | None:
    """A history whose last action asked the page's address, with what this step's screen said (`provenance.said`)."""
    number, done = history[-1] if history else (0, "")
    # alone, or before its thought; one that has its answer stays
    if not history or not (done == _ASKED or done.startswith(f"{_ASKED} (")):
        return history
    said = str(json.loads(row["provenance"]).get("said") or "")
    return [*history[:-1], (number, with_answer(_ASKED, said) + done.removeprefix(_ASKED))]
