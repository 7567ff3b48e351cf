"""Checks of methods by name: each member of a plug point learns the same small world with truth, on an equal budget.

A check is one function of a member and a seed. The policies are tables of a few numbers, so a seed takes seconds; what
they learn by is the trainer's own: advantages, loss, controllers, curricula, codecs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MethodCheck:
    """`asks`: what is measured, with the claim that it is held to. `run` (member, seed, share of the budget) gives
    `figures`; by the first of them members are compared with the `reference`."""

    name: str
    system: str
    asks: str
    members: tuple[str, ...]
    reference: str
    figures: tuple[str, ...]
    run: Callable[[str, int, float], Mapping[str, float]]
