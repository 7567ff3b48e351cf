"""What the families of all programs share: a task from its parts, plans through menus and dialogs, words to draw."""

from collections.abc import Mapping, Sequence

from generators.worlds.desktop.desktop_task import Check, DesktopTask, Intent, rest
from generators.worlds.desktop.programs import called

Plan = tuple[Intent, ...]
SAVE: Intent = ("key", "ctrl", "s")
GOODS = ("apples", "bread", "butter", "cheese", "eggs", "honey", "lemons", "milk", "onions", "rice", "salt", "tea")
PEOPLE = ("Ada", "Björn", "Chen", "Dalia", "Emeka", "Farah", "Goran", "Hana")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def task(
    name: str,
    program: str,
    goal: str,
    plan: Sequence[Intent],
    *checks: Check,
    files: Mapping[str, str] | None = None,
    opened: str = "",
    near: Sequence[Intent] = (),
) -> DesktopTask:
    """A task that begins in a program with these files in the home folder ({path: text}) and one of them opened. The
    settings that its programs' descriptors bring are among the files, too. Without `near` a slip is made of the plan.
    """
    begun: dict[str, str] = {}
    # Programs that the plan launches later bring their files, too.
    for named in (program, *(intent[1] for intent in plan if intent[0] == "launch")):
        known = called(named)
        begun |= known.files if known else {}
    begun |= files or {}
    start = {"world": "desktop", "program": program, "files": begun, **({"open": opened} if opened else {})}
    return DesktopTask(name, goal, start, checks, tuple(plan), (name,), tuple(near))


def menu(*path: str) -> Plan:
    """Clicks through a menu; all but the last open one."""
    return (*(("click", "menu", name) for name in path[:-1]), ("click", "menu item", path[-1]))


def in_new_file(text: str, path: str) -> Plan:
    """Writes a text into a new file, with the text editor."""
    # The whole name is replaced in the dialog of saving, whatever stands there.
    saved: Plan = (SAVE, ("key", "ctrl", "a"), ("type", path), ("click", "push button", "Save"))
    return (("launch", "editor"), ("type", text), *saved)


def open_in(program: str, path: str) -> Plan:
    """Starts a program and opens a file in it, by the path."""
    # Ctrl+L shows the path as text in GTK's dialogs.
    return (("launch", program), ("key", "ctrl", "o"), ("key", "ctrl", "l"), ("type", path), ("enter",), ("wait",))


def closed(program: str) -> Check:
    """No process of the program runs."""
    return {"check": "process", "program": program, "running": False}


def holds(files: Mapping[str, str], path: str, text: str) -> tuple[Check, Check]:
    """This file says this, and all others are as they were."""
    return {"check": "file", "path": path, "text": text}, rest(files, path)


def lines(texts: Sequence[str]) -> str:
    """A text file of these lines."""
    return "".join(f"{text}\n" for text in texts)


# The rule of answers is the phone's.
def answer(said: str, *others: str) -> Check:
    """CallUser says this, and none of the others."""
    return {"check": "answer", "is": said, "not": list(others)} if others else {"check": "answer", "is": said}
