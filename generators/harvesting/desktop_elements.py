"""Elements of a desktop screen from its AT-SPI tree, with expressions that fit each of them and nothing else there.

Kinds of expressions as in UGround and OS-Atlas: what is written on it, that and its role, and in which menu, tab, tool
bar or window it is. An expression that fits two elements of the screen is dropped, and an element without any is too.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from generators.devices.desktop.accessibility_tree import (
    LAYERS,
    clip,
    menu_covers,
    name_of,
    screen_elements_of,
    windows_of,
)

MAX_NAME = 80
MIN_PX = 6
COVERED = 0.2
"""Share of an element that a menu or window may cover: what it says must still be readable."""
Pixels = tuple[int, int, int, int]
ROLE_WORDS: dict[str, str] = json.loads(Path(__file__).with_name("names.json").read_text("utf-8"))["desktop"]
"""How people call the roles that accessibility trees (AT-SPI) name: those that a person would point at. Others (panels,
bars that hold others) are left out, and so are column headers: they neither take the focus nor answer when asked what
is at a point."""


@dataclass(frozen=True)
class DesktopElement:
    """`box_px` = left, top, right, bottom in pixels of the picture; `key` = its path in the tree; `layer` = open menus
    that it is in; `pressable` = it takes a click; `holder` = the key of the
    cell around a part of one."""

    key: str
    box_px: Pixels
    role: str
    name: str
    text: str
    window: str
    expressions: tuple[str, ...] = ()
    pressable: bool = False
    layer: int = 0
    holder: str = ""

    @property
    def centre(self) -> tuple[int, int]:
        return (self.box_px[0] + self.box_px[2]) // 2, (self.box_px[1] + self.box_px[3]) // 2


def _plain(text: str) -> str:
    return " ".join(text.split())


def sayable(text: str) -> bool:
    """Whether a text can stand in an expression: short, and no path of the private desktop."""
    # Quotation marks would end the quotation of the expression.
    return 0 < len(text) <= MAX_NAME and gettempdir() not in text and '"' not in text


def _places_in(key: str, items: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Where an item is, from the inside out."""
    while key := key.rpartition(".")[0]:
        item = items.get(key, {})
        role, name = str(item.get("role", "")), _plain(name_of(item))
        # Names that can't be said are skipped, not the places further out.
        if name and not sayable(name):
            continue
        if role == "menu" and name:
            yield f'in the "{name}" menu'
        elif role == "page tab" and name:
            yield f'on the "{name}" tab'
        elif role == "tool bar":
            yield "in the tool bar"
        elif role in ("dialog", "alert", "file chooser") and name:
            yield f'in the "{name}" dialog'
        elif role == "frame" and name:
            yield f'in the window "{name}"'


def _phrases(item: Mapping[str, object], items: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Everything that could be said of an item, the shortest first."""
    role = ROLE_WORDS[str(item["role"])]
    name, label = _plain(name_of(item)), _plain(str(item.get("label", ""))).rstrip(": ")
    said = []
    if sayable(name):
        # Signs alone ("+") are no name that somebody would say.
        if any(map(str.isalnum, name)):
            yield name
        said.append(f'the "{name}" {role}')
    if sayable(label):
        said.append(f'the {role} labelled "{label}"')
    yield from said
    # Fields and sliders without a name may still be the only ones of their kind.
    if not said and str(item["role"]) in ("text", "slider"):
        said.append(f"the {role}")
        yield said[0]
    # The two innermost places: more would be a description nobody uses.
    for place in list(_places_in(str(item["path"]), items))[:2]:
        yield from (f"{phrase} {place}" for phrase in said)


def _layer(key: str, items: Mapping[str, Mapping[str, object]]) -> int:
    count = 0
    while key := key.rpartition(".")[0]:
        count += items.get(key, {}).get("role") in LAYERS
    return count


def _holder(key: str, items: Mapping[str, Mapping[str, object]]) -> str:
    above = key.rpartition(".")[0]
    return above if items[key].get("role") == items.get(above, {}).get("role") == "table cell" else ""


def _share(box: Pixels, cover: Pixels) -> float:
    width, height = min(box[2], cover[2]) - max(box[0], cover[0]), min(box[3], cover[3]) - max(box[1], cover[1])
    # Share of the element, not of the cover.
    return max(width, 0) * max(height, 0) / ((box[2] - box[0]) * (box[3] - box[1]))


def _covered(raw: Mapping[str, object], size: tuple[int, int]) -> set[str]:
    """Keys of the items of which an open menu or a window above shows too little."""
    windows, found = windows_of(raw), set()
    for index, window in enumerate(windows):
        # Windows in stacking order: those after this one lie above.
        higher = [box for above in windows[index + 1 :] if (box := clip(above["items"][0].get("box"), size))]
        menus = list(menu_covers(window, size))
        for item in window["items"]:
            path, box = str(item.get("path")), clip(item.get("box"), size)
            # A menu doesn't cover its own entries.
            over = [*higher, *(cover for menu, cover in menus if not path.startswith(f"{menu}.") and path != menu)]
            if box and any(_share(box, cover) > COVERED for cover in over):
                found.add(path)
    return found


def elements_of(raw: Mapping[str, Any], size: tuple[int, int]) -> list[DesktopElement]:
    """The visible elements of a screen that something can be said of. Raises `ValueError` on a tree that is none."""
    covered = _covered(raw, size)
    visible = {place.key: place for place in screen_elements_of(raw, size)}
    items = {str(item["path"]): item for window in raw["windows"] for item in window["items"]}
    titles = {str(item["path"]): str(window.get("title", "")) for window in raw["windows"] for item in window["items"]}
    found: list[DesktopElement] = []
    phrases: dict[str, list[str]] = {}
    for key, place in visible.items():
        item = items[key]
        box = clip(item["box"], size)
        if (
            key in covered
            or place.role not in ROLE_WORDS
            or box is None
            # Too small to be hit, by people and by models.
            or min(box[2] - box[0], box[3] - box[1]) < MIN_PX
        ):
            continue
        found.append(
            DesktopElement(
                key,
                box,
                place.role,
                _plain(place.name),
                place.text,
                titles[key],
                (),
                place.clickable,
                _layer(key, items),
                _holder(key, items),
            )
        )
        phrases[key] = list(dict.fromkeys(_phrases(item, items)))
    # Counted over all elements: an expression that fits two is worth nothing.
    fits = Counter(phrase.casefold() for said in phrases.values() for phrase in said)
    unique = [
        replace(element, expressions=tuple(p for p in phrases[element.key] if fits[p.casefold()] == 1))
        for element in found
    ]
    return [element for element in unique if element.expressions]
