"""Families of tasks on the file manager (thunar, its list view). A family is a function Random -> DesktopTask."""

from collections.abc import Mapping
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, Intent, rest, sha256_of
from generators.worlds.desktop.making import Plan, answer, menu, task

VIEW_FILE = ".config/xfce4/xfconf/xfce-perchannel-xml/thunar.xml"
LIST_VIEW = """<?xml version="1.0" encoding="UTF-8"?>
<channel name="thunar" version="1.0">
  <property name="last-view" type="string" value="ThunarDetailsView"/>
</channel>
"""
"""The icon view exposes none of its files to accessibility."""
OPENERS = "[Default Applications]\ntext/plain=org.xfce.mousepad.desktop\n"
NAMES = ("budget", "letter", "photos", "poem", "recipe", "report", "songs", "travel", "übersicht", "笔记")
FOLDERS = ("Archive", "Ideas", "Private", "School", "Work")


def home(rng: Random) -> tuple[dict[str, str], list[str], str]:
    """Files with their texts, the names of those at the top, and a folder that holds one more."""
    names = [f"{name}.txt" for name in rng.sample(NAMES, rng.randint(3, 5))]
    folder = rng.choice(FOLDERS)
    files = {name: f"{name}\n" * rng.randint(1, 9) for name in names}
    return {**files, f"{folder}/old.txt": "old\n"}, names, folder


def cell(name: str, verb: str = "click") -> Intent:
    return (verb, "table cell", name)


def _task(name: str, goal: str, files: Mapping[str, str], plan: Plan, *checks: Check, near: Plan = ()) -> DesktopTask:
    listed = {**files, VIEW_FILE: LIST_VIEW}
    return task(f"files.{name}", "file manager", goal, plan, *checks, files=listed, near=near)


def _gone(path: str) -> Check:
    return {"check": "gone", "path": path}


def _named(name: str, button: str = "") -> Plan:
    """A name in the place of the one that a dialog or a row proposes; without a button to press it is entered."""
    return (("key", "ctrl", "a"), ("type", name), ("click", "push button", button) if button else ("enter",))


def _beside(plan: Plan, name: str, other: str) -> Plan:
    """The plan with another file in the place of one."""
    # The same steps on the wrong file: what misreading the goal gives.
    return tuple((*intent[:2], other) if intent[1:] == ("table cell", name) else intent for intent in plan)


def _another(rng: Random, names: list[str], name: str) -> str:
    return rng.choice([other for other in names if other != name])


def _same(files: Mapping[str, str], path: str, source: str) -> Check:
    return {"check": "untouched", "path": path, "sha256": sha256_of(files[source])}


def new_folder(rng: Random) -> DesktopTask:
    files, _, folder = home(rng)
    name = rng.choice([other for other in FOLDERS if other != folder])
    plan: Plan = (*menu("File", "Create Folder..."), *_named(name, "Create"))
    return _task(
        "new_folder",
        f"Make a folder “{name}” in the home folder.",
        files,
        plan,
        {"check": "folder", "path": name},
        rest(files),
    )


def nested_folder(rng: Random) -> DesktopTask:
    files, _, folder = home(rng)
    year = str(rng.randint(1990, 2025))
    plan: Plan = (cell(folder, "double"), ("key", "ctrl", "shift", "n"), *_named(year))
    return _task(
        "nested_folder",
        f"Inside the folder “{folder}”, make a folder “{year}”.",
        files,
        plan,
        {"check": "folder", "path": f"{folder}/{year}"},
        rest(files),
    )


def rename(rng: Random) -> DesktopTask:
    files, names, _ = home(rng)
    old, new = rng.choice(names), f"renamed-{rng.randint(10, 99)}.txt"
    plan: Plan = (cell(old), ("key", "f2"), *_named(new, "Rename"))
    return _task(
        "rename",
        f"Rename the file {old} to {new}.",
        files,
        plan,
        _same(files, new, old),
        _gone(old),
        rest(files, old, new),
    )


def delete(rng: Random) -> DesktopTask:
    files, names, _ = home(rng)
    name = rng.choice(names)
    plan: Plan = (cell(name), ("key", "shift", "delete"), ("click", "push button", "Delete"))
    return _task(
        "delete",
        f"Delete {name} for good; don't put it in the rubbish bin.",
        files,
        plan,
        _gone(name),
        rest(files, name),
        near=_beside(plan, name, _another(rng, names, name)),
    )


def delete_folder(rng: Random) -> DesktopTask:
    files, names, folder = home(rng)
    plan: Plan = (cell(folder), ("key", "shift", "delete"), ("click", "push button", "Delete"))
    return _task(
        "delete_folder",
        f"Delete the folder “{folder}” and what is in it for good.",
        files,
        plan,
        _gone(folder),
        rest(files, f"{folder}/old.txt"),
        near=_beside(plan, folder, names[0]),
    )


def move(rng: Random) -> DesktopTask:
    files, names, folder = home(rng)
    name = rng.choice(names)
    plan: Plan = (cell(name), ("key", "ctrl", "x"), cell(folder, "double"), ("key", "ctrl", "v"))
    return _task(
        "move",
        f"Move {name} into the folder “{folder}”.",
        files,
        plan,
        _same(files, f"{folder}/{name}", name),
        _gone(name),
        rest(files, name, f"{folder}/{name}"),
        # Copying instead of moving: the file is there, and still where it was.
        near=(cell(name), ("key", "ctrl", "c"), *plan[2:]),
    )


