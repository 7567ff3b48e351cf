"""What a task on our own pages is: a goal in words, a plan for the oracle, and the state that proves success.

A task is made from the page's own model, so every name in its goal is really on the screen somewhere.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

State = dict[str, Any]
Intent = tuple[str, ...]
"""("tap", key) ("type", key, text) ("select", key, option) ("enter",) ("back",) ("slide", key, percent)"""
TITLES = {
    "mail": "Mail",
    "todo": "Tasks",
    "news": "News",
    "contacts": "Contacts",
    "settings": "Settings",
    "profile": "Profile",
    "shop": "Shop",
    "tools": "Tools",
}
PACKAGES = {app: f"org.vesper.{app}" for app in TITLES}
SITES = {app: f"vesper{app}" for app in TITLES}
"""What recordings of our pages on a phone, or as a site, call an app."""


@dataclass(frozen=True)
class PageTask:
    """`templates[template]` formatted with `slots` is the goal; `others` are untrue values a slot could have had."""

    family: str
    app: str
    templates: tuple[str, ...]
    template: int
    slots: dict[str, str]
    others: dict[str, tuple[str, ...]]
    plan: tuple[Intent, ...]
    checks: tuple[tuple[str, Any], ...]  # (dotted path in vesperState(), value)
    entry: bool = False  # starts outside the app, so the first step opens it

    @property
    def goal(self) -> str:
        return self.phrase(self.template)

    def phrase(self, template: int) -> str:
        """The goal in the words of another template."""
        text = self.templates[template % len(self.templates)].format(**self.slots)
        return text[0].upper() + text[1:]

    def near_miss(self, rng: Random) -> tuple[str, str, str] | None:
        """(goal with one entity changed, the true word, the untrue word), or None if nothing can change."""
        # Only slots where another value is really untrue.
        slots = [slot for slot in sorted(self.others) if any(o != self.slots[slot] for o in self.others[slot])]
        if not slots:
            return None
        slot = rng.choice(slots)
        wrong = rng.choice([o for o in self.others[slot] if o != self.slots[slot]])
        changed = replace(self, slots={**self.slots, slot: wrong})
        return changed.goal, self.slots[slot], wrong


def lookup(state: State, path: str) -> object:
    """Follow a dotted path; list positions are numbers, `-1` the last. None where the path ends early."""
    value: Any = state
    for part in path.split("."):
        if isinstance(value, list):
            # Position in a list; -1 the last.
            index = int(part)
            if not -len(value) <= index < len(value):
                return None
            value = value[index]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def holds(state: State, checks: tuple[tuple[str, Any], ...]) -> bool:
    """True if the state has every value that the task requires."""
    return all(lookup(state, path) == value for path, value in checks)


def evaluator(checks: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The rule that these checks make: {"rule": "page_state", "checks": [[dotted path, value], ...]}."""
    return {"rule": "page_state", "checks": [list(check) for check in checks]}


Maker = Callable[[State, Random], PageTask | None]


WORDS: dict[str, tuple[str, ...]] = {
    family: tuple(texts)
    for family, texts in json.loads(Path(__file__).with_name("wordings.json").read_text("utf-8")).items()
}
"""Family → how its goals are worded."""


def new_task(
    rng: Random,
    family: str,
    slots: dict[str, str],
    others: dict[str, Any],
    plan: list[Intent],
    checks: list[tuple[str, Any]],
) -> PageTask:
    """A task of a family, in one of its wordings. `others`: slot → values that it could have had."""
    templates = WORDS[family]
    return PageTask(
        family,
        family.split(".")[0],
        templates,
        # The template is drawn first, so that a family's other draws don't depend on how it is worded.
        rng.randrange(len(templates)),
        slots,
        # Without repetitions, in the order given.
        {k: tuple(dict.fromkeys(v)) for k, v in others.items()},
        tuple(plan),
        tuple(checks),
    )
