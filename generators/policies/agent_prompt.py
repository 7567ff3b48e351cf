"""What a model gets before a turn: the goal, the last steps as text, and the current screenshot only.

The wording stands in `prompt_templates/<version>/*.txt`; version and digest are part of a round of generation.
Checkpoints trained here are asked with `pipelines.prompts`, the words of their training; this is for models that
others trained, which need the action space spelled out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generators.policies.chat_endpoint import picture
from generators.policies.policy import PastTurn, PolicyView
from pipelines.prompts.history import HISTORY_FORMS, HISTORY_STEPS, HistoryForm, with_answer
from schemas.action_types import ACTION_SPACE, ActionSpace, PressEnter, TakeNote, Type
from schemas.actions import render
from schemas.ids import canonical_json

AGENT_PROMPT_VERSION = "v1"
MOST_TEXT = 2000
"""Characters of a past thought or conclusion that are shown: a model that rambles doesn't fill its own context."""

_FOLDER = Path(__file__).parent / "prompt_templates"


@cache
def template(name: str, version: str = AGENT_PROMPT_VERSION) -> str:
    """Text of one template. Raises `ValueError` naming the templates that exist."""
    folder = _FOLDER / version if version.isidentifier() else None
    known = {path.stem: path for path in sorted(folder.glob("*.txt"))} if folder else {}
    if name not in known:
        raise ValueError(f"agent prompt {name!r:.40} of version {version!r:.40}: not found; known are {sorted(known)}")
    return known[name].read_text(encoding="utf-8")


@cache
def template_digest(space: ActionSpace = ACTION_SPACE) -> str:
    """sha256 over all templates of `AGENT_PROMPT_VERSION`, and those of the actions that a space has beside v1.5's."""
    folders = [_FOLDER / AGENT_PROMPT_VERSION, *([_FOLDER / _added(space)] if space != ACTION_SPACE else [])]
    paths = [path for folder in folders for path in sorted(folder.glob("*.txt"))]
    # Words, names and order of the templates: any change gives runs another digest.
    whole = [[path.name, path.read_text(encoding="utf-8")] for path in paths]
    return hashlib.sha256(canonical_json(whole).encode()).hexdigest()


def _added(space: ActionSpace) -> str:
    """Folder of the actions that a space has beside those of v1.5."""
    return f"space_{space}"


@dataclass(frozen=True, slots=True)
class AgentPrompt:
    """How a turn is put into words. `history_steps`: how many past turns are shown, their numbers absolute; notes of
    turns before them stay. `space`: which actions it says that there are."""

    history: HistoryForm = "action"
    history_steps: int = HISTORY_STEPS
    thinking: bool = False
    version: str = AGENT_PROMPT_VERSION
    space: ActionSpace = ACTION_SPACE

    def __post_init__(self) -> None:
        if self.history not in HISTORY_FORMS:
            raise ValueError(f"agent prompt: expected a history of {HISTORY_FORMS}, found {self.history!r:.40}")
        if self.history_steps < 0:
            raise ValueError(f"agent prompt: expected 0 or more steps of history, found {self.history_steps}")

    def messages(self, view: PolicyView, *, enter_is_typed: bool = False) -> list[dict[str, object]]:
        """The chat for a view: a system turn, and a user turn with the text first, then the screenshot.

        `enter_is_typed`: the Enter that follows typing is not the model's, so the prompt says so once and for all and
        those keys are left out of the history."""
        enter = "; an Enter follows by itself" if enter_is_typed else ", without an Enter"
        # Phrases of the web harness: whether an Enter follows Type by
        # itself decides what the model must press.
        actions = template(f"actions_{view.platform}", self.version).replace("{enter}", enter)
        if self.space != ACTION_SPACE:
            actions += template(f"actions_{view.platform}", _added(self.space))
        system = template("system", self.version).format(
            platform={"mobile": "phone", "web": "web browser"}.get(view.platform, "computer"),
            actions=actions.strip(),
            thinking=template("thinking_on" if self.thinking else "thinking_off", self.version).strip(),
        )
        # Enters that the adapter pressed weren't the model's, so it doesn't see them.
        past = without_typed_enters(view.past) if enter_is_typed else view.past
        text = template("turn", self.version).format(goal=view.goal.strip(), history=self.history_text(past, view))
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": [{"type": "text", "text": text}, picture(view.png)]},
        ]

    def history_text(self, past: Sequence[PastTurn], view: PolicyView) -> str:
        """The last turns, and the notes before them, one a line; `none` at the first."""
        numbered = list(enumerate(past, 1))
        first = max(len(numbered) - self.history_steps, 0)
        # Notes outlive the window: they are what an agent wrote down to be remembered.
        notes = [(number, said) for number, said in numbered[:first] if isinstance(said.action, TakeNote)]
        shown = [*notes, *numbered[first:]]
        return "\n".join(f"{number}. {self._turn_text(said, view.platform)}" for number, said in shown) or "none"

    def _turn_text(self, said: PastTurn, platform: str) -> str:
        done = render(said.action, platform) if said.action is not None else "(a reply that could not be read)"
        action = with_answer(done, said.answer)
        # An answer or note is content; a conclusion in its stead would lose what was learnt.
        if self.history == "conclusion" and not (said.answer or isinstance(said.action, TakeNote)):
            return _short(said.conclusion) or action
        if self.history == "think_action" and said.thought.strip():
            return f"{_short(said.thought)} {action}"
        return action


def without_typed_enters(past: Sequence[PastTurn]) -> list[PastTurn]:
    """Past turns without each PressEnter that stands right after a Type: the adapter pressed it."""
    return [
        said
        for number, said in enumerate(past)
        if not (isinstance(said.action, PressEnter) and number and isinstance(past[number - 1].action, Type))
    ]


def _short(text: str) -> str:
    # Also makes one line of it: the history is one line a turn.
    return " ".join(text.split())[:MOST_TEXT]
