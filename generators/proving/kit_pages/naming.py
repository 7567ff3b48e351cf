"""How the elements of a window may be named: by text, icon, role, place and neighbour.

A name is asked for only if it fits one element of the window, and said to be missing only if it fits none of it; the
names of both come from the same places, so that a name alone says neither where nor whether it is.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from generators.proving.kit_pages.drawing import KitElement
from generators.proving.kit_pages.families import WORD
from generators.proving.kit_pages.vocabulary import ICON_NAMES
from generators.proving.kit_pages.windows import PageWindow
from generators.proving.perception.sheets import ROLES, TEXT_KINDS
from schemas.coordinates import centre

KIT_ROLES = {**{kind: ROLES[kind] for kind in (*TEXT_KINDS, "icon")}, "switch": "switch", "box": "checkbox"} | {
    "slider": "slider"
}
"""What a kind of element is called."""
BESIDE_KINDS = ("icon", "switch", "box", "slider", "field")
"""Kinds that may be named by the text that they stand beside."""
ORDINALS = ("first", "second", "third", "fourth")
APART_PX = 8
"""Elements whose middles differ by less stand on one line."""
MOST_PLACES = 8
"""Of more elements of a role nobody counts the place."""
WORDINGS = {
    "text": ("{name}", "{name}", '"{name}"'),
    "role": ("{name} {role}", 'the {role} "{name}"', '{role} "{name}"', "the {name} {role}"),
    "icon": ("{name} icon", "the {name} icon"),
    "beside": ("the {role} beside {beside}", 'the {role} beside "{beside}"', "{role} next to {beside}"),
    "place": ("the {ordinal} {role} from the {side}", "{ordinal} {role} from the {side}"),
}
"""How each way of naming is said."""


class Naming(NamedTuple):
    """One way of naming an element; `how` is one of `WORDINGS`, the parts that it doesn't need are empty."""

    how: str
    name: str = ""
    role: str = ""
    beside: str = ""
    side: str = ""
    ordinal: str = ""

    def folded(self) -> tuple[str, ...]:
        """As it is compared: without regard to case."""
        return tuple(part.casefold() for part in self)

    def said(self, rng: Random) -> str:
        """In words; an icon by any of its names."""
        icons = {one: names for one, names in ICON_NAMES.items() if one == self.name}
        name = rng.choice(icons.get(self.name, (self.name,))) if self.how == "icon" else self.name
        role = self.role
        # "Beside" names an icon by its role with its name in front; that name has synonyms too.
        if self.how == "beside" and role.endswith(" icon"):
            role = f"{rng.choice(ICON_NAMES.get(role[:-5], (role[:-5],)))} icon"
        return rng.choice(WORDINGS[self.how]).format(**{**self._asdict(), "name": name, "role": role})


def namings(window: PageWindow) -> list[tuple[KitElement, Naming]]:
    """Every way of naming that can be asked: it fits just this element of the window."""
    every = _every(window)
    # Counted over all elements, also those that are cut or prose: a
    # name that fits two leaves open which is meant.
    counted = Counter(naming.folded() for _, naming in every)
    # A neighbour's text must be unique as well, or "beside X" means two places.
    labels = Counter(one.name.casefold() for one in window.elements if one.kind in TEXT_KINDS and one.shown)
    return [
        (one, naming)
        for one, naming in every
        if one.shown
        and one.kind != WORD
        and counted[naming.folded()] == 1
        and (not naming.beside or labels[naming.beside.casefold()] == 1)
    ]


def missing(window: PageWindow, sibling: PageWindow, rng: Random) -> Naming | None:
    """A way of naming an element of a sibling that fits nothing in the window; None if there is none."""
    here, text = {naming.folded() for _, naming in _every(window)}, window.text
    # A role that a cut element has can't be counted: the cut one may be first or last.
    cut = {KIT_ROLES[one.kind] for one in window.elements if one.kind != WORD and not one.shown}
    found = [
        naming
        for _, naming in namings(sibling)
        if naming.folded() not in here
        # Letters rather than names: what stands within running text is on the screen as well.
        and not (naming.how in ("text", "role") and "".join(naming.name.split()).casefold() in text)
        and not (naming.how == "place" and naming.role in cut)
    ]
    return _by_how(found, rng) if found else None


def _by_how(found: Sequence[Naming], rng: Random) -> Naming:
    """One, each way of naming as likely as another."""
    # By way first: most elements have a name by text, which would drown the other ways.
    how = rng.choice(sorted({naming.how for naming in found}))
    return rng.choice([naming for naming in found if naming.how == how])


def asked(window: PageWindow, rng: Random) -> tuple[KitElement, Naming] | None:
    """An element and how it is named, each way as likely as another; None if nothing has a name of its own."""
    every = namings(window)
    if not every:
        return None
    how = rng.choice(sorted({naming.how for _, naming in every}))
    return rng.choice([pair for pair in every if pair[1].how == how])


def _every(window: PageWindow) -> list[tuple[KitElement, Naming]]:
    """All namings of all elements, also of those that are cut and of running text."""
    found: list[tuple[KitElement, Naming]] = []
    for one in window.elements:
        role = KIT_ROLES.get(one.kind, "")
        if one.kind in TEXT_KINDS or one.kind == WORD:
            found.append((one, Naming("text", one.name)))
        if one.kind in TEXT_KINDS and one.kind != "text":
            found.append((one, Naming("role", one.name, role)))
        if one.kind == "icon":
            found.append((one, Naming("icon", one.name)))
        if one.beside and one.kind in BESIDE_KINDS:
            meant = f"{one.name} icon" if one.kind == "icon" else role
            found.append((one, Naming("beside", "", meant, one.beside)))
    return found + _places(window)


def _places(window: PageWindow) -> list[tuple[KitElement, Naming]]:
    """The namings by place: of roles whose elements are all whole and stand in one column or in one row."""
    found: list[tuple[KitElement, Naming]] = []
    # Sorted, so that the seed's draws don't depend on the order of a set.
    for role in sorted({KIT_ROLES[one.kind] for one in window.elements if one.kind not in (WORD, "text")}):
        some = [one for one in window.elements if one.kind != WORD and KIT_ROLES[one.kind] == role]
        # A single one needs no ordinal, and a place is counted only among elements that all show.
        if not (2 <= len(some) <= MOST_PLACES and all(one.shown for one in some)):
            continue
        for axis, sides in ((1, ("top", "bottom")), (0, ("left", "right"))):
            other = [centre(one.box)[1 - axis] for one in some]
            ordered = sorted(some, key=lambda one, axis=axis: centre(one.box)[axis])  # type: ignore[misc]
            at = [centre(one.box)[axis] for one in ordered]
            apart = all(after - before >= APART_PX for before, after in zip(at, at[1:], strict=False))
            # A column may be ragged (rows of a list); a row is one line, or
            # "from the left" isn't what people mean.
            if apart and (axis == 1 or max(other) - min(other) < APART_PX):
                for side, line in zip(sides, (ordered, ordered[::-1]), strict=True):
                    named = zip(ORDINALS, line, strict=False)
                    found += [(one, Naming("place", "", role, "", side, ordinal)) for ordinal, one in named]
    return found
