"""What a task on the phone is: a goal in words, checks on the end state, and a plan over element keys that reaches it.

Tasks are made from the document alone (no browser). `evaluate` needs only the end state and the answer: what must not
have changed is held by one digest. A check is one of
    {"check": "count", "path", "where", "is"}   so many items of a list have these fields ({"any_order": [...]} as
                                                a value: a list of these, however they are put in order)
    {"check": "value", "path", "is"}            the value at a dotted path of the data
    {"check": "rest", "except", "digest"}       all other data is as it was ({path: [fields of items, or keys]})
    {"check": "answer", "any", "not"}           CallUser's text holds one of `any` as whole words, and none of `not`
    {"check": "infeasible"}                     CallUser says that it can't be done
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.worlds.pages.page_task import lookup
from generators.worlds.phone.refusals import says_it_cant_be_done
from generators.worlds.phone.snapshot import APPS, Snapshot
from schemas.ids import canonical_json, digest

Intent = tuple[Any, ...]
"""("tap", key) ("hold", key) ("type", text) ("slide", key, percent) ("home",) ("back",) ("enter",) ("answer", text)"""
Check = dict[str, Any]
Touch = dict[str, list[Any]]
_MONTH = (
    "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)


@dataclass(frozen=True)
class AppGoal:
    """A goal within one app. `plan` starts on the app's first screen and its last step fulfils the checks; `back` goes
    on to the first screen again. `subjects` name what it is about: parts of one task share none."""

    app: str
    words: str
    plan: tuple[Intent, ...]
    back: tuple[Intent, ...]
    checks: tuple[Check, ...]
    touch: Touch
    subjects: frozenset[str]


@dataclass(frozen=True)
class PhoneTask:
    """An executable contract. `start` is what `PhoneWorld.reset` takes."""

    family: str
    apps: tuple[str, ...]
    goal: str
    start: dict[str, Any]
    checks: tuple[Check, ...]
    plan: tuple[Intent, ...]
    feasible: bool = True
    capabilities: tuple[str, ...] = field(default=())

    @property
    def expected_steps(self) -> int:
        """Actions of the plan; scrolling that a screen may need comes on top (`plan.perform` counts it)."""
        return len(self.plan)

    def evaluator(self) -> dict[str, Any]:
        """{"rule", "checks", "feasible"}, plain JSON data; `evaluate` reads it."""
        return {"rule": "phone_state", "checks": list(self.checks), "feasible": self.feasible}

    def contract(self) -> TaskSpec:
        """What the generation loop executes."""
        return TaskSpec(
            self.goal,
            "mobile",
            f"phone/{self.apps[0]}",
            self.start,
            self.evaluator(),
            self.expected_steps,
            self.capabilities,
        )


# `where` names some fields; what isn't named may be anything.
def matches(item: Any, where: Any) -> bool:
    """Whether an item of a list has these fields with these values."""
    return isinstance(item, dict) and all(key in item and _same(item[key], value) for key, value in where.items())


def _same(value: object, wanted: object) -> bool:
    if isinstance(wanted, dict) and set(wanted) == {"any_order"}:
        return isinstance(value, list) and _sorted(value) == _sorted(wanted["any_order"])
    return bool(value == wanted)


# As canonical JSON, since dicts can't be sorted.
def _sorted(items: Sequence[object]) -> list[str]:
    return sorted(canonical_json(item) for item in items)


def rest_digest(data: Mapping[str, Any], touch: Mapping[str, Sequence[Any]]) -> str:
    """Digest of the data without what a task may change: items that match, or keys of an object, at each path."""
    # All of every app: what isn't named by `touch` must be as it was, to the last field.
    rest: dict[str, Any] = {}
    for app in APPS:
        for name, value in data[app].items():
            rest[f"{app}.{name}"] = value
    for path, gone in touch.items():
        value = rest[path]
        if isinstance(value, dict):
            rest[path] = {key: item for key, item in value.items() if key not in gone}
        else:
            # Items that a task may change are taken out before and after,
            # so that only the others are compared.
            rest[path] = [item for item in value if not any(matches(item, where) for where in gone)]
    return digest(rest)


def _plain(text: str) -> str:
    # Lower case, no punctuation but that of times and decimals.
    words = f" {' '.join(re.findall(r'[a-z0-9:.]+', text.lower().replace(',', ' ').strip()))} ".replace(". ", " ")
    words = re.sub(rf"\b(\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}\b", r"\1 \2", words)  # 16th of July: 16 July
    # Three ways to write a day become one.
    return re.sub(rf"\b{_MONTH} (?:the )?(\d\d?)(?:st|nd|rd|th)\b", r"\1 \2", words)


def answer_holds(answer: str, accepted: Sequence[str], refused: Sequence[str] = ()) -> bool:
    """Whole words, letters of either case; an answer that also names what is wrong (a list of everything) fails."""
    given = _plain(answer)
    # Longest first: "16 July 2026" must not be found as "16 July" with a year left over.
    for good in sorted(accepted, key=len, reverse=True):
        if _plain(good) in given:
            left = given.replace(_plain(good), " ")
            # What is left must not name a wrong value: an answer that lists everything is no answer.
            return not any(_plain(bad) in left for bad in refused)
    return False


def failed_checks(evaluator: Mapping[str, Any], state: Snapshot, answer: str = "") -> list[str]:
    """The checks that don't hold, in words; empty = done. Raises `ValueError` for a rule or check it doesn't know."""
    if evaluator.get("rule") != "phone_state":
        raise ValueError(f"phone task: expected the rule 'phone_state', found {evaluator.get('rule')!r}")
    return [canonical_json(check)[:200] for check in evaluator["checks"] if not _holds(check, state["data"], answer)]


def evaluate(evaluator: Mapping[str, object], state: Snapshot, answer: str = "") -> bool:
    """Whether the end state (`PhoneWorld.state`) and the last CallUser's text fulfil the task."""
    return not failed_checks(evaluator, state, answer)


