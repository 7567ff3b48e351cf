"""Harvesting real desktop programs: screens with elements, boxes and expressions, each confirmed by a press.

A program is explored in a disposable home by clicks that only open things: menus, their submenus, entries that end with
"...", tabs and modes. Every screen that is new is written with the elements that a press at their centre reached:
they took the focus or, where nothing takes it, the program says that they are there. The others are dropped, counted.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from generators.devices.desktop import accessibility_tree as tree
from generators.harvesting.desktop_elements import DesktopElement, elements_of, sayable
from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.session import open_desktop
from generators.worlds.desktop.tasks_files import LIST_VIEW, VIEW_FILE
from schemas.actions import Click
from schemas.ids import digest

CHECK = Path(__file__).with_name("on_desktop_check.py").read_bytes()
Step = tuple[str, str]
"""Role and name of what is clicked."""
Route = tuple[Step, ...]

_FILES = {
    "letter.txt": "Dear Ada,\nthe meeting is on Monday.\n",
    "shopping.txt": "milk\nbread\n",
    "Work/report.txt": "1\n",
    "Archive/old.txt": "old\n",
    "notes.txt": "call Chen\n",
}
PROGRAMS: dict[str, dict[str, Any]] = {
    "calculator": {"program": "calculator"},
    "text editor": {"program": "text editor", "files": _FILES, "open": "letter.txt"},
    "file manager": {"program": "file manager", "files": {**_FILES, VIEW_FILE: LIST_VIEW}},
    "appearance settings": {"program": "appearance settings"},
    "accessibility settings": {"program": "accessibility settings"},
    "keyboard settings": {"program": "keyboard settings"},
    "mouse settings": {"program": "mouse settings"},
}
"""What is harvested: name → start."""
MODES = ("Scientific Mode", "Paper Mode")
DEPTH = 3
ABSENT = 2
"""Names that a screen is said not to have, for refusals."""
HOVERED = frozenset(
    {
        "menu",
        "menu item",
        "check menu item",
        "radio menu item",
        "combo box",
        "slider",
        "spin button",
        "page tab",
        "table cell",
        "label",
        "info bar",
        "status bar",
    }
)
"""Roles that a press would change, open or drag, or that nothing happens to: the pointer is put there, no more."""
FOCUS = ("focused", "selected", "armed", "pressed", "text-caret", "active-descendant")


@dataclass
class HarvestReport:
    """What came of a harvest. `by_focus` and `by_hit` are the confirmed; `unconfirmed` were dropped; `distinct` counts
    an element once that several screens show."""

    screens: int = 0
    repeated_screens: int = 0
    elements: int = 0
    distinct: int = 0
    by_focus: int = 0
    by_hit: int = 0
    unconfirmed: int = 0
    lost_routes: int = 0
    seconds: float = 0.0
    per_program: dict[str, int] = field(default_factory=dict)

    @property
    def confirmed_share(self) -> float:
        asked = self.by_focus + self.by_hit + self.unconfirmed
        return (self.by_focus + self.by_hit) / asked if asked else 0.0

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "confirmed_share": round(self.confirmed_share, 4)}


def verdict(element: DesktopElement, found: Mapping[str, Any]) -> str:
    """How a press confirmed an element: "focus", "hit", or "" where something else was reached."""

    # A cell and its parts react as one.
    whole = element.holder or element.key  # icon and text of a cell are one thing to click

    def is_it(path: str) -> bool:
        return path == whole or path.startswith(f"{whole}.")

    # Another window lies over it.
    if not found.get("same_window"):
        return ""
    took = [path for kind, path in found.get("events", ()) if any(word in kind for word in FOCUS) and path]
    if any(is_it(path) for path in took):
        return "focus"
    # What took the focus is neither the element nor around it.
    if found.get("how") == "press" and took and not any(element.key.startswith(f"{path}.") for path in took):
        return ""  # something beside it took it
    return "hit" if is_it(str(found.get("hit", ""))) else ""


def openers(elements: Sequence[DesktopElement], done: Route) -> list[Step]:
    """What may be clicked next: it opens something, and changes nothing that a reset doesn't bring back."""
    names = [(element.role, element.name) for element in elements]
    in_menu = bool(done) and done[-1][0] == "menu"
    found: list[Step] = []
    # Inside a menu the tabs of the window behind can't be reached.
    for role, name in names:
        opens = (
            (role == "menu" and bool(name))
            or (role == "menu item" and name.endswith(("...", "…")) or name == "About")
            or (role == "radio menu item" and name in MODES)
            or (role == "page tab" and bool(name) and not in_menu)
        )
        # Two of one name can't be told apart by a route.
        if opens and names.count((role, name)) == 1 and (role, name) not in done:
            found.append((role, name))
    return found


