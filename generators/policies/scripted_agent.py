"""The DOM-informed scripted agent: does what an oracle advises, and errs at a set rate.

It is a policy of known skill to measure generation, filters and judges with: it reads the UI tree and the world's
truth, so what it does right it does for sure, and what it does wrong is drawn from the seed. After an error it goes on
from where it stands.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from generators.policies.exploring import content_words
from generators.policies.oracles.oracle import Advice, Oracle, click_on
from generators.policies.policy import Decision, PolicyView
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from pipelines.prompts import reply_text
from schemas.action_types import POINTED, CallUser, Click, Finished, Scroll, Type, Wait
from schemas.actions import Action, parse_reply
from schemas.coordinates import contains

Truth = Callable[[], Mapping[str, Any]]
"""`World.state` of the world that the agent acts in."""
ERRORS = ("neighbour", "other_text", "skipped", "stopped_early", "clicked_twice")
NEAREST = 3
"""A neighbour is one of so many nearest elements."""


class ScriptedAgent:
    """See the module. `error_rate` = chance of an error at each turn, 0..1; `errors` = the kinds that are drawn.

    Deterministic by (seed, goal): the draws of a turn depend on nothing else, so a higher rate errs wherever a lower
    one does as long as both stand at the same place. Where the oracle knows no way, the agent looks around for
    `explore_turns` turns, clicking what resembles the goal's words, then says that it can't be done, and why.
    """

    needs_tree = True

    def __init__(
        self,
        oracle: Oracle,
        contract: TaskSpec,
        truth: Truth,
        *,
        error_rate: float = 0.0,
        errors: Sequence[str] = ERRORS,
        explore_turns: int = 3,
    ) -> None:
        if not 0 <= error_rate <= 1:
            raise ValueError(f"scripted agent: expected an error rate in 0..1, found {error_rate}")
        if unknown := sorted(set(errors) - set(ERRORS)):
            raise ValueError(f"scripted agent: unknown errors {unknown}; known are {', '.join(ERRORS)}")
        self.name = scripted_name(error_rate)
        self.error_rate, self.explore_turns = error_rate, explore_turns
        self._oracle, self._contract, self._truth, self._kinds = oracle, contract, truth, tuple(errors)

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """Forget the last episode. Raises `ValueError` for a contract that isn't the oracle's own."""
        self._oracle.begin(self._contract)
        self._goal, self._platform, self._seed = goal, platform, seed
        # Errors remember across turns only here: everything else comes from seed and turn.
        self._turn = self._lost = 0
        self._again: Click | None = None
        self._clicked: set[tuple[str, str]] = set()
        self.made: list[tuple[int, str]] = []
        """(turn, kind) of every error so far."""

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        self._turn = len(view.past)
        rng = Random(f"scripted/{self._seed}/{self._goal}/{self._turn}")
        last = view.past[-1].action if view.past else None
        advice = self._oracle.next(view.elements, self._truth(), last)
        action, says = self._act(advice, view.elements, rng)
        reply = reply_text(action, self._platform, "", says)
        read = parse_reply(reply).action or action
        return Decision(reply, read, conclusion=says)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again after a crash: the same is decided, and forgotten."""
        self.decide(view)

    def _act(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str]:
        # The second click of "clicked twice", whatever the oracle would advise now.
        if self._again is not None:
            action, self._again = self._again, None
            return action, "Click the same place again."
        if advice.done:
            return (advice.action, "Answer.") if advice.action is not None else (Finished(), "Everything is done.")
        if advice.gave_up:
            return self._lost_way(advice, elements, rng)
        assert advice.action is not None
        # Drawn before the kind: at a higher rate the same draws err, and some more.
        if rng.random() < self.error_rate and (wrong := self._err(advice, elements, rng)) is not None:
            return wrong
        return advice.action, words_for(advice.action, advice.role, advice.name)

    # --- errors
    def _err(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        """One of the errors that this turn allows; None if there is none."""
        makers = {
            "neighbour": self._neighbour,
            "other_text": self._other_text,
            "skipped": self._skip,
            "stopped_early": self._stop_early,
            "clicked_twice": self._click_twice,
        }
        # All kinds in random order, the first that this turn allows: the rate
        # holds though not every kind fits every turn.
        for kind in rng.sample(self._kinds, len(self._kinds)):
            found = makers[kind](advice, elements, rng)
            if found is not None:
                self.made.append((self._turn, kind))
                return found
        return None

    def _neighbour(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        action = advice.action
        # Only pointed actions have neighbours.
        if not isinstance(action, POINTED):
            return None
        x, y = action.box
        others = [p for p in elements if p.clickable and not contains(p.box, (x, y))]
        # By distance of centres; one of the `NEAREST` is drawn, as a slightly wrong box would.
        others.sort(key=lambda p: (p.centre[0] - x) ** 2 + (p.centre[1] - y) ** 2)
        if not others:
            return None
        element = rng.choice(others[:NEAREST])
        return type(action)(click_on(element).box), words_for(action, element.role, element.name or element.text)

    def _other_text(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        if not isinstance(advice.action, Type):
            return None
        own = advice.action.content
        quoted = [a or b for a, b in re.findall(r"\"([^\"]+)\"|“([^”]+)”", self._goal)]
        shown = [element.name for element in elements if element.name and len(element.name) < 40]
        options = [text for text in (*quoted, *shown) if text.strip() and text != own]
        # Half of the wrong texts are other words of goal or screen, half are typing errors.
        text = rng.choice(options) if options and rng.random() < 0.5 else _slip(own, rng)
        return Type(text), f"Type {text[:60]!r}."

    def _skip(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        if isinstance(advice.action, CallUser | Scroll):
            return None
        # The step after the next, as if this one had been done; a wait where that isn't known.
        action = advice.then if advice.then is not None else Wait()
        return action, words_for(action, "", "")

    def _stop_early(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        # Never at once: a policy that ends before it began isn't an error but a refusal.
        return (Finished(), "Everything is done.") if self._turn else None

    def _click_twice(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str] | None:
        if not isinstance(advice.action, Click):
            return None
        self._again = advice.action
        return advice.action, words_for(advice.action, advice.role, advice.name)

    # --- without a way
    def _lost_way(self, advice: Advice, elements: Sequence[ScreenElement], rng: Random) -> tuple[Action, str]:
        """Look around by the goal's words; then say that it can't be done."""
        if self._lost >= self.explore_turns:
            return CallUser(f"This can't be done: {advice.reason}"), "Tell the user."
        self._lost += 1
        wanted = content_words(self._goal)
        open_ones = [one for one in elements if one.clickable and (one.role, one.name) not in self._clicked]
        # The draw orders equal overlaps.
        found = [(len(wanted & content_words(f"{p.name} {p.text}")), rng.random(), p) for p in open_ones]
        best = max(found, key=lambda one: one[:2], default=None)
        if best is None or best[0] == 0:
            return Scroll(direction="down"), "Look for more below."
        element = best[2]
        self._clicked.add((element.role, element.name))
        return click_on(element), words_for(Click(element.centre), element.role, element.name or element.text)


def scripted_name(error_rate: float) -> str:
    """Name of an agent of this skill."""
    return f"scripted-{error_rate:g}"


def words_for(action: Action, role: str, name: str) -> str:
    """What is done, in words."""
    if isinstance(action, Type):
        return f"Type {action.content[:60]!r}."
    if isinstance(action, Scroll):
        return "Look for more."
    label = " ".join(part for part in (role, f'"{name[:60]}"' if name else "") if part)
    return f"{type(action).__name__} {label}".strip() + "."


def _slip(text: str, rng: Random) -> str:
    """A text mistyped: two neighbouring letters swapped, or the last one left out or doubled."""
    # Only letters that differ: swapping equal ones would be no error.
    at = [n for n in range(len(text) - 1) if text[n] != text[n + 1]]
    if at and rng.random() < 0.7:
        n = rng.choice(at)
        return text[:n] + text[n + 1] + text[n] + text[n + 2 :]
    return text[:-1] if len(text) > 1 and rng.random() < 0.5 else text + (text[-1:] or "x")
