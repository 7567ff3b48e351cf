"""Thoughts that a recorded agent would write before an action: consistent ones, in varied words."""

from random import Random

from schemas.action_types import Finished, Launch, PressBack, Scroll, Type, Wait
from schemas.actions import Action

_POINTED = (
    "The goal is: {goal}. On this screen {name} is what I need, so I click it.",
    "I can see {name} here. Clicking {name} brings me closer to the goal.",
    "Next comes {name}: I click on it.",
)
_OTHER: dict[type, tuple[str, ...]] = {
    Type: ("The field is ready, so I type {text}.", "Now I enter {text}.", "I type the text {text} as asked."),
    Scroll: ("What I look for isn't visible yet; I scroll {direction}.", "I scroll {direction} to find it."),
    Wait: ("The screen is still loading, so I wait.", "Nothing to do until it has loaded: I wait."),
    Launch: ("First I open {text}.", "The task happens in {text}, so I launch it."),
    PressBack: ("I am done here and go back.", "I press back to return to the screen before."),
    Finished: ("Everything that was asked is done.", "The task is complete, I finish."),
}


def thought(action: Action, goal: str, name: str, rng: Random) -> str:
    """One of several phrasings that name the action and its reason; "" for an action that has none here."""
    # Actions that point at nothing first; all others point, and need a name to be spoken of.
    for kind, phrases in _OTHER.items():
        if isinstance(action, kind):
            return _filled(rng.choice(phrases), action, goal, name)
    return _filled(rng.choice(_POINTED), action, goal, name) if name else ""


def _filled(phrase: str, action: Action, goal: str, name: str) -> str:
    text = getattr(action, "content", "") or getattr(action, "app", "") or getattr(action, "url", "")
    return phrase.format(goal=goal, name=f'"{name}"', text=f'"{text}"', direction=getattr(action, "direction", ""))
