"""Tasks of the desktop that somebody else wrote whole, most often a model: goal, start, rule, way and near miss.

All of it is data of a stranger. The rule is a list of checks in the form of `desktop_task`, no code; what isn't in that
form, reaches out of the home folder or asks for a terminal is refused before anything is carried out. What can be wrong
with the meaning of a rule, a sealed desktop shows: `try_out`.
"""

import json
import re
from calendar import day_name, month_name
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, starmap
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, with_config
from typing_extensions import TypedDict

from generators.worlds.desktop.check import gate
from generators.worlds.desktop.desktop_task import DesktopTask, rest
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.making import task
from generators.worlds.desktop.plan import near_miss_of, prove, refute, slips_of
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
_MONTHS, _DAYS = "|".join(month_name[1:]), "|".join(day_name)
_DATED = re.compile(
    rf"\d{{4}}-\d\d|\d{{1,2}}([./])\d{{1,2}}\1\d{{2,4}}|\d{{1,2}}:\d\d|(?:{_MONTHS}) \d|\d (?:{_MONTHS})|{_DAYS}",
    re.IGNORECASE,
)
"""Days and times, as texts say them."""
OPENING = ({"ctrl", "alt", "t"}, {"alt", "f2"}, {"super"})
"""Keys that open a terminal, or ask for a command."""
_TERMINALS = ("xfce4-terminal", "claws-mail")
"""Programs that carry out what is typed, or may: a model's words aren't run, not even sealed off."""


Text = Annotated[str, Field(max_length=LONGEST)]
# A list of nothing is among the lines of any file.
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_INTENTS)]
Cells = Annotated[dict[Text, Text], Field(min_length=1, max_length=MOST_INTENTS)]


def _path(value: str) -> str:
    path = PurePosixPath(value)
    named = path.as_posix() == value and path.parts and not path.is_absolute() and "\0" not in value
    if not named or any(part.startswith(".") for part in path.parts) or path.suffix == ".desktop":
        raise ValueError(f"expected a path of visible names below the home folder, found {value!r:.60}")
    return value


def _program(name: str) -> str:
    known = called(name)
    # Without a tree nothing can be aimed at by role and name.
    if known is None or known.name in _TERMINALS or not known.tree:
        raise ValueError(f"expected a program with elements that runs no commands, found {name!r:.60}")
    return name


def _intent(words: list[str]) -> list[str]:
    kind, said = words[0], words[1:]
    if kind not in INTENTS or (len(said) != INTENTS[kind] if kind != "key" else not 0 < len(said) < 5):
        raise ValueError(f"expected one of {', '.join(INTENTS)} with its words, found {words!r:.80}")
    if kind == "launch":
        _program(said[0])
    keys, aims = {word.lower() for word in said}, kind in ("click", "double", "drag")
    if (kind == "key" and any(keys >= opening for opening in OPENING)) or (aims and "terminal" in " ".join(keys)):
        raise ValueError(f"expected nothing that opens a terminal, found {words!r:.80}")
    return words


HomePath = Annotated[Text, AfterValidator(_path)]
CHECKS: dict[str, dict[str, Any]] = {
    "file": {"path": HomePath, "text": Text},
    "has": {"path": HomePath, "lines": Texts},
    "gone": {"path": HomePath},
    "folder": {"path": HomePath},
    "cells": {"path": HomePath, "cells": Cells},
    "paragraphs": {"path": HomePath, "lines": Texts},
    "setting": {"key": Text, "is": Text | bool | int},
    "process": {"program": Text, "running": bool},
    "window": {"app": Text, "role": Text, "text": Text},
    "answer": {"is": Text, "not": NotRequired[Texts]},
}
"""The checks that a rule may have, and what each of their entries is. Those with digests are ours to write."""
_STRICT = ConfigDict(extra="forbid", strict=True)


def _form(kind: str, entries: dict[str, Any]) -> Any:
    # Entries are called `is` and `not`, which no class can say.
    made: Any = TypedDict(kind, {"check": Literal[kind], **entries})  # type: ignore[misc,operator]
    return with_config(_STRICT)(made)


