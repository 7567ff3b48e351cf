"""Cleaning: rules without a model that take out what no judge needs to see, each named and counted.

| rule | takes out | seen by |
|---|---|---|
| `box_shift` | all boxes of a picture that are moved in one direction | edges of the picture |
| `ambiguous_prompt` | a grounding question that stands for separate places | boxes of one expression |
| `nested_boxes` | of nested boxes of one expression the outer ones; of a region with many names all | the same |
| `short_trace` | an episode that ends without a single deed | its actions |
| `unanswered_question` | the ending of a trace whose task asks what is never answered, and no screen | words, actions |
| `credential` | what holds a password, a key, a token or a card number | forms, checksums, names of fields |

A question whose answer the last screen proves is answered instead: `quality.judges.answers` inserts it.

What is taken out gets a verdict of 0 by `cleaning` with the rule as its reason, is rejected in gold, and is no longer
judged: it costs no model call. An episode loses the steps that are taken out, as if they had been lost before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipelines import sources
from pipelines.prompts import REFUSAL
from quality.code_version import code_digest
from quality.evidence.samples import boxes_of, expression_of, picture_moved
from quality.evidence.steps import overlap
from quality.evidence.words import plain
from quality.items.item import Episode, Item, Sample, Step, make_episode
from quality.items.part import SourcePart
from quality.items.pixels import boxes_moved
from quality.items.screens import Box, Element
from quality.judges.answers import answered_rows, unanswered
from quality.judges.judge import Verdict
from quality.safety.credentials import credential_in
from schemas.actions import CallUser, Finished, Type, Wait

JUDGE = "cleaning"
_CODE = (
    "judges/cleaning",
    "judges/answers",
    "items/pixels",
    "evidence/samples",
    "evidence/steps",
    "evidence/words",
    "safety/credentials",
    "safety/personal_numbers",
)
VERSION = f"cleaning-1-{code_digest(_CODE)}"
SAME_BOX = 0.9
"""Intersection over union from which two boxes are one place."""
SAME_LIST = 0.9
"""Share of boxes that are listed elements to the half unit, from which the list is where they come from."""
_SECRET_FIELD = re.compile(r"passw|passcode|\bpin\b|\bcvv\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TakenItem:
    """An item that a rule takes out: an episode (with all its steps), a step or a sample."""

    item_id: str
    rule: str
    detail: str

    def verdict(self, round_number: int = 0) -> Verdict:
        """A 0 by `cleaning`."""
        step_or_sample = not self.item_id.startswith("episode:")
        return Verdict(
            self.item_id,
            0 if step_or_sample else None,
            None if step_or_sample else 0,
            f"{self.rule}: {self.detail}",
            1.0,
            JUDGE,
            "none",
            VERSION,
            round_number,
            kinds=(self.rule,),
        )


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What is left to judge, in order, and what was taken out, by item id. `answered`: episodes that were given the
    answer they lacked, each of which has a step more than it was recorded with."""

    items: list[Item]
    taken: dict[str, TakenItem]
    answered: int = 0


def clean(part: SourcePart) -> Cleaned:
    """Apply all rules to a part; the first rule that takes an item out names it. Deterministic, without a model."""
    taken: dict[str, TakenItem] = {}

    def take(found: Iterator[TakenItem]) -> None:
        for one in found:
            # The first rule that takes an item names it; later ones may find it as well.
            taken.setdefault(one.item_id, one)

    # Samples go by picture and expression, so rules get all of a part; episodes come one by one.
    for rule in SAMPLE_RULES.values():
        take(rule(part.native_samples))
    for episode in part.episodes:
        for look in EPISODE_RULES.values():
            take(look(episode))
    items: list[Item] = []
    answered = 0
    for episode in part.episodes:
        left = _without(episode, taken)
        if left is not None:
            items.append(left)
            # One step more than recorded: the answer was inserted.
            answered += len(left.actions) > len(episode.actions)
    items += [sample for sample in part.native_samples if sample.item_id not in taken]
    return Cleaned(items, taken, answered)


