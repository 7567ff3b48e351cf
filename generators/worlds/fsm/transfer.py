"""A goal of one site, transferred to another of its kind: what it means there, if it means anything.

Whoever has seen a few shops asks a new one for what shops have. Often the new one hasn't got it. `asked_of` says what
the goal would be there in the site's own variables, or None where something that it names doesn't exist: the world's
truth about a task that nobody checked beforehand.

A goal whose id holds a number ("add3") is about that *thing* of the site (a product, a server, an article); `things`
names it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from generators.worlds.fsm.evaluate import evaluator, holds
from generators.worlds.fsm.sites import make_site
from generators.worlds.fsm.spec import Atom, Goal, SiteSpec, Value

_NUMBERED = re.compile(r"^([a-z_]+)(\d+)(.*)$")
SHORTEST = 3
"""Letters of the shortest name."""


def function_of(goal: Goal) -> str:
    """What kind of goal it is: its id without number and names ("add3" → "add", "pay-Sven Dahl-25" → "pay")."""
    # Ids are written function first: up to the first digit or hyphen.
    return re.split(r"[\d-]", goal.id, maxsplit=1)[0]


@lru_cache(maxsize=256)
def _names(kind: str, seed: int) -> frozenset[str]:
    """Every name that a site shows or can hold, casefolded: titles, texts of elements, values of its variables."""
    return frozenset(text.casefold() for text in _strings(make_site(kind, seed)) if len(text) >= SHORTEST)


def _strings(site: SiteSpec) -> Iterator[str]:
    for page in site.pages:
        yield page.title
        for element in page.elements:
            yield from (element.text, element.detail, element.value)
    for element in site.menu:
        yield element.text
    for variable in site.variables:
        yield from (value for value in variable.values if isinstance(value, str))


def has_word(text: str, name: str) -> bool:
    """Whether a text holds a name as whole words, in either case."""
    return re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text.casefold()) is not None


@lru_cache(maxsize=256)
# Derived from the goals' words, so that templates need not say what their goals are about.
def things(kind: str, seed: int) -> Mapping[tuple[str, int], str]:
    """(function, number) → name of the thing that the goal is about: a name of the site that no other number's goal of
    the function holds; the one that most goals of the number hold, then the longest."""
    numbered = {
        (m[1], int(m[2]), goal.id): goal.texts[0]
        for goal in make_site(kind, seed).goals
        if (m := _NUMBERED.match(goal.id))
    }
    names = {text for text in _strings(make_site(kind, seed)) if len(text) >= SHORTEST}
    found: dict[tuple[str, int], str] = {}
    for function, number in {(function, number) for function, number, _ in numbered}:
        own = [text for (f, n, _), text in numbered.items() if (f, n) == (function, number)]
        others = [text for (f, n, _), text in numbered.items() if f == function and n != number]
        kin = [text for (_, n, _), text in numbered.items() if n == number]
        # A name that all of the number's own goals hold and no other number's: what the goal is about.
        fitting = [
            name
            for name in names
            if all(has_word(text, name) for text in own) and not any(has_word(text, name) for text in others)
        ]
        if fitting:
            # Then by how many goals of any function hold it, by length, and
            # alphabetically, so that ties are settled.
            found[function, number] = max(fitting, key=lambda n: (sum(has_word(t, n) for t in kin), len(n), n))
    return found


def thing_of(goal: Goal, site: SiteSpec) -> str:
    """The thing that a goal of a site is about; "" if it is about none."""
    match = _NUMBERED.match(goal.id)
    return things(site.kind, site.seed).get((match[1], int(match[2])), "") if match else ""


def asked_of(site: SiteSpec, donor: SiteSpec, goal: Goal, thing: str = "") -> Goal | None:
    """The donor's goal as one of `site`, about `thing` instead of its own where one is given.

    None where the site has no such thing, lacks a variable or value, or doesn't have something else that the goal
    names. Whether a way leads to it is for the planner to say.
    """
    own = thing_of(goal, donor)
    if own:
        wanted = thing or own
        # The pattern matched when `thing_of` found the thing.
        match = _NUMBERED.match(goal.id)
        assert match is not None
        # The same function on the target site: its things by name, whatever number they have there.
        known = {name.casefold(): n for (f, n), name in things(site.kind, site.seed).items() if f == match[1]}
        number = known.get(wanted.casefold(), -1)
        if number < 0:
            return None
        old = int(match[2])
        atoms = tuple(_moved(atom, old, number, own, wanted) for atom in goal.when)
        texts = tuple(reworded(text, own, wanted) for text in goal.texts)
        moved = replace(goal, id=f"{match[1]}{number}{match[3]}", when=atoms, texts=texts)
    elif thing:
        # A goal that is about nothing can't be about something else.
        return None
    else:
        moved, wanted = goal, ""
    if not all(_legal(site, atom) for atom in moved.when) or (moved.page and moved.page not in site.page):
        return None
    # Last, since it walks over all names of both sites.
    return moved if _known(site, donor, goal, own) else None


def reworded(text: str, old: str, new: str) -> str:
    """A text with one name put in the place of another."""
    # By a function: a backslash in a name mustn't be read as a group.
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text, flags=re.IGNORECASE)


def _moved(atom: Atom, old: int, new: int, name: str, wanted: str) -> Atom:
    variable, operator, operand = atom
    match = _NUMBERED.match(variable)
    # Only variables of the thing itself: others keep their number.
    if match and int(match[2]) == old:
        variable = f"{match[1]}{new}{match[3]}"
    if isinstance(operand, str) and operand.casefold() == name.casefold():
        operand = wanted
    return variable, operator, operand


def _legal(site: SiteSpec, atom: Atom) -> bool:
    """Whether a variable can hold what an atom asks of it."""
    name, operator, operand = atom
    variable = site.variable.get(name)
    if variable is None:
        return False
    if operator in ("eq", "ne") and variable.kind == "choice":
        return operand in variable.values
    # Texts and numbers take any value of their type.
    return type(operand) is type(variable.initial) or operator not in ("eq", "ne")


def _known(site: SiteSpec, donor: SiteSpec, goal: Goal, own: str) -> bool:
    """Whether the site has every name of the donor's that the goal's words hold. What is to be typed or chosen stands
    in the conditions, and is for the planner."""
    asked: set[Value] = {operand for _, _, operand in goal.when}
    operands = {str(operand).casefold() for operand in asked}
    here = _names(site.kind, site.seed)
    for name in _names(donor.kind, donor.seed):
        named = has_word(goal.texts[0], name) and name != own.casefold() and name not in operands
        # A name inside what is typed is content and needn't exist on the site.
        if named and name not in here and not any(has_word(operand, name) for operand in operands):
            return False
    return True


def unasked(site: SiteSpec, state: Mapping[str, object], asked: Sequence[Goal], allowed: Sequence[str]) -> list[str]:
    """Ids of the site's goals that a state fulfils though neither required nor `allowed`: what was done besides.

    Goals that hold from the beginning, and those whose conditions follow from what was asked, don't count.
    """
    # Variables that a task is about may change by it; only others tell of side effects.
    variables = {path for goal in asked for path, _, _ in goal.when}
    before = {"page": site.pages[0].id, "variables": dict(site.initial)}
    found = []
    for goal in site.goals:
        rule = evaluator(goal.when)
        done = holds(state, rule) and not holds(before, rule)
        if done and goal.id not in allowed and not any(name in variables for name, _, _ in goal.when):
            found.append(goal.id)
    return found
