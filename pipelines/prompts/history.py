"""The history of a navigation prompt: how the earlier steps are put into words, and how many of them are shown."""

from collections.abc import Sequence
from typing import Literal, get_args

from schemas.actions import Action, GetUrl, TakeNote, render
from schemas.settings import Settings, Whole, setting

HISTORY_STEPS = 3
"""N: how many past steps a navigation prompt shows where nobody says otherwise."""
HistoryForm = Literal["action", "think_action", "conclusion"]
"""What a history says of a step: the action alone, beside it what was thought, or in its place what was concluded."""
HISTORY_FORMS: tuple[HistoryForm, ...] = get_args(HistoryForm)
PromptVersion = Literal["v1", "aguvis"]
"""Whose words navigation prompts are in: ours, or those of Aguvis' second stage. Each is a folder of templates, which
has only those files whose words differ from `v1`."""
PROMPT_VERSIONS: tuple[PromptVersion, ...] = get_args(PromptVersion)
HISTORY_LINES: dict[PromptVersion, tuple[str, str]] = {"v1": ("{}. {}", "none"), "aguvis": ("Step {}: {}", "None")}
"""How a version writes a step (its number, what is said of it), and that there was none."""
MOST_THOUGHT = 400
"""Characters of a thought that a history shows; of a step with a longer one it shows the action alone."""

_NOTE = f"{TakeNote.__name__}("


class HistoryConfig(Settings):
    """How navigation prompts show the steps before (Aguvis' and UI-TARS' forms)."""

    form: HistoryForm = setting(
        "action",
        "What is said of a step: its action; think_action, beside it what was thought; conclusion, in its place what "
        "was concluded. A step whose source has no thought or conclusion shows its action.",
    )
    steps: Whole = setting(HISTORY_STEPS, "How many steps are shown, and all notes from before them.", ge=0, le=64)
    prompt: PromptVersion = setting(
        PROMPT_VERSIONS[0], "Whose words prompts of navigation are in, ours or Aguvis'.", neutral=True
    )

    def said(self) -> dict[str, dict[str, object]]:
        """{"history": its values} where it isn't the usual one: what was made before there was a choice keeps its
        digests."""
        return {} if self == USUAL_HISTORY else {"history": self.run_part()}

    def of_preset(self) -> dict[str, object]:
        """What a checkpoint's preset says of it, {} for the usual one."""
        if self == USUAL_HISTORY:
            return {}
        return {"history": self.form, "history_steps": self.steps, "prompt_version": self.prompt}


USUAL_HISTORY = HistoryConfig()


def shown_history(history: Sequence[tuple[int, str]], steps: int = HISTORY_STEPS) -> list[tuple[int, str]]:
    """What is shown of (absolute step number from 1, text of a step) pairs, oldest first: the last `steps`, and the
    notes that were taken before them."""
    before = max(len(history) - steps, 0)
    return [*(one for one in history[:before] if one[1].startswith(_NOTE)), *history[before:]]


def with_answer(done: str, answer: str) -> str:
    """What a history says of an action that the world answered: `GetUrl() -> https://a.example`; the action alone
    where it said nothing."""
    return f"{done} -> {' '.join(answer.split())}" if answer else done


def history_text(
    history: Sequence[tuple[int, str]] | None, steps: int = HISTORY_STEPS, version: PromptVersion = PROMPT_VERSIONS[0]
) -> str:
    """(absolute step number from 1, text of a step) pairs, oldest first → lines of those that are shown
    (`shown_history`), in the words of a version.

    An empty history is `none` (the first step); None is `unknown` (an action before this step was lost).
    """
    if history is None:
        return "unknown"
    line, nothing = HISTORY_LINES[version]
    # none, and not an empty text, where nothing is to be shown of the steps before
    return "\n".join(line.format(number, said) for number, said in shown_history(history, steps)) or nothing


def history_entry(
    action: Action, platform: str, form: HistoryForm, *, thought: str = "", conclusion: str = "", answer: str = ""
) -> str:
    """What a history says of a step, as `history_text` takes it: the action with what the world answered; in the form
    `think_action` in brackets what was thought, in the form `conclusion` the conclusion in its place, both as far as
    they are shown (`shown_thought`).

        Click(box=(5,600)) (the menu is behind this button)

    Whoever trains with such histories and whoever plays what was so trained write them by this function.
    """
    # an address that was asked for or a note is content: a conclusion in its stead would lose what was learnt
    if form == "conclusion" and not answer and not isinstance(action, TakeNote | GetUrl) and shown_thought(conclusion):
        return shown_thought(conclusion)
    done, words = with_answer(render(action, platform), answer), shown_thought(thought)
    return f"{done} ({words})" if form == "think_action" and words else done


def shown_thought(thought: str) -> str:
    """A thought as histories show it, on one line; empty where it has more than `MOST_THOUGHT` characters."""
    words = " ".join(thought.split())
    return words if len(words) <= MOST_THOUGHT else ""