def _holds(check: Mapping[str, Any], data: Mapping[str, Any], answer: str) -> bool:
    kind = check["check"]
    if kind == "count":
        found = lookup(dict(data), check["path"])
        return isinstance(found, list) and sum(matches(item, check["where"]) for item in found) == check["is"]
    if kind == "value":
        found = lookup(dict(data), check["path"])
        # Type first: 1 == True in Python.
        return type(found) is type(check["is"]) and found == check["is"]
    if kind == "rest":
        return rest_digest(data, check["except"]) == check["digest"]
    if kind == "answer":
        return answer_holds(answer, check["any"], check["not"])
    if kind == "infeasible":
        return says_it_cant_be_done(answer)
    raise ValueError(f"phone task: unknown check {kind!r}; known are count, value, rest, answer, infeasible")


# --- what a part changes: (checks, touch) -----------------------------------------------------------------------------
Effect = tuple[tuple[Check, ...], Touch]


def added(path: str, **fields: object) -> Effect:
    """One new item with these fields."""
    # One exactly: adding the same thing twice isn't what was asked.
    return ({"check": "count", "path": path, "where": fields, "is": 1},), {path: [fields]}


def changed(path: str, item: Mapping[str, object], **new: object) -> Effect:
    """The item has new values and is otherwise as it was."""
    # All fields of the item as they were but the new ones: nothing else of it may change.
    return ({"check": "count", "path": path, "where": {**item, **new}, "is": 1},), {path: [{"id": item["id"]}]}


def removed(path: str, *items: Mapping[str, object]) -> Effect:
    """These items are gone."""
    # Absence of each by its id, so that deleting another one of the same name doesn't count.
    checks = tuple({"check": "count", "path": path, "where": {"id": item["id"]}, "is": 0} for item in items)
    return checks, {path: [{"id": item["id"]} for item in items]}


# Keys of the object that may differ; its other keys belong to the rest.
def valued(path: str, key: str, value: object) -> Effect:
    """An entry of an object has this value."""
    return ({"check": "value", "path": f"{path}.{key}", "is": value},), {path: [key]}


