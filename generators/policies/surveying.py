"""A policy that surveys an app: it goes where something is new, with a memory of earlier rounds (after GUI-Bee).

What an action is worth is Q = novelty + γ · max Q of the screen that it led to. New is what was never done anywhere,
less so what was done on other screens, such as a menu's links. Unlike the explorer it has no eye for the goal's words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from generators.policies.exploration import FIELDS, Exploration, fingerprint
from generators.policies.exploring import worth_typing
from generators.policies.oracles.oracle import click_on, hits
from generators.policies.policy import Decision, PolicyView
from generators.tasks.world_interface import ScreenElement
from pipelines.prompts import reply_text
from schemas.action_types import Finished, PressBack, Type
from schemas.actions import Action, format, parse, parse_reply

GAMMA, FADING = 0.5, 0.9
"""Worth of what lies a step away, and of a way that was gone once more."""
SWEEPS = 6
"""Passes over the known ways in which worth travels back; further away it is 1/64."""
Key = tuple[str, str, int]
"""What can be done on a screen: a role and name with its number among equals, ("type", field, n), ("back", "", 0)."""


@dataclass
class Survey:
    """What was seen of one app: the actions of each screen, where each of them led the last time, and how often each
    was taken, there and anywhere."""

    options: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    led: dict[tuple[str, Key], str] = field(default_factory=dict)
    tried: Counter[tuple[str, Key]] = field(default_factory=Counter)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def see(
        self, elements: Sequence[ScreenElement], focused: ScreenElement | None, before: tuple[str, Key] | None
    ) -> str:
        """A screen, and the action that led there; gives what the screen is called."""
        # Which field has the focus shows nowhere, and decides where typing goes.
        here = f"{fingerprint(elements)}/{focused.name if focused else ''}"
        self.options.setdefault(here, tuple(actions_of(elements, focused, Random(0))))
        if before is not None:
            self.led[before] = here
        return here

    def take(self, here: str, key: Key) -> tuple[str, Key]:
        """An action is taken, there."""
        self.tried[here, key] += 1
        self.done[key[:2]] += 1
        return here, key

    def worth(self) -> dict[str, float]:
        """Screen → the largest Q of its actions."""
        found = {
            here: max((self.value(here, key, {}) for key in keys), default=0.0) for here, keys in self.options.items()
        }
        for _ in range(SWEEPS):
            for source, key in self.led:
                found[source] = max(found[source], self.value(source, key, found))
        return found

    def value(self, here: str, key: Key, worth: Mapping[str, float]) -> float:
        """Q of an action: its novelty where it wasn't taken, else the way on from where it led."""
        if (here, key) not in self.led:
            return 1.0 / (1 + self.done[key[:2]])
        return GAMMA * worth.get(self.led[here, key], 0.0) * FADING ** self.tried[here, key]


def actions_of(elements: Sequence[ScreenElement], focused: ScreenElement | None, rng: Random) -> dict[Key, Action]:
    """What can be done on a screen: click each control, type into the field that has the focus, go back."""
    found: dict[Key, Action] = {}
    for element in elements:
        if element.clickable:
            role, name = element.role, element.name or element.text
            found[role, name, sum(key[:2] == (role, name) for key in found)] = click_on(element)
    if focused is not None:
        texts = worth_typing(focused.name, elements, rng)[:2]
        found |= {("type", focused.name, number): Type(text) for number, text in enumerate(texts)}
    return found | {("back", "", 0): PressBack()}


def survey_of(exploration: Exploration) -> Survey:
    """What earlier runs left in the catalogue, as a survey goes on from."""
    survey, focused = Survey(), None
    for way in exploration.ways:
        elements, action = exploration.screens[way.source].elements, parse(way.action)
        here = survey.see(elements, focused, None)
        known = {taken: key for key, taken in actions_of(elements, focused, Random(0)).items()}
        typed: Key | None = ("type", focused.name, 0) if focused is not None and isinstance(action, Type) else None
        focused = focus(elements, action)
        if (key := known.get(action, typed)) is not None:
            survey.see(exploration.screens[way.target].elements, focused, survey.take(here, key))
    return survey


def focus(elements: Sequence[ScreenElement], action: Action | None) -> ScreenElement | None:
    """The field that an action gives the focus."""
    return next((one for one in elements if one.role in FIELDS and hits(action, one)), None)


class SurveyingPolicy:
    """See the module. It claims to be done after `turns` turns. Deterministic by (seed, goal), the survey that it goes
    on from, and what it sees; `seen` is that survey with the last episode."""

    name = "surveyor"
    needs_tree = True

    def __init__(self, turns: int = 40, survey: Survey | None = None) -> None:
        if turns < 1:
            raise ValueError(f"surveyor: expected at least 1 turn, found {turns}")
        self.turns, self.survey = turns, survey or Survey()

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._rng, self._platform = Random(f"surveying/{seed}/{goal}"), platform
        self.seen = deepcopy(self.survey)
        self._last: tuple[str, Key] | None = None

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again: the same is decided, and forgotten."""
        self.decide(view)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        focused = focus(view.elements, view.past[-1].action if view.past else None)
        found = actions_of(view.elements, focused, self._rng)
        here = self.seen.see(view.elements, focused, self._last)
        worth = self.seen.worth()
        # The draw only breaks ties between equal worth.
        key = max(found, key=lambda one: self.seen.value(here, one, worth) + 1e-3 * self._rng.random())
        self._last = self.seen.take(here, key)
        action = Finished() if len(view.past) >= self.turns else found[key]
        says = f"Look what {format(action)[:60]} does."
        reply = reply_text(action, self._platform, "", says)
        return Decision(reply, parse_reply(reply).action or action, conclusion=says)
