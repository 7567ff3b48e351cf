"""Reward terms that a setting names, beside those of `trainer.rl.rewards` and `trainer.online.rewards`.

Each is one function, named as a member (`MEMBERS`) or, where it stands outside this tree, by `module:function` or
`file.py:function`, with its weight and the options that it takes:

    reply:       (text, truth, **options) -> number             "reply_terms" of the rewards
    group:       (texts, truth, **options) -> a number a text   "group_terms" of the rewards
    trajectory:  (rollouts, **options) -> a number a rollout    "trajectory_terms" of online RL's reward

A value stays in the range that the function states as its attribute `bounds`, (0, 1) if it states none.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pipelines.extensions import find_part, is_outside
from trainer.settings.rewards import OwnTerm

MEMBERS = {
    "care": "trainer.rl.terms.care:care",
    "distance": "trainer.rl.terms.distance:distance",
    "thinking_cost": "trainer.rl.terms.thinking_cost:thinking_cost",
}
"""Where the terms that come with Vesper stand; they read what this module's callers define, so nothing is imported
before it is asked for."""
_NO_MEMBERS: Mapping[str, Callable[..., Any]] = {}


@lru_cache
def own_function(name: str) -> Callable[..., Any]:
    """The function of a name. Raises `ValueError` where it can't be found or called."""
    where = name if is_outside(name) else find_part("reward term", name, MEMBERS)
    function = find_part("reward term", where, _NO_MEMBERS)
    if not callable(function):
        raise ValueError(f"reward term {name!r}: expected a function, found {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def bounds_of(name: str) -> tuple[float, float]:
    """The closed range that a term's values never leave."""
    low, high = getattr(own_function(name), "bounds", (0.0, 1.0))
    return float(low), float(high)


def label(name: str) -> str:
    """What figures call a term: the function's own name."""
    return name.rpartition(":")[2]


def reply_values(terms: Mapping[str, OwnTerm], text: str, truth: object) -> dict[str, float]:
    """Value of each term for one reply, unweighted, by the terms' names in the settings."""
    return {name: _checked(name, own_function(name)(text, truth, **term.options)) for name, term in terms.items()}


def group_values(terms: Mapping[str, OwnTerm], members: Sequence[object], *given: object) -> list[dict[str, float]]:
    """Values of each term for each member of a group, in their order. `given` follows the members in each call. Raises
    `ValueError` for a term that answers for more or fewer than it was asked about."""
    found: list[dict[str, float]] = [{} for _ in members]
    for name, term in terms.items():
        values = list(own_function(name)(members, *given, **term.options))
        if len(values) != len(members):
            raise ValueError(f"reward term {name!r}: expected {len(members)} values, found {len(values)}")
        for one, value in zip(found, values, strict=True):
            one[name] = _checked(name, value)
    return found


def weighted(terms: Mapping[str, OwnTerm], values: Mapping[str, float]) -> float:
    """What the values add to a reward."""
    return sum(terms[name].weight * value for name, value in values.items())


def labelled(values: Mapping[str, float]) -> dict[str, float]:
    """Values by what figures call their terms."""
    return {label(name): value for name, value in values.items()}


def total_bounds(terms: Mapping[str, OwnTerm]) -> tuple[float, float]:
    """The range of `weighted`."""
    # a negative weight turns a term's range around
    ends = [sorted(term.weight * end for end in bounds_of(name)) for name, term in terms.items()]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def _checked(name: str, value: object) -> float:
    low, high = bounds_of(name)
    if not isinstance(value, int | float) or math.isnan(value) or not low <= value <= high:
        raise ValueError(
            f"reward term {name!r}: expected a number in {low:g}..{high:g}, found {value!r:.40}; a function states "
            f"another range as its attribute `bounds`"
        )
    return float(value)
