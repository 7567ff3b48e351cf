"""Evidence in the process of a run: what it had to do on the way, whether it did it, and whether that still stands.

A right last screen proves little: it may have been there before, the form may never have been sent, the state may have
been taken back, or it may be another one's. So success also asks for operations (ProBench): a list that the task
brings, or what the goal's own words ask to be acted on. An operation is *met* by a step on the element of its label,
with its text, on a screen that shows what it is about, after which something changed; it is *undone* by a later step
that presses the same switch again, chooses another of the same kind, types over it, or takes it back in words.

Can't see: an operation by another way than the list's (a shortcut key, another label for the same thing), and without
a list, goals that name nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quality.evidence.effects import STATEFUL
from quality.evidence.goal import COMMIT
from quality.evidence.steps import CONTAINER_SHARE, POINT_MARGIN
from quality.evidence.words import entities, holds, plain
from quality.items.item import Episode, Step
from quality.items.screens import Element
from schemas.action_types import CallUser, Finished, Launch, SelectOption, Type

UNDOING = frozenset(
    plain(
        "undo remove delete cancel discard reset clear unblock unlock decline reject reopen withdraw revoke restore "
        "rückgängig entfernen löschen abbrechen verwerfen zurücksetzen entsperren ablehnen"
    ).split()
)
"""First words of what takes something back, in English and German."""
UNDOING_CJK = ("撤销", "删除", "取消", "移除", "清空", "重置")
"""The same in Chinese, which parts no words."""
CHOICES = frozenset(("radio", "option", "tab", "menuitem"))
"""Roles of which one replaces another of the same group."""


@dataclass(frozen=True, slots=True)
class RequiredOperation:
    """Something that has to be done on the way. `label`: of the element that is acted on ("" = any); `text`: what is
    typed or chosen ("" = none); `within`: texts of which the screen, or what was chosen before, must show each;
    `times`: how often, at least once; `gone`: the element goes away by it, so that one which stays was refused."""

    label: str = ""
    text: str = ""
    within: tuple[str, ...] = ()
    times: int = 1
    gone: bool = False

    def __str__(self) -> str:
        what = f"{self.label!r}" if self.label else f"typing {self.text!r}"
        return what + (f" with {', '.join(map(repr, self.within))}" if self.within else "")

    @classmethod
    def of(cls, plain_form: Mapping[str, object]) -> RequiredOperation:
        """From plain JSON data: {"label", "text", "within", "times", "gone"}, each optional.

        Raises `ValueError` for one that names neither label nor text, and for other keys."""
        unknown = sorted(set(plain_form) - {"label", "text", "within", "times", "gone"})
        within, times = plain_form.get("within", ()), plain_form.get("times", 1)
        if unknown or not isinstance(within, list | tuple) or type(times) is not int or times < 1:
            raise ValueError(
                f"required operation: expected label, text, within, times and gone, found {str(plain_form)[:80]!r}"
            )
        label, text = str(plain_form.get("label", "")), str(plain_form.get("text", ""))
        found = cls(label, text, tuple(map(str, within)), times, plain_form.get("gone") is True)
        if not found.label and not found.text:
            raise ValueError(f"required operation: expected a label or a text, found {str(plain_form)[:80]!r}")
        return found


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """What a run shows of what was required: (operation, index of the step that met it), those never met, and what
    was done and taken back, in words."""

    met: tuple[tuple[RequiredOperation, int], ...] = ()
    missing: tuple[RequiredOperation, ...] = ()
    undone: tuple[str, ...] = field(default=())

    @property
    def complete(self) -> bool:
        """Whether all that was required was done and still stands."""
        return not self.missing and not self.undone

    @property
    def reason(self) -> str:
        """What stands against it, else how much was met."""
        said = [f"never done: {operation}" for operation in self.missing[:3]]
        said += [f"undone: {what}" for what in self.undone[:3]]
        return "; ".join(said) or f"all {len(self.met)} operations were done"


@dataclass(frozen=True, slots=True)
class _Act:
    """A step as evidence: what it touches, what it says, what shows, and whether anything changed."""

    step: Step
    touched: tuple[Element, ...]
    text: str
    shown: tuple[str, ...]
    after: tuple[str, ...] | None
    """What shows after it; None where nobody knows."""
    changed: bool

    @property
    def labels(self) -> list[str]:
        return [label for one in self.touched for label in (one.text, one.name) if label]


def process_of(episode: Episode, required: Sequence[RequiredOperation], *, whole: bool = False) -> ProcessEvidence:
    """Hold a run against what was required of it, in any order. `whole`: the list names all that a sound run changes,
    so whatever else is set behind its last operation, on the same page, takes something back."""
    acts = _acts(episode)
    met: list[tuple[RequiredOperation, int]] = []
    missing: list[RequiredOperation] = []
    last = -1
    for operation in required:
        places = [place for place in range(len(acts)) if _meets(acts, place, operation)]
        # what is counted (one more, one more) is wrong by one too many, too; others may press the same in their places
        most = sum(one.times for one in required if one.label == operation.label and one.text == operation.text)
        if len(places) < operation.times or (operation.times > 1 and len(places) > most):
            missing.append(operation)
        else:
            met.append((operation, places[operation.times - 1]))
            last = max(last, places[operation.times - 1])
    undone = [why for operation, place in met if (why := _undone(acts, place, operation, required))]
    undone += [] if missing or last < 0 else _taken_back(acts, last, episode.instruction, required, whole)
    unsent = _unsent(acts, last) if not missing else ""
    return ProcessEvidence(tuple(met), tuple(missing), tuple(dict.fromkeys([*undone, *([unsent] if unsent else [])])))


def goal_operations(episode: Episode) -> tuple[RequiredOperation, ...]:
    """What the goal's own words require: all that it quotes, numbers, addresses and names, if some screen of the run
    offers it for a choice, or else nobody could have typed it. Names of the site or app are no choice."""
    acts = _acts(episode)
    wanted = [one.text for one in entities(episode.instruction) if one.kind in ("quoted", "address", "number", "name")]
    found = []
    for text in wanted:
        screens = [act for act in acts if any(holds(label, text) for label in act.shown)]
        everywhere = len(screens) == len(acts)
        if screens and not everywhere:
            offered = any(_can_be_touched(one, text) for act in screens for one in _elements(act.step))
            found += [RequiredOperation(label=text)] if offered else []
        elif not screens:
            found.append(RequiredOperation(text=text))
    return tuple(found)


def _acts(episode: Episode) -> list[_Act]:
    """The steps that act, in order; ends and questions don't."""
    found = []
    steps = [step for step in episode.steps if step.row["action_text"] is not None]
    for place, step in enumerate(steps):
        if isinstance(step.action, Finished | CallUser):
            continue
        after = step.next or (steps[place + 1].screen if place + 1 < len(steps) else None)
        changed = step.screen is None or after is None or step.screen.sha256 != after.sha256
        shown = _texts(step.screen.elements if step.screen is not None else ())
        found.append(_Act(step, _touched(step), _said(step), shown, _texts(after.elements) if after else None, changed))
    return found