_CHECK: Any = Annotated[Union[tuple(starmap(_form, CHECKS.items()))], Field(discriminator="check")]  # noqa: UP007
Way = Annotated[list[Annotated[Texts, AfterValidator(_intent)]], Field(min_length=1, max_length=MOST_INTENTS)]


class _Start(BaseModel):
    model_config = _STRICT
    program: Annotated[Text, AfterValidator(_program)]
    files: Annotated[dict[HomePath, Text], Field(max_length=MOST)]
    open: HomePath | None = None


class _Written(BaseModel):
    model_config = _STRICT
    goal: Text
    start: _Start
    checks: Annotated[list[_CHECK], Field(min_length=1, max_length=MOST)]
    plan: Way
    near_miss: Way


def read_task(name: str, written: Mapping[str, str]) -> DesktopTask:
    """The task of `FIELDS`; a check is added that all files which the rule doesn't name are as they were. Raises
    `ValueError` with what was expected for anything else than a task in that form."""
    # The whole is limited first: nothing below reads more than that.
    if (length := sum(len(written[field]) for field in FIELDS)) > MOST * LONGEST:
        raise ValueError(f"task: expected at most {MOST * LONGEST} characters, found {length}")
    try:
        read = _Written(goal=written["goal"], **{field: json.loads(written[field]) for field in FIELDS[1:]})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))[:60]
        raise ValueError(f"{where}: expected data of the form: {first['msg']}, found {first['input']!r:.60}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"task: expected JSON, found {error}"[:200]) from error
    start, known = read.start, called(read.start.program)
    # The other view of the file manager tells nothing of files.
    files = start.files | ({VIEW_FILE: LIST_VIEW} if known and known.name == "thunar" else {})
    plan, near = ([tuple(words) for words in way] for way in (read.plan, read.near_miss))
    goal, opened = " ".join(read.goal.split()), start.open or ""
    made = task(name, start.program, goal, plan, *read.checks, files=files, opened=opened, near=near)
    # Such a rule may be right on the day on which it was written, and no other run would show it.
    given, rule = f"{goal} {written['start']}", json.dumps(read.checks, ensure_ascii=False)
    if said := next((found[0] for found in _DATED.finditer(rule) if found[0] not in given), ""):
        raise ValueError(f"checks: expected no day or time that neither goal nor files say, found {said}")
    # Without it a rule says nothing of the damage that somebody does on the way.
    others = rest(made.start["files"], *(str(check["path"]) for check in read.checks if "path" in check))
    return replace(made, checks=(*read.checks, others))


def written_form(made: DesktopTask) -> dict[str, str]:
    """The inverse of `read_task`: an example to show. Raises `ValueError` for a task with checks that may not be
    written."""
    start = {key: value for key, value in made.start.items() if key != "world"}
    # What programs' descriptors bring is hidden, and brought again.
    start["files"] = {path: text for path, text in start.get("files", {}).items() if not path.startswith(".")}
    if others := {check["check"] for check in made.checks} - {*CHECKS, "rest"}:
        raise ValueError(f"task {made.name}: expected checks that may be written, found {', '.join(sorted(others))}")
    checks = [check for check in made.checks if check["check"] in CHECKS]
    parts = (start, checks, made.plan, near_miss_of(made))
    return {"goal": made.goal, **{field: json.dumps(part) for field, part in zip(FIELDS[1:], parts, strict=True)}}


def try_out(made: DesktopTask, world: DesktopWorld) -> None:
    """Carry a written task out, on a sealed desktop: the gate of all tasks (the goal doesn't hold at the start, after a
    no-op, before the last step, or after the near miss, and holds after the way), then the way again, which has to come
    out the same, and slips of ours in it, after which the goal doesn't hold. Raises `WorldError`, or `ValueError`, with
    what is wrong, `DeviceError` where the desktop broke."""
    gate(made, world)
    prove(made, world)
    # Whoever writes a rule that is too weak writes a near miss that suits it, so slips of ours are tried, too.
    for slip in islice(slips_of(made.plan), SLIPS):
        refute(replace(made, near_miss=slip), world)
