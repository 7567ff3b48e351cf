"""Reads task files in OSWorld's form (https://github.com/xlang-ai/OSWorld, evaluation_examples), one JSON object each.

`instruction`, `config` (setup steps in order), `related_apps`, and `evaluator`: one function or a list of them under
`func`, with `result`, `expected` and `options` in the same shape, joined by `conj`, after the steps of `postconfig`.
Nothing in a file is trusted: what isn't in that form is refused with what was expected.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MAX_BYTES = 1 << 20
MAX_CALLS = 200
INFEASIBLE = "infeasible"
"""The function of a task that can't be done: it is solved by saying so."""
JsonObject = Mapping[str, object]


class TaskFileError(ValueError):
    """A file that is no task in OSWorld's form; the message says what was expected and what was found."""


@dataclass(frozen=True)
class NamedCall:
    """A setup step: what it is called, and its parameters."""

    name: str
    parameters: JsonObject


@dataclass(frozen=True)
class EvaluatorPart:
    """One function of an evaluator, with where its result and what is expected come from (None: nothing)."""

    func: str
    result: NamedCall | None
    expected: NamedCall | None
    options: JsonObject


@dataclass(frozen=True)
class OsworldTask:
    """A task as its file says. `domain` is the folder that it lies in, or else its snapshot; `native` the whole."""

    id: str
    domain: str
    instruction: str
    config: tuple[NamedCall, ...]
    related_apps: tuple[str, ...]
    parts: tuple[EvaluatorPart, ...]
    conj: Literal["and", "or"]
    postconfig: tuple[NamedCall, ...]
    native: JsonObject

    @property
    def infeasible(self) -> bool:
        return self.parts[0].func == INFEASIBLE

    @property
    def calls(self) -> tuple[NamedCall, ...]:
        """All setup steps, those before the evaluation among them."""
        return (*self.config, *self.postconfig)


@dataclass(frozen=True)
class BadTaskFile:
    """A file that was to be a task and is none."""

    file: str
    why: str


def tasks_in(folder: Path) -> Iterator[OsworldTask | BadTaskFile]:
    """The tasks of a folder in OSWorld's layout (`examples/DOMAIN/ID.json`), or of any folder of such files, in the
    order of their paths. JSON files without `instruction` and `evaluator` (lists of tests, settings) are none."""
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            if path.stat().st_size > MAX_BYTES:
                raise TaskFileError(f"expected at most {MAX_BYTES} bytes, found more")
            native = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            yield BadTaskFile(name, f"expected JSON, found {error}"[:300])
            continue
        if not isinstance(native, dict) or not {"instruction", "evaluator"} <= native.keys():
            continue
        try:
            yield read_task(native, path.parent.name if path.parent != folder else "")
        except TaskFileError as error:
            yield BadTaskFile(name, str(error))


def read_task(native: JsonObject, domain: str = "") -> OsworldTask:
    """A task of its JSON object. Raises `TaskFileError`."""
    evaluator = _object(native.get("evaluator"), "evaluator")
    apps = native.get("related_apps") or []
    if not isinstance(apps, list) or not all(isinstance(app, str) for app in apps):
        raise TaskFileError(f"related_apps: expected a list of names, found {apps!r:.80}")
    conj = evaluator.get("conj", "and")
    if conj not in ("and", "or"):
        raise TaskFileError(f"evaluator.conj: expected 'and' or 'or', found {conj!r:.40}")
    return OsworldTask(
        _text(native.get("id"), "id"),
        domain or _text(native.get("snapshot"), "snapshot"),
        _text(native.get("instruction"), "instruction").strip(),
        _calls(native.get("config"), "config"),
        tuple(apps),
        _parts(evaluator),
        "or" if conj == "or" else "and",
        _calls(evaluator.get("postconfig"), "evaluator.postconfig"),
        native,
    )


def _parts(evaluator: JsonObject) -> tuple[EvaluatorPart, ...]:
    """The functions, one of each list at the same place; what has no list of its own has one entry."""
    funcs = evaluator.get("func")
    names = funcs if isinstance(funcs, list) else [funcs]
    if not names or len(names) > MAX_CALLS:
        raise TaskFileError(f"evaluator.func: expected 1 to {MAX_CALLS} functions, found {len(names)}")
    lists: dict[str, list[object]] = {}
    for key in ("result", "expected", "options"):
        given = evaluator.get(key)
        lists[key] = given if isinstance(funcs, list) and isinstance(given, list) else [given]
        if given in (None, [], {}):
            lists[key] = [None] * len(names)
        if len(lists[key]) != len(names):
            raise TaskFileError(f"evaluator.{key}: expected {len(names)}, one a function, found {len(lists[key])}")
    return tuple(
        EvaluatorPart(
            _text(name, "evaluator.func"),
            _getter(result, "evaluator.result"),
            _getter(expected, "evaluator.expected"),
            {} if options is None else _object(options, "evaluator.options"),
        )
        for name, result, expected, options in zip(names, *lists.values(), strict=True)
    )


def _getter(value: object, where: str) -> NamedCall | None:
    if value is None or value == {}:
        return None
    given = _object(value, where)
    return NamedCall(_text(given.get("type"), f"{where}.type"), {k: v for k, v in given.items() if k != "type"})


def _calls(value: object, where: str) -> tuple[NamedCall, ...]:
    steps = value or []
    if not isinstance(steps, list) or len(steps) > MAX_CALLS:
        raise TaskFileError(f"{where}: expected a list of at most {MAX_CALLS} steps, found {value!r:.80}")
    return tuple(
        NamedCall(
            _text(step.get("type"), f"{where}.type"), _object(step.get("parameters") or {}, f"{where}.parameters")
        )
        for step in (_object(one, where) for one in steps)
    )


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise TaskFileError(f"{where}: expected an object, found {value!r:.80}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TaskFileError(f"{where}: expected a text, found {value!r:.80}")
    return value
