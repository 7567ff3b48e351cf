"""Tasks of the desktop that somebody else wrote whole, most often a model: goal, start, rule, way and near miss.

All of it is data of a stranger. The rule is a list of checks in the form of `desktop_task`, no code; what isn't in that
form, reaches out of the home folder or asks for a terminal is refused before anything is carried out. What can be wrong
with the meaning of a rule, a sealed desktop shows: `try_out`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.check import gate
from generators.worlds.desktop.desktop_task import DesktopTask, Intent, rest
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.making import task
from generators.worlds.desktop.plan import near_miss_of, prove, refute, slips_of
from generators.worlds.desktop.program import DesktopProgram
from generators.worlds.desktop.programs import called
from generators.worlds.desktop.tasks_files import LIST_VIEW, VIEW_FILE

FIELDS = ("goal", "start", "checks", "plan", "near_miss")
"""A written task: the goal in words, the others as JSON."""
MOST, MOST_INTENTS, LONGEST = 12, 60, 4_000
"""Files and checks; intents of a way, lines and cells; characters of a text."""
SLIPS = 3
"""Ways with one slip of ours that are tried."""
INTENTS = {"click": 2, "double": 2, "drag": 4, "key": 0, "type": 1, "enter": 0, "wait": 0, "launch": 1, "answer": 1}
"""Words behind each intent's name (`key`: as many as there are keys)."""
CLOCK = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%B %d", "%d %B", "%A", "%H:%M")
"""How a text may say the day, or the minute, in which it was tried."""
OPENING = ({"ctrl", "alt", "t"}, {"alt", "f2"}, {"super"})
"""Keys that open a terminal, or ask for a command."""
_TERMINALS = ("xfce4-terminal", "claws-mail")
"""Programs that carry out what is typed, or may: a model's words aren't run, not even sealed off."""


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError(f"expected a text of at most {LONGEST} characters, found {value!r:.60}")
    return value


def _texts(value: object) -> list[str]:
    # A list of nothing is among the lines of any file.
    if not isinstance(value, list) or not 0 < len(value) <= MOST_INTENTS:
        raise ValueError(f"expected a list of 1 to {MOST_INTENTS} texts, found {value!r:.60}")
    return [_text(one) for one in value]


def _path(value: object) -> str:
    """A visible file or folder of the home folder, no program starter."""
    path = PurePosixPath(_text(value))
    named = path.as_posix() == value and path.parts and not path.is_absolute() and "\0" not in value
    if not named or any(part.startswith(".") for part in path.parts) or path.suffix == ".desktop":
        raise ValueError(f"expected a path of visible names below the home folder, found {value!r:.60}")
    return path.as_posix()


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {value!r:.60}")
    return value


def _cells(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not 0 < len(value) <= MOST_INTENTS:
        raise ValueError(f"expected an object of 1 to {MOST_INTENTS} cells, found {value!r:.60}")
    return {_text(name): _text(entered) for name, entered in value.items()}


def _scalar(value: object) -> str | bool | int:
    return value if isinstance(value, bool | int) else _text(value)


CHECKS: dict[str, dict[str, Callable[[object], object]]] = {
    "file": {"path": _path, "text": _text},
    "has": {"path": _path, "lines": _texts},
    "gone": {"path": _path},
    "folder": {"path": _path},
    "cells": {"path": _path, "cells": _cells},
    "paragraphs": {"path": _path, "lines": _texts},
    "setting": {"key": _text, "is": _scalar},
    "process": {"program": _text, "running": _flag},
    "window": {"app": _text, "role": _text, "text": _text},
    "answer": {"is": _text, "not": _texts},
}
"""The checks that a rule may have, and what each of their entries is (`not` may be left out). Those with digests are
ours to write."""


def read_task(name: str, written: Mapping[str, str]) -> DesktopTask:
    """The task of `FIELDS`; a check is added that all files which the rule doesn't name are as they were. Raises
    `ValueError` with what was expected for anything else than a task in that form."""
    # The whole is limited first: nothing below reads more than that.
    if (length := sum(len(written[field]) for field in FIELDS)) > MOST * LONGEST:
        raise ValueError(f"task: expected at most {MOST * LONGEST} characters, found {length}")
    try:
        start, checks, plan, near = (json.loads(written[field]) for field in FIELDS[1:])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"task: expected JSON, found {error}"[:200]) from error
    if not isinstance(start, dict) or not {"program", "files"} <= start.keys() <= {"program", "files", "open"}:
        raise ValueError(f"start: expected program, files and open, found {start!r:.80}")
    if not isinstance(checks, list) or not 0 < len(checks) <= MOST:
        raise ValueError(f"checks: expected a list of 1 to {MOST}, found {checks!r:.60}")
    files, read, program = start["files"], [_check(one) for one in checks], _program(start["program"])
    if not isinstance(files, dict) or len(files) > MOST:
        raise ValueError(f"files: expected an object of at most {MOST}, found {files!r:.60}")
    files = {_path(path): _text(text) for path, text in files.items()}
    made = task(
        name,
        start["program"],
        " ".join(written["goal"].split()),
        [_intent(one) for one in _listed(plan)],
        *read,
        # Its other view tells nothing of files.
        files={**files, VIEW_FILE: LIST_VIEW} if program.name == "thunar" else files,
        opened=_path(start["open"]) if start.get("open") else "",
        near=[_intent(one) for one in _listed(near)],
    )
    # Without it a rule says nothing of the damage that somebody does on the way.
    others = rest(made.start["files"], *(str(check["path"]) for check in read if "path" in check))
    return replace(made, checks=(*read, others))


