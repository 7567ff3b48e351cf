"""Screens of our own apps as pages in a real font: what the embedded corpus shows, of seeds that nothing else records.

A small model learns each font and size separately, and the corpus shows one font in two. Its own recordings are too few
to learn to read from; here are as many screens as wanted, each with all of its letters, in the files of
`kit_pages.drawing`. A screen is a pure function of its name, and of the machine's Chromium and fonts.
"""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PIL import Image

from generators.devices.browser import DESKTOP, PHONE, RICO, Viewport, evaluate_json
from generators.proving.embedded.screens import render
from generators.proving.kit_pages.drawing import KitElement, checked, page_files
from generators.proving.perception.page_letters import LETTERS_JS
from generators.worlds.pages.own_pages import OwnPages, PageElement, open_pages
from pipelines.whole_files import whole_file

VERSION = 2
"""Raise it when the same name draws another screen."""
SEEDS = {"train": 70_000_000, "test": 71_000_000}
"""First number of a screen, which moves its seed, by the split that a name begins with: far from all that the embedded
data, the bench of judges and the worlds' tasks record."""
FORMS: tuple[tuple[str, Viewport], ...] = (("phone", RICO), ("phone", PHONE), ("desktop", DESKTOP), ("web", DESKTOP))
"""The forms in which the corpus shows our apps, in turns; only the first has text of 24 instead of 16 pixels."""
WRITTEN = {"button": "button", "link": "link", "tab": "tab", "textbox": "field", "combobox": "field"}
"""Kind of an element that shows text, by its role; any other is a text."""


def draw_app_pages(folder: Path, names: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the screens that don't lie in the folder yet. A name is "<split>-<number>". Needs Chromium."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not page_files(folder, name)[1].exists()]
    worlds: dict[int, OwnPages] = {}
    with ExitStack() as opened:
        for count, name in enumerate(missing, 1):
            split, _, number = name.rpartition("-")
            form = int(number) % len(FORMS)
            if form not in worlds:
                worlds[form] = opened.enter_context(open_pages(*FORMS[form]))
            _draw(folder, name, worlds[form], SEEDS[split] + int(number))
            on_done(count)


def _draw(folder: Path, name: str, world: OwnPages, seed: int) -> None:
    """One screen in a random state of an app, which comes about as the corpus's still screens do."""
    still = render(world, seed, "", picture=world.viewport is FORMS[0][1])
    scale = world.viewport.scale
    # the script scales by devicePixelRatio, which stays 1 where only the camera enlarges
    more = scale / float(world.page.evaluate("devicePixelRatio"))
    seen = evaluate_json(world.page, f"({LETTERS_JS})()")
    letters = [[letter, round(x * more, 1), round(y * more, 1)] for letter, x, y in seen]
    elements = [checked(one, letters) for one in _elements(still.elements, scale)]
    size = (round(world.viewport.width * scale), round(world.viewport.height * scale))
    picture, plain = page_files(folder, name)
    made = {
        "family": still.app,
        "style": {"viewport": size, "language": "en"},
        "elements": [asdict(one) for one in elements],
        "letters": letters,
    }
    with whole_file(picture) as part:
        part.write_bytes(_png(still.picture) if still.picture else world.screenshot())
    with whole_file(plain) as part:  # last: a page is there once this is
        part.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")


def _png(jpeg: bytes) -> bytes:
    """A picture with what JPEG did to it: what is drawn sharper than it is met is read worse later."""
    found = io.BytesIO()
    with Image.open(io.BytesIO(jpeg)) as shot:
        shot.save(found, "PNG")
    return found.getvalue()


def _elements(seen: Sequence[PageElement], scale: float) -> list[dict[str, Any]]:
    """What can be asked for or read: signs, switches, boxes and sliders, and each text where it stands itself."""
    holders = {one.parent for one in seen if one.text.strip()}  # their text is that of what they hold
    found = []
    for place, one in enumerate(seen):
        if one.system:
            continue
        kind, name, beside = _named(one, place in holders)
        if kind:
            left, top, right, bottom = (side * scale for side in one.box)
            box = (round(left), round(top), round(right), round(bottom))
            whole = one.visible_share > 0.99
            found.append(asdict(KitElement(kind, name, beside, box, whole)))
    return found


def _named(one: PageElement, holds_text: bool) -> tuple[str, str, str]:
    """(kind, name, what it stands beside) of an element, as `KitElement` has them; kind "" for what has no look."""
    if one.role == "switch":
        return "switch", f"switch {'on' if one.checked else 'off'}", one.name
    if one.role == "checkbox" and not one.text:  # a ticked one holds a sign, too
        return "box", f"{'checked' if one.checked else 'empty'} checkbox", one.name
    if one.role == "slider":
        return "slider", "slider", one.name
    if one.icon and not one.text.strip():
        return "icon", one.icon, ""  # by its look: what it is good for ("delete Milk") is another's text
    if one.text.strip() and not holds_text:
        return WRITTEN.get(one.role, "text"), one.text.strip(), ""
    return "", "", ""
