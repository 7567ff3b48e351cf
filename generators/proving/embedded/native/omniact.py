"""OmniACT: rows that name a task text, a screenshot, and boxes; scripts of pyautogui lines in pixels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.proving.embedded.defects import DefectRates, PlantedDefect, shift_point
from generators.proving.embedded.native import common
from generators.worlds.pages.own_pages import APPS, DESKTOP, OwnPages, PageElement, open_pages
from generators.worlds.pages.recording import split_of

SPLIT_FILES = {"train": "train", "validation": "val", "test": "test"}
TEMPLATES = {
    "click": ("Click on {name}", "Select {name}", "Open or press {name}"),
    "write": ('Enter "{text}" in the {name} field', 'Type "{text}" into {name}', 'Fill {name} with "{text}"'),
    "doubleClick": ("Double click on {name}", "Open {name} with a double click", "Click {name} twice"),
    "moveTo": ("Hover over {name}", "Move the mouse over {name}", "Point at {name}"),
    "dragTo": ("Drag the {name} slider to its end", "Drag {name} to the maximum", "Pull the {name} knob to the end"),
    "scroll": ("Scroll down the page", "Show what lies below", "Scroll down"),
    "hotkey": ("Copy the selected text", "Use the copy shortcut", "Copy with the keyboard"),
    "press": ("Press the tab key", "Go to the next field with tab", "Hit tab"),
}
TYPED = ("Mira Stone", "hello", "Berlin", "42", "Blue door")
ITEM_OF = {"near_miss_instruction": None, "wrong_text": 1, "empty_text": 1}  # script line; None = the whole row


@dataclass(frozen=True)
class DesktopScreen:
    domain: str  # desktop | web
    app: str
    number: int
    split: str
    elements: tuple[PageElement, ...]
    png: bytes


@dataclass(frozen=True)
class OmniactRow:
    """One task on one screenshot; three rows paraphrase each script."""

    screen: DesktopScreen
    verb: str
    element: PageElement
    text: str
    template: int
    goal: str
    script: str


def render(world: OwnPages, number: int, split: str) -> DesktopScreen:
    """Screen `number` of its own seed, after up to two random clicks."""
    rng = Random(f"omniact/{world.platform}/{number}")
    app = APPS[number % len(APPS)]
    world.start(app, 7_000_000 + number, cart=rng.random() < 0.5)
    for _ in range(rng.choice((0, 1, 1, 2))):
        options = [e for e in world.elements() if e.clickable and e.key and not e.editable and e.role != "combobox"]
        if options:
            x, y = rng.choice(options).centre
            world.page.mouse.click(int(x), int(y))
            world.page.evaluate("vesperTick()")
    world.page.mouse.move(0, 0)
    return DesktopScreen(world.platform, app, number, split, tuple(world.elements()), world.screenshot())


def render_all(count: int) -> list[DesktopScreen]:
    """Half desktop, half web; the last 15 % of either are test."""
    found: list[DesktopScreen] = []
    with open_pages("desktop") as opened:
        for domain, share in (("desktop", count - count // 2), ("web", count // 2)):
            world = OwnPages(opened.page, domain, opened.viewport)
            found += [render(world, i + (5000 if domain == "web" else 0), split_of(i, share)) for i in range(share)]
    return found


def point(element: PageElement) -> str:
    x, y = element.centre
    return f"{round(x, 1)},{round(y, 1)}"


def script(verb: str, element: PageElement, text: str) -> str:
    """The pyautogui lines, floats in pixels of the picture."""
    at = point(element)
    if verb == "write":
        return f'pyautogui.click({at})\npyautogui.write("{text}")'
    if verb == "dragTo":
        right, y = element.box[2], round(element.centre[1], 1)
        return f"pyautogui.moveTo({at})\npyautogui.dragTo({round(right - 2, 1)},{y})"
    fixed = {
        "scroll": "pyautogui.scroll(-10)",
        "hotkey": 'pyautogui.hotkey("ctrl","c")',
        "press": 'pyautogui.press("tab")',
    }
    return fixed.get(verb, f"pyautogui.{verb}({at})")


def rows(screens: Sequence[DesktopScreen], count: int, rng: Random) -> list[OmniactRow]:
    """Three paraphrases of one action a screen, until `count`."""
    found: list[OmniactRow] = []
    for screen in screens:
        # Only names that occur once: the task must be unambiguous.
        names = [e.name for e in screen.elements if e.clickable]
        options = [e for e in screen.elements if e.clickable and e.name and names.count(e.name) == 1]
        if not options:
            continue
        element = rng.choice(options)
        text = ""
        verb = rng.choices(("click", "doubleClick", "moveTo", "scroll", "hotkey", "press"), (80, 5, 5, 4, 3, 3))[0]
        if element.editable:
            verb, text = "write", rng.choice(TYPED)
        elif element.role == "slider":
            verb = "dragTo"
        for template in range(3):
            goal = TEMPLATES[verb][template].format(name=element.name, text=text)
            found.append(OmniactRow(screen, verb, element, text, template, goal, script(verb, element, text)))
    return found[:count]


def _damage(kind: str, row: OmniactRow, rng: Random) -> OmniactRow | None:
    size = (DESKTOP.width, DESKTOP.height)
    aimed = row.verb in ("click", "doubleClick", "moveTo", "write")
    if kind == "off_screen" and aimed:
        x, y = row.element.centre
        return replace(row, script=row.script.replace(point(row.element), f"{round(x + size[0], 1)},{round(y, 1)}"))
    if kind == "unknown_action" and aimed:
        return replace(
            row,
            script=row.script.replace(f"pyautogui.{row.verb if row.verb != 'write' else 'click'}(", "pyautogui.swirl("),
        )
    if kind == "wrong_text" and row.verb == "write":
        wrong = rng.choice([t for t in TYPED if t != row.text])
        return replace(row, script=script(row.verb, row.element, wrong))
    if kind == "empty_text" and row.verb == "write":
        return replace(row, script=script(row.verb, row.element, ""))
    if kind == "flipped_scroll" and row.verb == "scroll":
        return replace(row, script="pyautogui.scroll(10)")
    if not aimed:
        return None
    others = [e for e in row.screen.elements if e.clickable and e.name and e.name != row.element.name]
    if kind == "shifted_point":
        x, y = row.element.centre
        moved = shift_point((int(x), int(y)), row.element.box, size, rng)
        return (
            replace(row, script=row.script.replace(point(row.element), f"{moved[0]}.0,{moved[1]}.0")) if moved else None
        )
    if not others:
        return None
    other = rng.choice(others)
    if kind == "wrong_element":
        return replace(row, script=row.script.replace(point(row.element), point(other)))
    if kind == "near_miss_instruction":
        return replace(row, goal=TEMPLATES[row.verb][row.template].format(name=other.name, text=row.text))
    return None


def plant(found: Sequence[OmniactRow], rates: DefectRates, seed: int) -> tuple[list[OmniactRow], list[PlantedDefect]]:
    """Damaged rows; row ids are positions within their split, as in the source's `train_0`."""
    rng = Random(f"omniact/{seed}")
    order = [i for i, row in enumerate(found) if row.screen.split in rates.splits]
    rng.shuffle(order)
    low, bad = round(rates.low * len(order)), max(3, round(rates.unreadable * len(order))) if rates.unreadable else 0
    out: list[OmniactRow] = list(found)
    marks: dict[int, tuple[str, dict[str, Any]]] = {}
    kinds = ["shifted_point", "wrong_element", "near_miss_instruction", "wrong_text", "flipped_scroll"]
    for i in order:
        if low + bad <= 0:
            break
        group = rng.sample(kinds, len(kinds)) if low else [("unknown_action", "off_screen", "empty_text")[bad % 3]]
        for kind in group:
            new = _damage(kind, found[i], rng)
            # A damage that changed nothing isn't one.
            if new is not None and (new.script, new.goal) != (found[i].script, found[i].goal):
                out[i] = new
                row = found[i]
                marks[i] = (kind, _original(kind, row, new))
                low, bad = (low - 1, bad) if low else (low, bad - 1)
                break
    ids = row_ids(out)
    truths = [PlantedDefect(ids[i], ITEM_OF.get(marks[i][0], 0), *marks[i]) for i in sorted(marks)]
    return out, truths


