"""What a task on the desktop is: a goal in words, checks on the end state, and a plan that reaches it.

A check is one of
    {"check": "file", "path", "text"}               a file in the home folder with exactly this text
    {"check": "untouched", "path", "sha256"}        a file as it was
    {"check": "gone", "path"}                       no file or folder of that path
    {"check": "folder", "path"}                     a folder of that path
    {"check": "rest", "except", "digest"}           the files but those of `except` are what they were
    {"check": "has", "path", "lines"}               a file with these among its lines
    {"check": "members", "path", "files"}           an archive of exactly these files, {name: sha256}
    {"check": "drawn", "path", "digest"}            an XPM picture of these colours, see `documents.colours_of`
    {"check": "cells", "path", "cells"}             a Gnumeric sheet with exactly these cells, {"B2": what was entered}
    {"check": "paragraphs", "path", "lines"}        an AbiWord document of these, see `documents.paragraphs_of`
    {"check": "setting", "key", "is"}               a setting as programs keep them (see `on_desktop_home.py`)
    {"check": "process", "program", "running"}      a program runs, or doesn't
    {"check": "window", "app", "role", "text"}      an item of the active window with exactly this text,
                                                    first line of a text, or name
    {"check": "answer", "is"}                       CallUser's text says this as whole words, and none of "not"
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.worlds.desktop.documents import cells_of, colours_of, paragraphs_of
from generators.worlds.phone.phone_task import answer_holds
from schemas.ids import canonical_json, digest

Intent = tuple[str, ...]
"""("click" or "double", role, name) ("drag", role, name, role, name: from there to there) ("key", names...)
 ("type", text) ("enter",) ("wait",) ("launch", program) ("answer", text)"""
Check = dict[str, Any]


@dataclass(frozen=True)
class DesktopTask:
    """`start` is what `DesktopWorld.reset` takes; `name` is the family's. `near_miss` is a plan that does almost what
    is asked (another name, the file beside it, one figure wrong) and must not fulfil the checks; empty: `near_miss_of`
    makes one of the plan."""

    name: str
    goal: str
    start: dict[str, Any]
    checks: tuple[Check, ...]
    plan: tuple[Intent, ...]
    capabilities: tuple[str, ...] = ()
    near_miss: tuple[Intent, ...] = ()

    @property
    def expected_steps(self) -> int:
        return len(self.plan)

    def evaluator(self) -> dict[str, Any]:
        """Plain JSON data; `failed_checks` reads it."""
        return {"rule": "desktop_state", "checks": list(self.checks)}

    def contract(self) -> TaskSpec:
        target = f"desktop/{self.start['program']}"
        return TaskSpec(
            self.goal, "desktop", target, self.start, self.evaluator(), self.expected_steps, self.capabilities
        )


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rest_digest(files: Mapping[str, str], without: Collection[str]) -> str:
    # A digest instead of all files: the rule stays small, and any change shows.
    """Of what these files hold ({path: sha256}), but for some of them."""
    return digest({path: value for path, value in files.items() if path not in without})


def rest(files: Mapping[str, str], *changed: str) -> Check:
    """The check that of the files of a start ({path: text}) only some were changed, and none were added beside them."""
    # Hidden files are programs' own and change by themselves.
    held = {path: sha256_of(text) for path, text in files.items() if not path.startswith(".")}
    return {"check": "rest", "except": sorted(changed), "digest": rest_digest(held, changed)}


def failed_checks(evaluator: Mapping[str, Any], state: Mapping[str, Any], answer: str = "") -> list[str]:
    """The checks that don't hold, in words; empty = done. Raises `ValueError` for a rule or check it doesn't know."""
    if evaluator.get("rule") != "desktop_state":
        raise ValueError(f"desktop task: expected the rule 'desktop_state', found {evaluator.get('rule')!r}")
    if not evaluator["checks"]:
        raise ValueError("desktop task: expected at least one check, found none")
    return [canonical_json(check)[:200] for check in evaluator["checks"] if not _holds(check, state, answer)]


READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    # Among the lines, in any order.
    "has": lambda check, file: set(check["lines"]) <= set(file.get("text", "").splitlines()),
    "members": lambda check, file: file.get("members") == check["files"],
    "drawn": lambda check, file: digest(colours_of(file.get("text", ""))) == check["digest"],
    "cells": lambda check, file: cells_of(file.get("text", "")) == check["cells"],
    "paragraphs": lambda check, file: paragraphs_of(file.get("text", "")) == check["lines"],
}
"""Check → whether it holds of what the state says of its file; {}: there is no such file."""


def _file_holds(check: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    files = {file["path"]: file for file in state["files"]}
    if check["check"] == "rest":
        held = {path: file["sha256"] for path, file in files.items()}
        return rest_digest(held, check["except"]) == check["digest"]
    path = check["path"]
    if check["check"] in READERS:
        return READERS[check["check"]](check, files.get(path, {}))
    if check["check"] == "gone":
        return path not in files and path not in state["folders"]
    if check["check"] == "folder":
        return path in state["folders"]
    column = "text" if check["check"] == "file" else "sha256"
    return files.get(path, {}).get(column) == check[column]


def _window_holds(check: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    window = state["window"]
    return window.get("app") == check["app"] and any(
        item["role"] == check["role"] and check["text"] in (item["text"], item["name"], item["text"].partition("\n")[0])
        # Item's text, name, or first line, since programs tell one or the other.
        for item in window.get("texts", ())
    )


def _holds(check: Mapping[str, Any], state: Mapping[str, Any], answer: str) -> bool:
    kind = check["check"]
    if kind in ("file", "untouched", "gone", "folder", "rest", *READERS):
        return _file_holds(check, state)
    if kind == "setting":
        return bool(state["settings"].get(check["key"]) == check["is"])
    if kind == "process":
        return (check["program"] in state["programs"]) is check["running"]
    if kind == "window":
        return _window_holds(check, state)
    if kind == "answer":
        return answer_holds(answer, [check["is"]], check.get("not", ()))
    known = ", ".join(("file, untouched, gone, folder, rest, setting, process, window, answer", *READERS))
    raise ValueError(f"desktop task: unknown check {kind!r}; known are {known}")