def effects(*parts: Effect) -> Effect:
    """Several effects as one."""
    touch: Touch = {}
    for _, more in parts:
        for path, gone in more.items():
            # Lists at one path are joined: two parts may touch the same collection.
            touch.setdefault(path, []).extend(gone)
    return tuple(check for checks, _ in parts for check in checks), touch


def part(
    rng: Random,
    app: str,
    words: Sequence[str],
    plan: Sequence[Intent],
    back: Sequence[Intent],
    effect: Effect,
    *subjects: str,
) -> AppGoal:
    """A part with one of several wordings."""
    return AppGoal(app, rng.choice(words), tuple(plan), tuple(back), *effect, frozenset(subjects))


def tap(*keys: str) -> list[Intent]:
    return [("tap", key) for key in keys]


def fill(name: str, text: str, *, old: bool = False) -> list[Intent]:
    """Write into the field `name` of a form; `old` empties it first (the cross leaves it focused)."""
    # Forms name their fields "field:…"; full keys are taken as they are.
    key = name if ":" in name else f"field:{name}"
    return [("tap", f"{key}:clear" if old else key), ("type", text)]


def pick_time(name: str, old: str, new: str) -> list[Intent]:
    """Set an hour and a minute where they differ."""
    plan: list[Intent] = []
    # Only what differs is picked: the page offers no way to pick what is set already.
    if old[:2] != new[:2]:
        plan += tap(f"pick:{name}:hour", f"opt:{new[:2]}")
    if old[3:] != new[3:]:
        plan += tap(f"pick:{name}:minute", f"opt:{new[3:]}")
    return plan


def open_app(snapshot: Snapshot, app: str, *, first: bool) -> list[Intent]:
    """From wherever the phone is to an app's icon."""
    look = snapshot["look"]
    # Icons that aren't on the home screen or dock are in the drawer.
    icon = tap(f"home:{app}") if app in (*look["home"], *look["dock"]) else tap("home:drawer", f"drawer:{app}")
    return icon if first else [("home",), *icon]


_JOINS = (", then ", " and then ", "; after that ", "; next, ")


def compose(
    family: str,
    start: Mapping[str, object],
    snapshot: Snapshot,
    parts: Sequence[AppGoal],
    rng: Random,
    goal: str = "",
    *,
    before: Sequence[tuple[str, Sequence[Intent]]] = (),
    extra: Sequence[Intent] = (),
    more: Sequence[Check] = (),
    feasible: bool = True,
) -> PhoneTask:
    """Parts (those of an app in a row) as one task. `before`: (app, plan) to read something first; `extra`: what ends
    the plan (an answer). Without `goal` the parts' words are joined."""
    plan: list[Intent] = []
    app = ""
    for where, steps in before:
        # Reading comes first: what is read is needed by the parts.
        plan += [*open_app(snapshot, where, first=not plan), *steps]
    for index, one in enumerate(parts):
        # In the same app the part before leads back to its first screen; another app is opened from home.
        plan += list(parts[index - 1].back) if one.app == app else open_app(snapshot, one.app, first=not plan)
        plan += one.plan
        app = one.app
    plan += extra
    checks, touch = effects(*((p.checks, p.touch) for p in parts))
    # The rest of the phone is held by one digest over the start without what may change.
    rest = {"check": "rest", "except": touch, "digest": rest_digest(snapshot["data"], touch)}
    text = goal or rng.choice(_JOINS).join(p.words for p in parts)
    # The app of the first part is the target; those that are only read come after.
    apps = tuple(dict.fromkeys([*(p.app for p in parts), *(where for where, _ in before)]))
    return PhoneTask(
        family,
        apps,
        text[0].upper() + text[1:],
        {"world": "phone", **start},
        (*checks, *more, rest),
        tuple(plan),
        feasible,
        # Families, apps and kinds of action, by which suites and pools choose.
        tuple(sorted({family, *(f"phone/{a}" for a in apps), *(f"phone:{i[0]}" for i in plan)})),
    )
