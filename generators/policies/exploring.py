"""A policy without a plan: clicks untried things that resemble the goal's words, fills fields, looks below, goes back.

It reads the UI tree and nothing else. It is the floor that other policies are measured against, and its trajectories,
as those of any policy, are what reverse synthesis starts from (`generators.generation.proposing.catalogue`).
"""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random

from generators.policies.exploration import FIELDS
from generators.policies.oracles.oracle import click_on, hits
from generators.policies.policy import Decision, PolicyView
from generators.tasks.world_interface import ScreenElement
from pipelines.prompts import reply_text
from schemas.action_types import Finished, PressBack, Scroll, Type
from schemas.actions import Action, parse_reply

_QUOTED = re.compile(r"\"([^\"]{1,80})\"|“([^”]{1,80})”")
_IN_QUOTES = re.compile(r"[\"“]([^\"“”]{1,60})[\"”]")
_CAPITAL = re.compile(r"(?<!^)\b[A-Z][\w-]+(?: [A-Z][\w-]+)*")
VOCABULARY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"mail", ("mira@post.test", "paul@mail.test")),
    (r"\b(date|born|birth|when|day|on)\b", ("2027-01-08", "1990-05-17")),
    (r"phone|\btel", ("0305512", "0894410")),
    (r"amount|€|price|limit|number|quantity|\bage\b|pin", ("25", "40")),
    (r"street|address", ("Oak Street 12", "Mill Lane 4")),
    (r"city|town|place", ("Oslo", "Ghent")),
    (r"name|guest|traveller|who", ("Mira Stone", "Paul Berg")),
    (r"", ("A good idea", "river")),
)
"""What people type into a field whose label matches (the first match counts)."""
TIRED = 3
"""Tries of everything on a screen after which it looks below, then goes back."""


class ExploringPolicy:
    """See the module. It claims to be done after `turns` turns. Deterministic by (seed, goal) and what it sees."""

    name = "explorer"
    needs_tree = True

    def __init__(self, turns: int = 12) -> None:
        if turns < 1:
            raise ValueError(f"explorer: expected at least 1 turn, found {turns}")
        self.turns = turns

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._goal, self._platform, self._seed = goal, platform, seed
        self._words = content_words(goal)
        quoted = [one or other for one, other in _QUOTED.findall(goal)]
        # Quoted texts before names: what stands in quotes is meant literally.
        self._texts = list(dict.fromkeys([*quoted, *_CAPITAL.findall(goal)]))
        self._tried: Counter[tuple[str, str]] = Counter()

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again: the same is decided, and forgotten."""
        self.decide(view)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        # One generator a turn, from seed, goal and turn: a turn repeated after a crash draws the same.
        rng = Random(f"exploring/{self._seed}/{self._goal}/{len(view.past)}")
        action, says = self._next(view, rng)
        reply = reply_text(action, self._platform, "", says)
        return Decision(reply, parse_reply(reply).action or action, conclusion=says)

    def _next(self, view: PolicyView, rng: Random) -> tuple[Action, str]:
        if len(view.past) >= self.turns:
            return Finished(), "Everything was tried."
        last = view.past[-1].action if view.past else None
        # A field that the last action clicked has the focus, so typing is next.
        field = next((element for element in view.elements if element.role in FIELDS and hits(last, element)), None)
        if field is not None:
            text = self._text(field, view, rng)
            return Type(text), f"Type {text[:60]!r}."
        open_ones = [element for element in view.elements if element.clickable]
        # Everything was tried often: more is below, or the way back leads elsewhere; 1 : 1.
        if not open_ones or min(self._tried[p.role, p.name] for p in open_ones) >= TIRED:
            return (PressBack(), "Go back.") if rng.random() < 0.5 else (Scroll(direction="down"), "Look below.")
        # Below 1, so that the draw only breaks ties between equal worth.
        element = max(open_ones, key=lambda p: self._worth(p) + rng.random())
        self._tried[element.role, element.name] += 1
        return click_on(element), f'Click {element.role} "{(element.name or element.text)[:60]}".'

    def _worth(self, element: ScreenElement) -> float:
        tried = self._tried[element.role, element.name]
        # 2 a shared word against 3 a try: one try outweighs one shared word, but not two.
        return 2 * len(self._words & content_words(f"{element.name} {element.text}")) - 3 * tried

    def _text(self, field: ScreenElement, view: PolicyView, rng: Random) -> str:
        """What the goal names, each once; then what fits the field's label."""
        if self._texts:
            return self._texts.pop(0)
        return worth_typing(field.name, view.elements, rng)[0]


def content_words(text: str) -> set[str]:
    """Its words of three letters and more, in small letters."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}


def worth_typing(label: str, elements: Sequence[ScreenElement], rng: Random) -> list[str]:
    """Texts to try in a field, the sensible one first: by its label, then what the screen shows in quotes."""
    # The last pattern is empty and matches every label.
    words = next(words for pattern, words in VOCABULARY if re.search(pattern, label.lower()))
    quoted = [found for element in elements for found in _IN_QUOTES.findall(f"{element.text} {element.name}")]
    return list(dict.fromkeys([rng.choice(words), *quoted]))