class DesktopHarvester:
    """Explores programs and writes `screens.jsonl` and `images/` below a folder."""

    def __init__(self, world: DesktopWorld, out: Path) -> None:
        self._world, self._out = world, out
        self._seen: set[str] = set()
        self._distinct: set[str] = set()
        self._pressed: set[str] = set()
        self.report = HarvestReport()
        (out / "images").mkdir(parents=True, exist_ok=True)

    def harvest(self, name: str, start: Mapping[str, object], max_screens: int) -> int:
        """Explore a program, the nearest screens first; gives how many were written."""
        todo: deque[Route] = deque([()])
        known: set[Step] = set()
        rows: list[dict[str, Any]] = []
        shown: list[list[str]] = []
        while todo and len(rows) < max_screens:
            route = todo.popleft()
            try:
                # Always from a fresh start: a route is then the same whenever it is taken.
                png, raw = self._go(start, route)
            except WorldError:
                self.report.lost_routes += 1  # what was to be clicked didn't come again
                continue
            elements = elements_of(raw, self._world.size_px)
            # By roles, names and boxes: a screen that differs in pixels alone is the same.
            screen = digest([[e.role, e.name, list(e.box_px)] for e in elements])
            if screen in self._seen:
                self.report.repeated_screens += 1
                continue
            self._seen.add(screen)
            if len(route) < DEPTH:
                # Each opener once, by the shortest route that shows it.
                new = [step for step in openers(elements, route) if step not in known]
                known.update(new)
                todo.extend((*route, step) for step in new)
            if confirmed := self._confirm(elements):
                rows.append(self._keep(name, route, png, confirmed))
                shown.append(
                    [
                        str(item.get(key, ""))
                        for window in raw["windows"]
                        for item in window["items"]
                        for key in ("name", "text")
                    ]
                )
        # Names of other screens are known only after all were seen.
        for row, texts in zip(rows, shown, strict=True):
            row["absent"] = absent_names(rows, texts)
        with (self._out / "screens.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
        return len(rows)

    def _go(self, start: Mapping[str, object], route: Route) -> tuple[bytes, dict[str, Any]]:
        """The screen at the end of a route: its picture, and its tree if that was the same before and after."""
        self._world.reset(start)
        for role, name in route:
            raw = self._tree()
            found = [e for e in elements_of(raw, self._world.size_px) if (e.role, e.name) == (role, name)]
            if len(found) != 1:
                raise WorldError(f"harvest: expected one {role} named {name!r:.60}, found {len(found)}")
            x, y = found[0].centre
            width, height = self._world.size_px
            self._world.act(Click((round(x * 1000 / width), round(y * 1000 / height))))
        # Three looks; a screen that moves on and on has no boxes to trust.
        for _ in range(3):
            raw = self._tree()
            seen = self._world.look()  # its tree is read after its picture
            if tree.screen_elements_of(raw, self._world.size_px) == seen.elements:
                return seen.png, raw
        raise WorldError("harvest: the screen does not come to rest")

    def _tree(self) -> dict[str, Any]:
        return self._world.script(tree.SCRIPT)

    def _confirm(self, elements: Sequence[DesktopElement]) -> list[DesktopElement]:
        """Those that are where they are said to be: the innermost menus first, while they are open, presses last."""
        # over the title of another menu the open one closes, so titles come after all else that is only pointed at
        # Presses last: they may close a menu that others lie in.
        ordered = sorted(elements, key=lambda e: (self._how(e) == "press", -e.layer, e.role == "menu"))
        points = [{"path": e.key, "x": e.centre[0], "y": e.centre[1], "how": self._how(e)} for e in ordered]
        width, height = self._world.size_px
        # One script for all points: a call over SSH for each would take minutes.
        said = self._world.script(CHECK, {"points": points, "away": [width - 2, height - 2]})
        kept: set[str] = set()
        for element, found in zip(ordered, said["found"], strict=True):
            way = verdict(element, found)
            if way:
                kept.add(element.key)
                # Confirmed once by a press; seen again in the same place a hover suffices.
                self._pressed.add(self._identity(element))
            self.report.by_focus += way == "focus"
            self.report.by_hit += way == "hit"
            self.report.unconfirmed += way == ""
        return [element for element in elements if element.key in kept]

    @staticmethod
    def _identity(element: DesktopElement) -> str:
        return digest([element.key, element.window, element.role, element.name, list(element.box_px)])

    def _how(self, element: DesktopElement) -> str:
        """A press the first time; where it is seen again in the same place, the pointer is enough."""
        again = self._identity(element) in self._pressed
        return "press" if element.pressable and element.role not in HOVERED and not again else "hover"

    def _keep(self, program: str, route: Route, png: bytes, elements: Sequence[DesktopElement]) -> dict[str, Any]:
        """The picture is written; gives the row."""
        name = f"images/{sha256(png).hexdigest()}.png"
        (self._out / name).write_bytes(png)
        self.report.screens += 1
        self.report.elements += len(elements)
        # An element that several screens show counts once.
        new = {digest([program, e.window, e.role, e.name, list(e.box_px)]) for e in elements} - self._distinct
        self._distinct |= new
        self.report.distinct = len(self._distinct)
        self.report.per_program[program] = self.report.per_program.get(program, 0) + len(new)
        return {
            "screenshot": name,
            "size_px": list(self._world.size_px),
            "platform": "desktop",
            "app": program,
            "route": [list(step) for step in route],
            "elements": [
                {
                    "box_px": list(e.box_px),
                    "role": e.role,
                    "name": e.name,
                    "text": e.text,
                    "expressions": list(e.expressions),
                }
                for e in elements
            ],
        }


def absent_names(rows: Sequence[Mapping[str, Any]], shown: Sequence[str], count: int = ABSENT) -> list[str]:
    """Names of controls on other screens of a program of which `shown`, all texts of this one, say nothing."""
    # Folded: "Save" and "save…" are one name to a reader.
    here = " ".join(shown).casefold()
    names = {
        e["name"] for row in rows for e in row["elements"] if e["role"] in ("push button", "check box", "menu item")
    }
    found = sorted(
        name for name in names if sayable(name) and len(name) > 3 and name.rstrip(".").casefold() not in here
    )
    # By what the screen says, so that the same screen always gets the same names.
    return Random(f"absent/{here}").sample(found, min(count, len(found)))


def harvest_desktop(
    out: Path,
    programs: Sequence[str] = (),
    max_screens: int = 40,
    size: tuple[int, int] = (1280, 800),
    say: Callable[[str], None] = lambda line: None,
) -> HarvestReport:
    """Harvest programs (all of `PROGRAMS` unless named) on a private desktop into a folder that must be empty. Raises
    `ValueError` for an unknown program or a folder with something in it, `DesktopMissing` where programs lack."""
    if unknown := sorted(set(programs) - set(PROGRAMS)):
        raise ValueError(f"harvest desktop: unknown programs {unknown!r:.120}; known are {', '.join(PROGRAMS)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: expected an empty folder, found something in it; name another")
    begin = monotonic()
    with open_desktop(size) as endpoint, DesktopWorld(endpoint) as world:
        harvester = DesktopHarvester(world, out)
        for name in programs or PROGRAMS:
            say(
                f"{name}: {harvester.harvest(name, PROGRAMS[name], max_screens)} screens, "
                f"{harvester.report.per_program.get(name, 0)} elements"
            )
    harvester.report.seconds = round(monotonic() - begin, 1)
    (out / "report.json").write_text(json.dumps(harvester.report.as_dict(), indent=1) + "\n", "utf-8")
    return harvester.report