def _texts(elements: Sequence[Element]) -> tuple[str, ...]:
    return tuple(text for one in elements for text in (one.text, one.name) if text)


def _elements(step: Step) -> list[Element]:
    return step.screen.elements if step.screen is not None else []


def _touched(step: Step) -> tuple[Element, ...]:
    """Elements at a step's point, the smallest first, containers left out."""
    point = getattr(step.action, "box", None)
    if point is None:
        return ()
    holding = [e for e in _elements(step) if e.holds(point, POINT_MARGIN) and 0 < e.area <= CONTAINER_SHARE * 1e6]
    return tuple(sorted(holding, key=lambda one: one.area))


def _said(step: Step) -> str:
    action = step.action
    if isinstance(action, Type):
        return action.content
    if isinstance(action, SelectOption):
        return action.option
    return (action.app or action.url) if isinstance(action, Launch) else ""


def _can_be_touched(element: Element, text: str) -> bool:
    return holds(element.label, text) and element.role.lower() not in ("text", "heading", "statictext", "image")


def _meets(acts: Sequence[_Act], place: int, operation: RequiredOperation) -> bool:
    """Whether the act at a place is the operation, in its context, with an effect."""
    act = acts[place]
    if operation.label:
        named = any(_same(label, operation.label) for label in act.labels) or _same(act.text, operation.label)
    else:
        named = True
    if not named or (operation.text and not _same(act.text, operation.text)):
        return False
    before = [label for one in acts[:place] for label in (*one.labels, one.text)]
    around = (*act.shown, *before)
    if operation.gone and act.after is not None and any(plain(one) == plain(operation.label) for one in act.after):
        return False
    return act.changed and all(any(holds(text, part) for text in around) for part in operation.within)


