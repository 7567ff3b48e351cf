"""The rule that decides tasks on web apps, over `WebAppWorld.state` ({"path", "view", "data"}) and the last answer.

An evaluator is {"rule": "webapp_state", "checks": [...]}, plain JSON data. A check is one of
    {"check": "value", "path", "is"}         the value at a path (a list of keys) of the state; None where there is none
    {"check": "rest", "except", "digest"}    all data but these paths are as they were
    {"check": "answer", "any", "not"}        CallUser's text holds one of `any` as whole words, and none of `not`
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from generators.worlds.phone.phone_task import answer_holds
from schemas.ids import canonical_json, digest

RULE = "webapp_state"
Check = dict[str, Any]
Path = Sequence[str]


def value_at(state: object, path: Path) -> object:
    """The value at a path of nested objects; None where it ends early."""
    for key in path:
        if not isinstance(state, Mapping) or key not in state:
            return None
        state = state[key]
    return state


def _without(data: Any, paths: Iterable[Path]) -> Any:
    """A copy of nested objects without what stands at these paths."""
    heads: dict[str, list[Path]] = {}
    # Grouped by their first key, so that every level is copied once.
    for path in paths:
        heads.setdefault(path[0], []).append(path[1:])
    return {
        key: _without(value, heads[key]) if key in heads and isinstance(value, Mapping) else value
        for key, value in data.items()
        # A path that ends here takes its value out.
        if not any(not tail for tail in heads.get(key, ()))
    }


def rest_digest(data: Mapping[str, object], touched: Iterable[Path]) -> str:
    """Digest of the data without what a task may change; a path that isn't there yet (a row to be added) is welcome."""
    return digest(_without(data, touched))


def value(path: Path, expected: object) -> Check:
    """Check of one value; `path` begins with "view" or "data"."""
    return {"check": "value", "path": list(path), "is": expected}


def rest(data: Mapping[str, object], *touched: Path) -> Check:
    """Check that all but the touched paths of `data` (they begin with a table) is as it is now."""
    return {"check": "rest", "except": [list(path) for path in touched], "digest": rest_digest(data, touched)}


def answered(*accepted: str, refused: Sequence[str] = ()) -> Check:
    """Check of CallUser's text."""
    return {"check": "answer", "any": list(accepted), "not": list(refused)}


def failed_checks(evaluator: Mapping[str, object], state: Mapping[str, object], answer: str = "") -> list[str]:
    """The checks that don't hold, in words; empty = done. Raises `ValueError` for a rule or check it doesn't know."""
    checks = evaluator.get("checks")
    # Without checks everything would hold.
    if evaluator.get("rule") != RULE or not isinstance(checks, Sequence) or not checks:
        raise ValueError(f"web app task: expected the rule {RULE!r} with checks, found {evaluator.get('rule')!r:.60}")
    return [canonical_json(check)[:200] for check in checks if not _holds(check, state, answer)]


def holds(evaluator: Mapping[str, object], state: Mapping[str, object], answer: str = "") -> bool:
    """Whether an end state and the last CallUser's text fulfil the task."""
    return not failed_checks(evaluator, state, answer)


def _holds(check: Mapping[str, Any], state: Mapping[str, Any], answer: str) -> bool:
    kind = check["check"]
    if kind == "value":
        found = value_at(state, check["path"])
        # Type first: 1 == True in Python.
        return type(found) is type(check["is"]) and found == check["is"]
    if kind == "rest":
        return rest_digest(state["data"], check["except"]) == check["digest"]
    if kind == "answer":
        return answer_holds(answer, check["any"], check["not"])
    raise ValueError(f"web app task: unknown check {kind!r:.60}; known are value, rest, answer")
