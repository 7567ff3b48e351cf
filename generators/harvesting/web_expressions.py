"""What can be said of an element of a web page so that it fits that element and no other on the screen.

Kinds, as in UGround and OS-Atlas: by name; by role and name; by relation ("the Delete button in the row of Ada", "the
check box next to Newsletter"); by position among its like. Each expression is resolved over all elements of the screen,
also those that are only partly visible; one that fits two is dropped.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Box = tuple[float, float, float, float]
MOST_CHARS = 60
BESIDE_PX, LINE_PX, MOST_ALIKE = 260.0, 6.0, 6
ROLE_WORDS: dict[str, str] = json.loads(Path(__file__).with_name("names.json").read_text("utf-8"))["web"]
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class ExpressionElement:
    """An element as expressions see it; `box` in pixels. `group` = identity of the row, card or list entry around it
    ("" = none), `group_word` = what that is called. `whole`: the name is all that the element shows (not the words
    between its children)."""

    key: str
    role: str
    name: str
    text: str
    box: Box
    clickable: bool
    group: str = ""
    group_word: str = ""
    whole: bool = True

    @property
    def word(self) -> str:
        return ROLE_WORDS.get(self.role, "")


def fold(text: str) -> str:
    return " ".join(text.casefold().split())


def sayable(text: str) -> bool:
    """Whether a text can stand in an expression: one short line with a letter or digit, no template."""
    return 0 < len(text) <= MOST_CHARS and any(map(str.isalnum, text)) and not set(text) & set('{}\n\r"“”')


def _encloses(outer: Box, inner: Box) -> bool:
    return (
        # One pixel of tolerance: boxes are rounded.
        outer[0] - 1 <= inner[0] and outer[1] - 1 <= inner[1] and outer[2] + 1 >= inner[2] and outer[3] + 1 >= inner[3]
    )


class Expressions:
    """All items of one screen, and what can be said of each."""

    def __init__(self, items: Sequence[ExpressionElement]) -> None:
        controls = [item for item in items if item.clickable]
        self._shadows = {
            item.key
            for item in items
            if not item.clickable
            # A label inside of its control is the control for whoever looks.
            and any(
                _encloses(control.box, item.box) and fold(item.name) in (fold(control.name), fold(control.text))
                for control in controls
            )
        }
        """Texts of a control, listed beside it: for a person they are the control."""
        self._items = [item for item in items if item.key not in self._shadows]
        self._named = Counter(name for item in self._items for name in {fold(item.name), fold(item.text)} - {""})
        self._alike = Counter((item.word, fold(item.name)) for item in self._items)
        # What other elements can be said to be beside: unique, and read as a whole.
        self._anchors = [
            item
            for item in self._items
            if item.word and item.whole and sayable(item.name) and self._named[fold(item.name)] == 1
        ]

    def all(self) -> dict[str, tuple[str, ...]]:
        """Key → expressions, each of which stands for one key alone."""
        said = {item.key: list(dict.fromkeys(self._of(item))) for item in self._items if item.word}
        # Resolved over the whole screen: an expression that fits two is dropped.
        fits = Counter(fold(phrase) for phrases in said.values() for phrase in phrases)
        return {key: tuple(p for p in phrases if fits[fold(p)] == 1) for key, phrases in said.items()}

    def _of(self, item: ExpressionElement) -> Iterator[str]:
        named = sayable(item.name)
        if not item.whole or (not named and (item.name or not item.clickable)):
            return  # a long name isn't none, and "the text" is nothing to point at
        called = f'the {item.word} "{item.name}"' if named else f"the {item.word}"
        alike = self._alike[item.word, fold(item.name)]
        if named and self._named[fold(item.name)] == 1:
            yield item.name
        if named and alike == 1:
            yield called
        # Rows first: people say in which row it is before what stands beside it.
        if anchor := self._row_anchor(item):
            yield f'{called} in the {item.group_word} of "{anchor}"'
        elif alike > 1 and (anchor := self._neighbour(item)):
            yield f'{called} next to "{anchor}"'
        if alike > 1 and (place := self._place_among(item)):
            yield f"the {place[0]} {called.removeprefix('the ')} {place[1]}"

    def _row_anchor(self, item: ExpressionElement) -> str:
        """The first unique text of the item's row, where the item is the only one of its kind and name in it."""
        if not item.group:
            return ""
        # Only one of this kind and name in the row, or the row doesn't tell.
        row = [other for other in self._items if other.group == item.group]
        if sum((other.word, fold(other.name)) == (item.word, fold(item.name)) for other in row) != 1:
            return ""
        first = next((other for other in self._anchors if other.group == item.group and other.key != item.key), None)
        return first.name if first else ""

    def _neighbour(self, item: ExpressionElement) -> str:
        """The unique text on the item's line that is much nearer to it than to any like it; "" if there is none."""
        like = [other for other in self._items if other.word == item.word and other.key != item.key]
        best, reach = "", BESIDE_PX
        for anchor in self._anchors:
            if anchor.clickable or anchor.key == item.key or _encloses(item.box, anchor.box):
                continue
            gap = _gap(item.box, anchor.box)
            # Much nearer than to any like it, or a reader couldn't tell which one is meant.
            if gap < reach and all(_gap(other.box, anchor.box) > 1.6 * gap + 8 for other in like):
                best, reach = anchor.name, gap
        return best

    def _place_among(self, item: ExpressionElement) -> tuple[str, str] | None:
        """("second", "from the top") among the items of the same kind and name, where they stand in one line."""
        like = [o for o in self._items if (o.word, fold(o.name)) == (item.word, fold(item.name))]
        if len(like) > MOST_ALIKE:
            return None
        for axis, where in ((1, "from the top"), (0, "from the left")):
            other = [o.box[1 - axis] for o in like]
            along = sorted(o.box[axis] for o in like)
            # A full line apart: what overlaps has no order.
            apart = all(b - a >= LINE_PX for a, b in zip(along, along[1:]))
            if apart and (axis == 1 or max(other) - min(other) < LINE_PX):
                return ORDINALS[along.index(item.box[axis])], where
        return None


def _gap(box: Box, anchor: Box) -> float:
    """Distance between two boxes on one line (infinite where their middles don't share it)."""
    apart = abs((box[1] + box[3]) / 2 - (anchor[1] + anchor[3]) / 2)
    # Their middles must lie within half of the larger one's height.
    if apart > max(box[3] - box[1], anchor[3] - anchor[1]) / 2:
        return float("inf")
    return max(anchor[0] - box[2], box[0] - anchor[2], 0.0)
