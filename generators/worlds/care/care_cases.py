"""All care cases: by family, seed and variant. A new family is a function in `phone_cases` or a block of
`care_sites.json`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from generators.tasks.world_interface import WorldError
from generators.worlds.care import care_sites, computer_cases, phone_cases
from generators.worlds.care.care_case import VARIANTS, CareCase, Variant

FAMILIES: tuple[str, ...] = (
    *(f"phone.{name}" for name in phone_cases.FAMILIES),
    *(f"web.{name}" for name in care_sites.FAMILIES),
)
COMPUTER: tuple[str, ...] = tuple(f"computer.{name}" for name in computer_cases.FAMILIES)
"""Families in desktop programs, which not every machine has: by name, and for the world `care/computer` alone."""


@lru_cache(maxsize=1024)
def make_case(family: str, seed: int, variant: Variant) -> CareCase | None:
    """A case; None where the snapshot of the seed can't carry it, or the family has no such variant. Raises
    `ValueError` for an unknown family or variant."""
    if family not in (*FAMILIES, *COMPUTER) or variant not in VARIANTS:
        expected = f"one of {', '.join((*FAMILIES, *COMPUTER))}, and one of {', '.join(VARIANTS)}"
        raise ValueError(f"care: expected {expected}, found {family!r:.60} and {variant!r:.60}")
    surface, _, name = family.partition(".")
    # Families are named by surface, "phone.", "web." or "computer.".
    if surface == "computer":
        return computer_cases.computer_case(name, seed, variant)
    return (phone_cases.phone_case if surface == "phone" else care_sites.web_case)(name, seed, variant)


def case_of(start: Mapping[str, Any]) -> CareCase:
    """The case that a start names. Raises `WorldError` where there is none."""
    try:
        found = make_case(start["family"], start["seed"], start["variant"])
    except (KeyError, TypeError, ValueError) as error:
        raise WorldError(f"care: {str(error)[:300]}") from None
    if found is None:
        raise WorldError(f"care: {start['family']!r:.60} has no case {start['variant']!r} with seed {start['seed']!r}")
    return found


def cases(first_seed: int, seeds: int, families: Sequence[str] = FAMILIES) -> Iterator[CareCase]:
    """Every case of these families on `seeds` seeds, a seed after the other; the variants take turns, so that the first
    few are a mixture of families and variants."""
    for seed in range(first_seed, first_seed + seeds):
        for turn in range(len(VARIANTS)):
            for number, family in enumerate(families):
                # Shifted by the family's number, so that each turn mixes variants.
                case = make_case(family, seed, VARIANTS[(number + turn) % len(VARIANTS)])
                if case is not None:
                    yield case
