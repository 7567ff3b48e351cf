"""Tasks on desktop programs: a goal in words, checks on the end state, and a plan that reaches it.

A check is one of
    {"check": "file", "path", "text"}               a file in the home folder with exactly this text
    {"check": "untouched", "path", "sha256"}        a file as it was
    {"check": "window", "app", "role", "text"}      an item of the active window with exactly this text
    {"check": "answer", "is"}                       CallUser's text, blanks around it aside
A plan is a list of ("click", role, name), ("key", names...), ("type", text), ("answer", text).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.environments.world import Observation, World, WorldError
from schemas.actions import Action, CallUser, Click, Hotkey, Type
from schemas.ids import canonical_json

Intent = tuple[str, ...]
Check = dict[str, Any]


@dataclass(frozen=True)
class DesktopTask:
    """An executable contract. `start` is what `DesktopWorld.reset` takes."""

    name: str
    goal: str
    start: dict[str, Any]
    checks: tuple[Check, ...]
    plan: tuple[Intent, ...]

    @property
    def expected_steps(self) -> int:
        return len(self.plan)

    def evaluator(self) -> dict[str, Any]:
        """Plain JSON data; `failed_checks` reads it."""
        return {"rule": "desktop_state", "checks": list(self.checks)}


def _untouched(path: str, text: str) -> Check:
    return {"check": "untouched", "path": path, "sha256": hashlib.sha256(text.encode()).hexdigest()}


_LIST = "milk\nbread\n"
_MEMO = "Meeting on Monday at 10:00.\n"

TASKS: tuple[DesktopTask, ...] = (
    DesktopTask(
        "calculator_product", "Use the calculator to work out 12 times 34; leave the result on its display.",
        {"program": "galculator"},
        ({"check": "window", "app": "galculator", "role": "text", "text": "408"},),
        (("click", "toggle button", "1"), ("click", "toggle button", "2"), ("click", "toggle button", "*"),
         ("click", "toggle button", "3"), ("click", "toggle button", "4"), ("click", "toggle button", "=")),
    ),
    DesktopTask(
        "calculator_answer", "What is 7 to be divided by 8? Work it out with the calculator and tell me the number.",
        {"program": "galculator"},
        ({"check": "window", "app": "galculator", "role": "text", "text": "0.875"}, {"check": "answer", "is": "0.875"}),
        (("click", "toggle button", "7"), ("click", "toggle button", "/"), ("click", "toggle button", "8"),
         ("click", "toggle button", "="), ("answer", "0.875")),
    ),
    DesktopTask(
        "editor_append", "Add a line “eggs” to the end of the open shopping list and save it.",
        {"program": "mousepad", "files": {"shopping.txt": _LIST, "memo.txt": _MEMO}, "open": "shopping.txt"},
        ({"check": "file", "path": "shopping.txt", "text": f"{_LIST}eggs\n"}, _untouched("memo.txt", _MEMO)),
        (("key", "ctrl", "end"), ("type", "eggs\n"), ("key", "ctrl", "s")),
    ),
    DesktopTask(
        "editor_rewrite", "Replace everything in the open memo by the one line “Meeting cancelled 🚫” and save it.",
        {"program": "mousepad", "files": {"memo.txt": _MEMO, "shopping.txt": _LIST}, "open": "memo.txt"},
        ({"check": "file", "path": "memo.txt", "text": "Meeting cancelled 🚫\n"}, _untouched("shopping.txt", _LIST)),
        (("key", "ctrl", "a"), ("type", "Meeting cancelled 🚫\n"), ("key", "ctrl", "s")),
    ),
)  # fmt: skip


def failed_checks(evaluator: Mapping[str, Any], state: Mapping[str, Any], answer: str = "") -> list[str]:
    """The checks that don't hold, in words; empty = done. Raises `ValueError` for a rule or check it doesn't know."""
    if evaluator.get("rule") != "desktop_state":
        raise ValueError(f"desktop task: expected the rule 'desktop_state', found {evaluator.get('rule')!r}")
    return [canonical_json(check)[:200] for check in evaluator["checks"] if not _holds(check, state, answer)]


def _holds(check: Mapping[str, Any], state: Mapping[str, Any], answer: str) -> bool:
    kind = check["check"]
    files = {file["path"]: file for file in state["files"]}
    if kind == "file":
        return files.get(check["path"], {}).get("text") == check["text"]
    if kind == "untouched":
        return files.get(check["path"], {}).get("sha256") == check["sha256"]
    if kind == "window":
        window = state["window"]
        said = ((item["role"], item["text"]) for item in window.get("texts", ()))
        return window.get("app") == check["app"] and (check["role"], check["text"]) in said
    if kind == "answer":
        return answer.strip() == check["is"]
    raise ValueError(f"desktop task: unknown check {kind!r}; known are file, untouched, window, answer")


def action_of(intent: Intent, seen: Observation | None) -> Action:
    """An intent as an action on the screen. Raises `WorldError` where its element isn't there, or isn't alone."""
    kind, *rest = intent
    if kind == "click" and seen is not None:
        found = [place for place in seen.places if (place.role, place.name) == tuple(rest)]
        if len(found) != 1:
            raise WorldError(f"desktop plan: expected one {rest[0]} named {rest[1]!r}, found {len(found)}")
        return Click(found[0].centre)
    if kind == "key":
        return Hotkey(tuple(rest))
    if kind == "type":
        return Type(rest[0])
    if kind == "answer":
        return CallUser(rest[0])
    raise WorldError(f"desktop plan: unknown intent {kind!r}; known are click, key, type, answer")


def perform(task: DesktopTask, world: World) -> list[Action]:
    """Reset, then the whole plan on the real screen; gives the actions."""
    world.reset(task.start)
    done: list[Action] = []
    for intent in task.plan:
        done.append(action_of(intent, world.observe() if intent[0] == "click" else None))
        world.act(done[-1])
    return done