def copy(rng: Random) -> DesktopTask:
    files, names, folder = home(rng)
    name = rng.choice(names)
    plan: Plan = (cell(name), *menu("Edit", "Copy"), cell(folder, "double"), *menu("Edit", "Paste"))
    return _task(
        "copy",
        f"Put a copy of {name} into the folder “{folder}”.",
        files,
        plan,
        _same(files, f"{folder}/{name}", name),
        rest(files, f"{folder}/{name}"),
        near=_beside(plan, name, _another(rng, names, name)),
    )


def drag(rng: Random) -> DesktopTask:
    files, names, folder = home(rng)
    name = rng.choice(names)

    def steps(dragged: str) -> Plan:
        return (("drag", "table cell", dragged, "table cell", folder),)

    return _task(
        "drag",
        f"Drag {name} onto the folder “{folder}” to move it there.",
        files,
        steps(name),
        _same(files, f"{folder}/{name}", name),
        _gone(name),
        rest(files, name, f"{folder}/{name}"),
        near=steps(_another(rng, names, name)),
    )


def by_context_menu(rng: Random) -> DesktopTask:
    """The menu of a file is opened by keys."""
    files, names, _ = home(rng)
    old, new = rng.choice(names), f"final-{rng.randint(10, 99)}.txt"
    plan: Plan = (cell(old), ("key", "shift", "f10"), ("click", "menu item", "Rename..."), *_named(new, "Rename"))
    return _task(
        "by_context_menu",
        f"Rename {old} to {new} by its context menu.",
        files,
        plan,
        _same(files, new, old),
        _gone(old),
        rest(files, old, new),
    )


def take_out(rng: Random) -> DesktopTask:
    files, _, folder = home(rng)
    plan: Plan = (
        cell(folder, "double"),
        cell("old.txt"),
        ("key", "ctrl", "x"),
        ("click", "push button", "Open Parent"),
        ("key", "ctrl", "v"),
    )
    return _task(
        "take_out",
        f"Move old.txt from the folder “{folder}” up into the home folder.",
        files,
        plan,
        _same(files, "old.txt", f"{folder}/old.txt"),
        _gone(f"{folder}/old.txt"),
        rest(files, "old.txt", f"{folder}/old.txt"),
        # Copied again instead of moved.
        near=(*plan[:2], ("key", "ctrl", "c"), *plan[3:]),
    )


def sort_out(rng: Random) -> DesktopTask:
    """Folder, move, and rename in it: a long one."""
    files, names, folder = home(rng)
    name, new = rng.choice(names), rng.choice([other for other in FOLDERS if other != folder])
    final = f"{new}/{new.lower()}-{rng.randint(10, 99)}.txt"
    plan: Plan = (
        ("key", "ctrl", "shift", "n"),
        *_named(new),
        cell(name),
        ("key", "ctrl", "x"),
        cell(new, "double"),
        ("key", "ctrl", "v"),
        cell(name),
        ("key", "f2"),
        *_named(final.partition("/")[2]),
    )
    return _task(
        "sort_out",
        f"Make a folder “{new}”, move {name} into it and rename it there to {final.partition('/')[2]}.",
        files,
        plan,
        _same(files, final, name),
        _gone(name),
        rest(files, name, final),
    )


def view(rng: Random) -> DesktopTask:
    files, _, _ = home(rng)
    name, other = rng.choice((("Icon", "Compact"), ("Compact", "Icon")))
    plan: Plan = (("click", "menu", "View"), ("click", "check menu item", f"{name} View"))
    return _task(
        "view",
        f"Switch the file manager to its {name.lower()} view.",
        files,
        plan,
        {"check": "setting", "key": "thunar/last-view", "is": f"Thunar{name}View"},
        rest(files),
        near=(plan[0], ("click", "check menu item", f"{other} View")),
    )


def show_hidden(rng: Random) -> DesktopTask:
    files, _, _ = home(rng)
    plan: Plan = (("click", "menu", "View"), ("click", "check menu item", "Show Hidden Files"))
    return _task(
        "show_hidden",
        "Make the file manager show hidden files.",
        files,
        plan,
        {"check": "setting", "key": "thunar/last-show-hidden", "is": "true"},
        rest(files),
        near=(plan[0], ("click", "check menu item", "Compact View")),
    )


def open_file(rng: Random) -> DesktopTask:
    files, names, _ = home(rng)
    name = rng.choice(names)
    # Which program opens texts is a setting of the home folder.
    files[".config/mimeapps.list"] = OPENERS
    return _task(
        "open",
        f"Open {name} in the text editor, from the file manager.",
        files,
        (cell(name, "double"),),
        {"check": "process", "program": "mousepad", "running": True},
        {"check": "window", "app": "mousepad", "role": "text", "text": files[name]},
        rest(files),
        near=(cell(_another(rng, names, name), "double"),),
    )


def count(rng: Random) -> DesktopTask:
    files, names, folder = home(rng)
    more = {f"{folder}/{name}": "x\n" for name in rng.sample(NAMES, rng.randint(2, 6))}
    # With the one file that every folder begins with.
    said = str(len(more) + 1)
    return _task(
        "count",
        f"How many files are in the folder “{folder}”? Open it and tell me the number.",
        {**files, **more},
        (cell(folder, "double"), ("answer", said)),
        answer(said),
        rest({**files, **more}),
    )


FILES = (
    new_folder,
    nested_folder,
    rename,
    delete,
    delete_folder,
    move,
    copy,
    drag,
    by_context_menu,
    take_out,
    sort_out,
    view,
    show_hidden,
    open_file,
    count,
)
