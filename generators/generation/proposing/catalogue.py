"""The capability catalogue: what targets can do, as far as maps, explored screens and verified runs say (docs/method.md
§4).

It starts from the functional maps alone and learns from rounds: names seen on each target's screens, how often tasks of
a function succeeded, and why others didn't. `chance` estimates from that how likely an idea succeeds, which steers the
next round. It never sees a world's truth: only what was on screens, and what verification said.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from generators.generation.task_worlds.task_world import Idea, Name, TaskWorld
from generators.policies.exploration import Exploration, ExploredScreen, Way, fingerprint
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import ScreenElement
from quality.evidence.words import entities, plain
from schemas.actions import format
from schemas.coordinates import contains

PRIOR = 0.5
"""Chance of an idea of which nothing at all is known."""
WEIGHT = 2.0
"""How many observations the broader estimate counts for (a Beta prior centred on it)."""
INERT = ("heading", "text", "status", "none", "label", "paragraph", "image")
"""Roles of what nobody clicks: their words don't name things."""
LONGEST_NAME = 40
CHROME = 0.5
"""A name on more than this share of the targets of a kind belongs to the kind (Home, Search), and names no thing."""
REASON_CHARS = 60


@dataclass
class VerifiedTally:
    """Tasks of one kind: run (infrastructure failures not counted), and verified. Fractions come from tasks of
    several ideas, whose failure is shared among them."""

    executed: float = 0.0
    verified: float = 0.0

    def add(self, weight: float, verified: bool) -> None:
        self.executed += weight
        self.verified += weight * verified

    # The posterior mean of a Beta prior with `WEIGHT` observations at `prior`.
    def mean(self, prior: float) -> float:
        return (self.verified + WEIGHT * prior) / (self.executed + WEIGHT)


@dataclass(frozen=True)
class TaskOutcome:
    """What a round says of one executed task."""

    target: str
    ideas: tuple[Idea, ...]
    arm: str
    verified: bool
    reason: str


@dataclass
class Catalogue:
    """See the module. Made by `learn` from all rounds so far; deterministic by them."""

    tallies: dict[str, VerifiedTally] = field(default_factory=dict)
    arms: dict[str, VerifiedTally] = field(default_factory=dict)
    names: dict[str, Counter[Name]] = field(default_factory=dict)
    """Target → names that could be clicked there, with the number of screens they were on."""
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    """Function → why its tasks failed."""
    verified: dict[str, set[str]] = field(default_factory=dict)
    """Target → functions that a verified trajectory has shown there."""
    explorations: dict[str, Exploration] = field(default_factory=dict)
    roles: dict[str, set[str]] = field(default_factory=dict)
    """Function → roles of the elements that bore the names of things that its verified tasks were about."""
    examples: list[tuple[str, str, int]] = field(default_factory=list)
    """(target, instruction, steps) of verified trajectories: in-context examples of the next proposals."""
    _names_text: dict[str, str] = field(default_factory=dict)
    """Target → all its names as one text, a line each; made on use."""

    # --- learning
    def see(self, trajectories: Iterable[ExecutedTrajectory]) -> None:
        """Names and ways of what was on the screens, whatever became of the task."""
        for run in trajectories:
            target = run.contract.target
            seen = self.names.setdefault(target, Counter())
            for turn in (*run.turns, *((run.end,) if run.end else ())):
                # Each name once a screen: a long list of equal buttons isn't seen more often than one.
                seen.update({name for element in turn.elements if (name := name_of(element)) is not None})
            self.explorations.setdefault(target, Exploration([dict(run.contract.initial_state)]))
            _add_walk(self.explorations[target], run)
            # Names changed: the text made from them is stale.
            self._names_text.pop(target, None)

    def learn(self, outcomes: Sequence[TaskOutcome]) -> None:
        """What succeeded and what didn't. Call `see` before: support is judged by what has been seen by then."""
        for outcome in outcomes:
            self.arms.setdefault(outcome.arm, VerifiedTally()).add(1.0, outcome.verified)
            # Which of the ideas failed isn't known, so the blame is
            # shared; a success proves every one of them.
            share = 1.0 if outcome.verified else 1.0 / max(len(outcome.ideas), 1)
            for idea in outcome.ideas:
                for key in self._keys(idea):
                    self.tallies.setdefault(key, VerifiedTally()).add(share, outcome.verified)
                if outcome.verified:
                    self.verified.setdefault(outcome.target, set()).add(idea.function)
                    # How the thing looked (its role) when it worked: what later proposals look for.
                    bore = {n.role for n in self.names.get(idea.target, ()) if plain(n.text) == plain(idea.thing)}
                    self.roles.setdefault(idea.function, set()).update(bore)
                else:
                    # Cut, so that messages that differ in their details count as one reason.
                    self.reasons.setdefault(idea.function, Counter())[outcome.reason[:REASON_CHARS]] += 1

    # --- asking
    def support(self, idea: Idea) -> str:
        """How far what an idea names was seen on its target: "nothing named", "target unseen", "unseen", "partly" or
        "seen"."""
        named = list(_named(idea.text))
        if idea.thing:
            named.append(plain(idea.thing))
        if not named:
            return "nothing named"
        seen = self._seen(idea.target)
        if not seen:
            return "target unseen"
        # With a blank on both sides: "Art" isn't seen in "Cart".
        found = sum(f" {name} " in seen for name in named)
        return "seen" if found == len(named) else "partly" if found else "unseen"

    def _seen(self, target: str) -> str:
        if target not in self._names_text:
            self._names_text[target] = "\n".join(f" {plain(name.text)} " for name in self.names.get(target, ()))
        return self._names_text[target]

    def _keys(self, idea: Idea) -> tuple[str, ...]:
        """From broad to narrow; the narrowest is the thing itself: what one function could be done to is there for the
        others as well."""
        support = self.support(idea)
        broad = support, f"{idea.arm}|{support}", f"{idea.function}|{support}", f"{idea.function}|{support}|{idea.role}"
        return (*broad, f"{idea.target}|{plain(idea.thing)}") if idea.thing else broad

    def chance(self, ideas: Sequence[Idea]) -> float:
        """Estimated chance that a task of these ideas is verified; they count as independent."""
        product = 1.0
        for idea in ideas:
            value = PRIOR
            # From broad to narrow, each estimate the prior of the next:
            # little data falls back on the broader one.
            for key in self._keys(idea):
                if key in self.tallies:
                    value = self.tallies[key].mean(value)
            product *= value
        return product

    def things(self, task_world: TaskWorld, target: str) -> list[Name]:
        """Names seen on a target that its kind doesn't have everywhere, most seen first."""
        kind = target.rpartition("/")[0]
        # Siblings of a kind that were explored; a single one can't tell what is common to all.
        kin = [other for other in task_world.targets if other.rpartition("/")[0] == kind and other in self.names]
        spread = Counter(name for other in kin for name in self.names[other])
        common = {name for name, count in spread.items() if len(kin) > 1 and count > CHROME * len(kin)}
        return [
            name
            # Ties by text, so that the order is the same on every run.
            for name, _ in sorted(self.names.get(target, Counter()).items(), key=lambda i: (-i[1], i[0].text))
            if name not in common
        ]

    def ready(self, task_world: TaskWorld, target: str, function: str) -> bool:
        """Whether all that a function needs was shown on the target."""
        return self.verified.get(target, set()).issuperset(task_world.needs(target, function))

    def coverage(self, task_world: TaskWorld) -> float:
        """Share of all functions of all targets that a verified trajectory has shown."""
        whole = sum(len(task_world.functions(target)) for target in task_world.targets)
        done = sum(
            len(self.verified.get(target, set()) & set(task_world.functions(target))) for target in task_world.targets
        )
        return done / whole if whole else 0.0

    def as_rows(self, task_world: TaskWorld) -> list[dict[str, object]]:
        """A row per target and function: counts over its function, whether it is shown there, why tasks failed."""
        rows = []
        for target in task_world.targets:
            for function in task_world.functions(target):
                counted = [
                    tally
                    for key, tally in self.tallies.items()
                    # Only keys `function|support`: the narrower ones count the same tasks again.
                    if key.startswith(f"{function}|") and key.count("|") == 1
                ]
                why = self.reasons.get(function, Counter())
                rows.append(
                    {
                        "target": target,
                        "function": function,
                        "needs": list(task_world.needs(target, function)),
                        "ready": self.ready(task_world, target, function),
                        "executed": round(sum(t.executed for t in counted), 3),
                        "verified": round(sum(t.verified for t in counted), 3),
                        "shown": function in self.verified.get(target, set()),
                        "names_seen": len(self.names.get(target, ())),
                        "failures": [f"{count} × {reason}" for reason, count in why.most_common(3)],
                    }
                )
        return rows