def _same(found: str, wanted: str) -> bool:
    return bool(plain(wanted)) and (plain(found) == plain(wanted) or holds(found, wanted))


def _undone(
    acts: Sequence[_Act], place: int, operation: RequiredOperation, required: Sequence[RequiredOperation]
) -> str:
    """Why an operation that was met no longer stands at the end, or "": what was undone may have been done again."""
    act, why, presses = acts[place], "", 0
    target = act.touched[0] if act.touched else None
    # of operations that share a label nobody knows which press is whose
    alone = sum(one.label == operation.label for one in required) == 1 and operation.times == 1
    for later in acts[place + 1 :]:
        if not later.changed:
            continue
        other = later.touched[0] if later.touched else None
        if target is not None and other is not None and _same(other.label, target.label):
            presses += _is_switch(target) and alone and _same_page(act, later)
            why = f"{operation.label[:40]!r} is pressed again" if presses % 2 else ""
        elif target is not None and other is not None:
            why = _replaced(act, later, target, other, required) or why
        if operation.text and later.text and _one_field(acts, act, later):
            over = not _wanted_text(later.text, required)
            why = f"{later.text[:40]!r} is typed over {operation.text[:40]!r}" if over else ""
    return why


def _replaced(act: _Act, later: _Act, target: Element, other: Element, required: Sequence[RequiredOperation]) -> str:
    """Why another element, touched later, takes the place of the one that was wanted, or ""."""
    if any(_same(label, one.label) for label in later.labels for one in required if one.label):
        return ""
    if _is_switch(target) and other.box == target.box and other.role == target.role and _same_page(act, later):
        return f"{other.label[:40]!r} is pressed in the place of {target.label[:40]!r}"
    if target.role.lower() in CHOICES and other.role == target.role and other in _elements(act.step):
        return f"{other.label[:40]!r} is chosen after {target.label[:40]!r}"
    return ""


def _is_switch(element: Element) -> bool:
    role = element.role.lower()
    return role not in CHOICES and (STATEFUL.search(role) is not None or role == "button")


def _same_page(one: _Act, other: _Act) -> bool:
    """Whether most of what shows at two acts is the same: then a place is the same control."""
    before, after = Counter(one.shown), Counter(other.shown)
    shared = sum((before & after).values())
    return 2 * shared >= max(sum(before.values()), sum(after.values()), 1)


def _wanted_text(text: str, required: Sequence[RequiredOperation]) -> bool:
    return any(_same(text, one.text) for one in required if one.text)


def _one_field(acts: Sequence[_Act], one: _Act, other: _Act) -> bool:
    """Whether two texts go into one field: that of the element touched last before each."""
    fields = []
    for act in (one, other):
        before = [act for act in acts[: acts.index(act)] if act.touched]
        fields.append(plain(before[-1].touched[0].label) if before else "")
    return bool(fields[0]) and fields[0] == fields[1]


def _taken_back(
    acts: Sequence[_Act], last: int, goal: str, required: Sequence[RequiredOperation], whole: bool
) -> list[str]:
    """Acts behind the last operation whose label takes something back, unless the goal or the list asks for it."""
    words = set(plain(goal).split())
    found = []
    for act in acts[last + 1 :]:
        for element in act.touched[:1]:
            said = plain(element.label).split()
            asked = bool(said) and (said[0] in words or any(_same(element.label, one.label) for one in required))
            # sound runs go elsewhere, or end
            sets = whole and (_is_switch(element) or element.role.lower() in CHOICES) and _same_page(acts[last], act)
            if act.changed and not asked and (sets or _takes_back(element.label)):
                found.append(f"{element.label[:40]!r} is pressed afterwards")
    return found


def _takes_back(label: str) -> bool:
    said = plain(label).split()
    return bool(said) and (said[0] in UNDOING or said[0].startswith(UNDOING_CJK))


def _unsent(acts: Sequence[_Act], last: int) -> str:
    """Why what was filled in last was never sent: the screen on which it was filled offers a button that carries it
    out, and nothing was pressed after it; "" otherwise."""
    if last < 0 or last < len(acts) - 1 or not acts[last].text:
        return ""
    for element in _elements(acts[last].step):
        label = plain(element.label).split()
        if label and len(label) <= 3 and label[0] in COMMIT and element.role.lower() in ("button", "link", "submit"):
            return f"{element.label[:40]!r} was never pressed after filling in"
    return ""