def _without(episode: Episode, taken: dict[str, TakenItem]) -> Episode | None:
    """The episode without the steps that are taken out, or, if none is, with the answer that it lacks; None (and all
    its steps taken) if none with an action is left, or it is taken as a whole."""
    whole = taken.get(episode.item_id)
    gone = [step.item_id for step in episode.actions if step.item_id in taken]
    # All of its steps went one by one: then the episode goes by the first one's reason.
    if whole is None and len(gone) == len(episode.actions) and gone:
        first = taken[gone[0]]
        whole = taken[episode.item_id] = replace(first, item_id=episode.item_id)
    if whole is not None:
        for step in episode.actions:
            taken.setdefault(step.item_id, replace(whole, item_id=step.item_id))
        return None
    if not gone:
        rows = answered_rows(episode) if unanswered(episode) else None
        return episode if rows is None else make_episode(rows, episode.bank)
    rows = [step.row for step in episode.steps if step.item_id not in taken]
    return make_episode(rows, episode.bank)


def box_shift(samples: Sequence[Sample]) -> Iterator[TakenItem]:
    """All boxes of a picture lie beside what is drawn, by the same way. Where the source lists elements apart from the
    boxes the judge sees (and repairs) it; here the picture alone tells. Can't see: fewer than 5 boxes, a shift under 8
    units, pages so dense that any place is a thing, and boxes moved sideways along their own text."""
    for on_picture in _by_picture(samples):
        boxed = [sample for sample in on_picture if boxes_of(sample)]
        boxes = sorted({box for sample in boxed for box in boxes_of(sample)})
        screen = boxed[0].screen if boxed else None
        if screen is None or picture_moved(boxed[0]) is not None or _placed_apart(boxes, screen.elements):
            continue
        move = boxes_moved(screen.grey_full, boxes)
        if move is not None:
            detail = f"all {len(boxes)} boxes of this picture lie ({move[0]:.0f}, {move[1]:.0f}) off what is drawn"
            yield from (TakenItem(sample.item_id, "box_shift", detail) for sample in boxed)


def _placed_apart(boxes: Sequence[Box], elements: Sequence[Element]) -> bool:
    """Whether most boxes lie on elements that the source lists, and the list isn't what the boxes were taken from: one
    that moved with them is no witness."""
    same = sum(any(_same(box, element.box) for element in elements) for box in boxes)
    placed = sum(any(overlap(box, element.box) >= 0.5 for element in elements) for box in boxes)
    return placed >= 0.6 * len(boxes) and same < SAME_LIST * len(boxes)


def _same(one: Box, other: Box) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 0.5


def ambiguous_prompt(samples: Sequence[Sample]) -> Iterator[TakenItem]:
    """One expression, separate places on one picture: no answer is the right one. Where exactly one known element goes
    by it, the judge can say which box is meant, and repair the others."""
    for expression, group in _by_expression(samples):
        screen = group[0].screen
        known = {e.box for e in screen.elements if expression in (plain(e.name), plain(e.text))} if screen else set()
        # One known element of that name says which box is meant, and the judge can repair the others.
        if len(known) == 1:
            continue
        boxes = [boxes_of(sample)[0] for sample in group]
        # Apart, and not one within the other: nested boxes are a rule of their own.
        if any(not _nested(a, b) and overlap(a, b) < SAME_BOX for a in boxes for b in boxes):
            detail = f"{expression[:60]!r} stands for {len(set(boxes))} places of this picture"
            yield from (TakenItem(sample.item_id, "ambiguous_prompt", detail) for sample in group)


def nested_boxes(samples: Sequence[Sample]) -> Iterator[TakenItem]:
    """Many-to-one boxes: of boxes within one another that share an expression the innermost stands for all; a box that
    goes by more than two unlike names means none of them."""
    for expression, group in _by_expression(samples):
        innermost = min(group, key=lambda sample: (_area(boxes_of(sample)[0]), sample.item_id))
        inner = boxes_of(innermost)[0]
        for sample in group:
            box = boxes_of(sample)[0]
            # Boxes that are nearly the same are one box drawn twice, not an outer one.
            if sample is not innermost and _nested(box, inner) and overlap(box, inner) < SAME_BOX:
                yield TakenItem(
                    sample.item_id, "nested_boxes", f"{expression[:60]!r} has a smaller box within this one"
                )
    for on_picture in _by_picture(samples):
        requested: dict[Box, list[Sample]] = defaultdict(list)
        for sample in on_picture:
            if _asks_for_one(sample):
                requested[boxes_of(sample)[0]].append(sample)
        for box, group in requested.items():
            names = {plain(expression_of(sample)) for sample in group}
            if len(names) > MANY_NAMES and _area(box) > CONTAINER_AREA:
                detail = f"one box of {_area(box) / 1e4:.0f} % of the screen goes by {len(names)} names"
                yield from (TakenItem(sample.item_id, "nested_boxes", detail) for sample in group)


