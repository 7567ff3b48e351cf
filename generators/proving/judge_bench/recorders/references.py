"""Expressions that mean exactly one element of a screen, for grounding."""

from generators.proving.judge_bench.trace import Referred
from generators.tasks.world_interface import Observation

SAYS = {
    "listitem": 'the entry "{name}"',
    "switch": "the {name} switch",
    "tab": "the {name} tab",
    "textbox": "the {name} field",
    "checkbox": 'the box for "{name}"',
    "radio": "the option {name}",
    "link": "the link {name}",
    "combobox": "the {name} list",
    "option": "the entry {name}",
}
LONGEST_NAME = 60


def references(shot: Observation) -> tuple[Referred, ...]:
    """An expression for each element that can be clicked and whose name no other element has; system keys aside."""
    # Counted among all elements, not the clickable ones: a text that
    # reads the same makes a name ambiguous too.
    names = [element.name.lower() for element in shot.elements]
    alone = [
        element
        for element in shot.elements
        if element.clickable
        and element.name
        and len(element.name) <= LONGEST_NAME
        and not element.key.startswith("sys:")
        and names.count(element.name.lower()) == 1
    ]
    return tuple(Referred(SAYS.get(p.role, "the {name} button").format(name=p.name), p) for p in alone)