def written_form(made: DesktopTask) -> dict[str, str]:
    """The inverse of `read_task`, for a task whose checks are among those that may be written: an example to show."""
    start = {key: value for key, value in made.start.items() if key != "world"}
    # What programs' descriptors bring is hidden, and brought again.
    start["files"] = {path: text for path, text in start.get("files", {}).items() if not path.startswith(".")}
    checks = [check for check in made.checks if check["check"] in CHECKS]
    parts = (start, checks, made.plan, near_miss_of(made))
    return {"goal": made.goal, **{field: json.dumps(part) for field, part in zip(FIELDS[1:], parts, strict=True)}}


def _program(name: object) -> DesktopProgram:
    known = called(_text(name))
    # Without a tree nothing can be aimed at by role and name.
    if known is None or known.name in _TERMINALS or not known.tree:
        raise ValueError(f"program: expected one with elements that runs no commands, found {name!r:.60}")
    return known


def _check(given: object) -> dict[str, Any]:
    kind = given.get("check") if isinstance(given, dict) else None
    form = CHECKS.get(kind) if isinstance(kind, str) else None
    if (
        not isinstance(given, dict)
        or form is None
        or not form.keys() - {"not"} <= given.keys() - {"check"} <= form.keys()
    ):
        known = "; ".join(f"{name} with {', '.join(entries)}" for name, entries in CHECKS.items())
        raise ValueError(f"check: expected one of {known}; found {given!r:.80}")
    return {"check": kind, **{entry: read(given[entry]) for entry, read in form.items() if entry in given}}


def _listed(plan: object) -> list[object]:
    if not isinstance(plan, list) or not 0 < len(plan) <= MOST_INTENTS:
        raise ValueError(f"plan: expected a list of 1 to {MOST_INTENTS} intents, found {plan!r:.60}")
    return plan


def _intent(given: object) -> Intent:
    words = _texts(given)
    kind, said = words[0], words[1:]
    if kind not in INTENTS or (len(said) != INTENTS[kind] if kind != "key" else not 0 < len(said) < 5):
        raise ValueError(f"intent: expected one of {', '.join(INTENTS)} with its words, found {words!r:.80}")
    if kind == "launch":
        _program(said[0])
    keys, aims = {word.lower() for word in said}, kind in ("click", "double", "drag")
    if (kind == "key" and any(keys >= opening for opening in OPENING)) or (aims and "terminal" in " ".join(keys)):
        raise ValueError(f"intent: expected nothing that opens a terminal, found {words!r:.80}")
    return (kind, *said)


def try_out(made: DesktopTask, world: DesktopWorld) -> None:
    """Carry a written task out, on a sealed desktop: the gate of all tasks (the goal doesn't hold at the start, after a
    no-op, before the last step, or after the near miss, and holds after the way), then the way again, which has to come
    out the same, and slips of ours in it, after which the goal doesn't hold. Raises `WorldError`, or `ValueError`, with
    what is wrong, `DeviceError` where the desktop broke."""
    begun = datetime.now()
    gate(made, world)
    prove(made, world)
    # Whoever writes a rule that is too weak writes a near miss that suits it, so slips of ours are tried, too.
    for slip in islice(slips_of(made.plan), SLIPS):
        refute(replace(made, near_miss=slip), world)
    # A minute may have passed since, and the desktop's clock is that of this machine.
    moments = (begun, datetime.now(), datetime.now() + timedelta(minutes=1))
    said = json.dumps([check for check in made.checks if check["check"] != "rest"], ensure_ascii=False)
    for form in CLOCK:
        if any((now := at.strftime(form)) in said and now not in made.goal for at in moments):
            raise WorldError(f"task {made.name}: its rule says the time at which it was tried ({form})")