MANY_NAMES = 2
CONTAINER_AREA = 5e4
"""Square units (5 % of the screen): several wordings of a small button are paraphrases, of a container they aren't."""


def short_trace(episode: Episode) -> Iterator[TakenItem]:
    """Nothing is done before the end. Sources that publish steps as rows have such episodes by nature: theirs stay."""
    acted = [step.action for step in episode.actions]
    idle = all(isinstance(action, Finished | CallUser | Wait) for action in acted)
    silent = not any(getattr(action, "content", "") for action in acted)
    # A silent ending without any deed; one that answers has done something.
    if acted and idle and silent and isinstance(acted[-1], Finished | CallUser) and _recorded_whole(episode.source):
        yield TakenItem(episode.item_id, "short_trace", f"{len(acted)} steps, none of which does or answers anything")


def _recorded_whole(source: str) -> bool:
    adapter = sources.registry().get(source)
    return adapter is None or adapter.descriptor.record_unit == "episode"


def unanswered_question(episode: Episode) -> Iterator[TakenItem]:
    """The task asks a question, the trace ends, no answer is given and its last screen proves none: its ending would
    teach to stop without one."""
    if unanswered(episode) and answered_rows(episode) is None:
        yield TakenItem(
            episode.actions[-1].item_id, "unanswered_question", f"nothing answers {episode.instruction[:80]!r}"
        )


def episode_credential(episode: Episode) -> Iterator[TakenItem]:
    """In the goal: the whole episode. In a step: that step; what is typed into a password field counts."""
    if (kind := credential_in(episode.instruction)) is not None:
        yield TakenItem(episode.item_id, "credential", f"the goal holds a {kind}")
        return
    for step in episode.actions:
        if (kind := _step_credential(step)) is not None:
            yield TakenItem(step.item_id, "credential", f"the step holds a {kind}")


def sample_credential(samples: Sequence[Sample]) -> Iterator[TakenItem]:
    """In the prompt or the answer."""
    for sample in samples:
        kind = credential_in(sample.row["answer"]) or credential_in(expression_of(sample))
        if kind is not None:
            yield TakenItem(sample.item_id, "credential", f"the sample holds a {kind}")


def _step_credential(step: Step) -> str | None:
    action = step.action
    texts = [step.row[name] for name in ("step_instruction", "thought", "conclusion")]
    for text in [*texts, getattr(action, "content", None)]:
        if text and (kind := credential_in(text)) is not None:
            return kind
    box = step.row["target_box"]
    # Typed into a field that the screen calls a password's, whatever the text looks like.
    if isinstance(action, Type) and action.content and box is not None and step.screen is not None:
        fields = [e for e in step.screen.elements if overlap(e.box, tuple(box)) > 0.5]
        if any(_SECRET_FIELD.search(f"{e.role} {e.name} {e.text}") for e in fields):
            return "text typed into a password field"
    return None


SAMPLE_RULES: dict[str, Callable[[Sequence[Sample]], Iterator[TakenItem]]] = {
    "credential": sample_credential,
    "ambiguous_prompt": ambiguous_prompt,
    "nested_boxes": nested_boxes,
    "box_shift": box_shift,
}
EPISODE_RULES: dict[str, Callable[[Episode], Iterator[TakenItem]]] = {
    "credential": episode_credential,
    "short_trace": short_trace,
    "unanswered_question": unanswered_question,
}


def _by_picture(samples: Sequence[Sample]) -> list[list[Sample]]:
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.row["objective"] == "grounding" and sample.row["images"]:
            groups[sample.row["images"][0]].append(sample)
    return [groups[sha] for sha in sorted(groups)]


def _asks_for_one(sample: Sample) -> bool:
    return sample.row["answer"] != REFUSAL and len(sample.row["target_boxes"]) == 1


def _by_expression(samples: Sequence[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    """Grounding samples of one picture that ask for one thing in the same words, two or more of them."""
    for on_picture in _by_picture(samples):
        groups: dict[str, list[Sample]] = defaultdict(list)
        for sample in on_picture:
            if _asks_for_one(sample):
                groups[plain(expression_of(sample))].append(sample)
        yield from ((name, group) for name, group in groups.items() if name and len(group) > 1)


def _nested(a: Box, b: Box) -> bool:
    return _within(a, b) or _within(b, a)


def _within(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