@lru_cache(maxsize=65_536)
def _named(text: str) -> tuple[str, ...]:
    """What an idea names: quoted words and names; the first word is capital whatever it says."""
    return tuple(plain(e.text) for e in entities(text[:1].lower() + text[1:]) if e.kind in ("quoted", "name"))


def name_of(element: Mapping[str, object]) -> Name | None:
    """The name of an element that could be clicked; None for others."""
    text = " ".join(str(element.get("name") or element.get("text") or "").split())
    if not text or len(text) > LONGEST_NAME or element.get("role") in INERT:
        return None
    return Name(text, str(element.get("role") or ""))


def _add_walk(exploration: Exploration, run: ExecutedTrajectory) -> None:
    """A trajectory's screens and ways."""
    # Refused actions led nowhere and are no ways.
    turns = [turn for turn in run.turns if turn.action is not None and not turn.error]
    # One more screen than actions where the end was seen.
    shots = [*turns, *((run.end,) if run.end else ())]
    way: list[str] = []
    numbers = []
    known = {screen.fingerprint: screen.number for screen in exploration.screens}
    for turn in shots:
        elements = tuple(_element(element) for element in turn.elements)
        mark = fingerprint(elements)
        if mark not in known:
            known[mark] = len(exploration.screens)
            # The way that led there first; later ones are kept as `ways`.
            exploration.screens.append(ExploredScreen(known[mark], mark, elements, tuple(way), 0))
        numbers.append(known[mark])
        if turn.action is not None:
            way.append(format(turn.action))
    # Pairs of neighbouring screens: the last action has no screen after it if the end wasn't seen.
    for number, turn in enumerate(turns[: len(numbers) - 1]):
        assert turn.action is not None
        element = next((p for p in exploration.screens[numbers[number]].elements if _holds(p, turn.action)), None)
        exploration.ways.append(
            Way(numbers[number], format(turn.action), numbers[number + 1], element.role if element else "")
        )


def _element(element: Mapping[str, Any]) -> ScreenElement:
    role = str(element.get("role") or "")
    left, top, right, bottom = element["box"]
    return ScreenElement(
        (left, top, right, bottom),
        role,
        str(element.get("text") or ""),
        str(element.get("name") or ""),
        "",
        role not in INERT,
    )


def _holds(element: ScreenElement, action: object) -> bool:
    point = getattr(action, "box", None)
    return point is not None and element.clickable and contains(element.box, point)