def _original(kind: str, row: OmniactRow, new: OmniactRow) -> dict[str, Any]:
    """What a repair is judged by: the goal where the goal is wrong, else the action in pixels."""
    if kind == "near_miss_instruction":
        names = [e.name for e in row.screen.elements if e.clickable and e.name and e.name in new.goal]
        return {"goal": row.goal, "true": row.element.name, "untrue": max(names, key=len, default="")}
    x, y = row.element.centre
    return {
        "kind": row.verb,
        "point": [x, y],
        "box": row.element.box,
        "name": row.element.name,
        "text": row.text,
        "direction": "down" if row.verb == "scroll" else "",
        "script": row.script,
    }


def row_ids(found: Sequence[OmniactRow]) -> list[str]:
    """`<position within its split>`, prefixed with the split to be unique over the source."""
    counts: dict[str, int] = {}
    ids = []
    for row in found:
        name = SPLIT_FILES[row.screen.split]
        ids.append(f"{name}_{counts.get(name, 0)}")
        counts[name] = counts.get(name, 0) + 1
    return ids


def boxes(screen: DesktopScreen) -> dict[str, object]:
    """The box file: name → corners, label, valid."""
    found: dict[str, Any] = {}
    for e in screen.elements:
        if e.clickable and e.name:
            left, top, right, bottom = e.box
            name = e.name if e.name not in found else f"{e.name} {len(found)}"
            found[name] = {"top_left": [left, top], "bottom_right": [right, bottom], "label": e.name, "valid": 1}
    return found


