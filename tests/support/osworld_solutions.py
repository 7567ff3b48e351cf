"""Scripted solutions of the task files in tests/fixtures/osworld, and near misses that must not solve them."""

from __future__ import annotations

from generators.worlds.desktop.desktop_task import Intent
from generators.worlds.desktop.making import SAVE

Plan = tuple[Intent, ...]


def _line(command: str) -> Plan:
    return (("type", command), ("enter",), ("wait",))


def _all_text(text: str, *, save: bool = False) -> Plan:
    """Everything in the editor replaced."""
    return (("key", "ctrl", "a"), ("type", text), *((SAVE, ("wait",)) if save else ()))


def _keys(keys: str) -> Plan:
    return tuple(("click", "toggle button", key) for key in keys)


def _renamed(name: str) -> Plan:
    named = (("key", "f2"), ("key", "ctrl", "a"), ("type", name), ("click", "push button", "Rename"), ("wait",))
    return (("click", "table cell", "todo_march"), *named)


def _moved(*names: str) -> Plan:
    """Each file cut, then all pasted in the subfolder."""
    steps: Plan = ()
    for name in names:
        steps += (("click", "table cell", name), ("key", "ctrl", "x"))
        steps += (("double", "table cell", "pictures"), ("key", "ctrl", "v"))
        steps += (("wait",), ("key", "alt", "up"))
    return steps


SOLUTIONS: dict[str, tuple[Plan, Plan]] = {
    "0a1c-append-line": ((("key", "ctrl", "end"), ("type", "honey\n")), (("key", "ctrl", "end"), ("type", "hone\n"))),
    "1b7e-json-setting": (
        _all_text('{"volume": 7, "repeat": ["all", "one"]}', save=True),
        _all_text('{"volume": "7", "repeat": ["all", "one"]}', save=True),
    ),
    "2c55-csv-row": (_all_text("goods,price\napples,2\ntea,4\n"), _all_text("goods,price\napples,4\ntea,3\n")),
    "3d02-count-lines": (_line("cat logs/*.log | wc -l"), _line("cat logs/* | wc -l")),
    "4e91-permissions": (_line("chmod 700 backup.sh"), _line("chmod 755 backup.sh")),
    "5f3a-pack-notes": (_line("tar czf notes.tar.gz notes"), _line("tar czf notes.tar.gz -C notes a.txt b.txt")),
    "6a08-either-place": (_line("cp Documents/report.txt stick/"), _line("touch usb/report.txt stick/report.txt")),
    "7b66-rename-folder": (_renamed("todo_april"), _renamed("todo_apri")),
    "8c19-gather-jpgs": (_moved("one.jpg", "two.jpg"), _moved("one.jpg", "read.me")),
    "9d70-multiply": (_keys("6*7="), _keys("6*8=")),
    "ae24-log-of-diff": (_all_text("a\nc\n"), _all_text("a\nc")),
    "b0d3-no-bluetooth": ((("answer", "There is no Bluetooth here, it can't be done."),), (("answer", "It is on."),)),
    "b1e8-no-undo-forever": ((("answer", "infeasible"),), _all_text("done", save=True)),
}
"""By id: what solves the task, and what almost does."""