def write(root: Path, found: Sequence[OmniactRow]) -> None:
    """`train|val|test.json` and `data/…`; web rows name `screen_N` where the files are called `screenN`, as there."""
    index: dict[str, dict[str, Any]] = {name: {} for name in SPLIT_FILES.values()}
    for row, row_id in zip(found, row_ids(found), strict=True):
        s = row.screen
        place, name = f"{s.domain}/{s.app}", f"screen_{s.number}"
        split = SPLIT_FILES[s.split]
        # Row numbers count within the split.
        position = row_id.rpartition("_")[2]
        task = f"data/tasks/{place}/task_{split}_{position}.txt"
        index[split][position] = {
            "task": task,
            "image": f"data/data/{place}/{name}.png",
            "ocr": f"ocr/{place}/{name}.json",
            "color": f"detact_color/{place}/{name}.json",
            "icon": f"detact_icon/{place}/{name}.json",
            "box": f"data/metadata/{s.domain}/boxes/{s.app}/{name}.json",
        }
        stored = name if s.domain == "desktop" else f"screen{s.number}"
        common.write(root / task, f"Task: {row.goal}\nOutput Script:\n{row.script}\n")
        common.write(root / f"data/data/{place}/{stored}.png", s.png)
        common.write(root / f"data/metadata/{s.domain}/boxes/{s.app}/{stored}.json", common.dump(boxes(s)))
        words = {
            e.text: [round(v, 1) for v in e.centre] for e in s.elements if e.text and e.role in ("text", "heading")
        }
        icons = {e.name: [[round(v, 1) for v in e.centre]] for e in s.elements if e.icon and not e.text}
        common.write(root / f"ocr/{place}/{stored}.json", common.dump(words))
        common.write(root / f"detact_icon/{place}/{stored}.json", common.dump(icons))
        common.write(root / f"detact_color/{place}/{stored}.json", common.dump({}))
    for name, listed in index.items():
        common.write(root / f"{name}.json", common.dump(listed, indent=1))
