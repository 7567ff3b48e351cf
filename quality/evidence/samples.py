"""Evidence about native samples: is the box sane, is it that of the element asked for, is the answer on screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import median

from pipelines.prompts import REFUSAL, prompt_text
from quality.evidence.steps import BLANK_SPREAD, Finding, hit, overlap, visible_text
from quality.evidence.words import holds, named_elements, plain, similarity, word_f1
from quality.items.item import Sample
from quality.items.pixels import cut_sides, spread_in
from quality.items.screens import Box, Element
from schemas.coordinates import contains

_POINT = re.compile(r"\[(\d{1,4}),(\d{1,4})\]")
_ASKED = re.compile(r"Where is (.+)\?", re.DOTALL)
_NO_ANSWER = frozenset({"no answer", "n/a", "none", "unanswerable", "not answerable", "", "no", "yes"})
MANY_BOXES = 4
MIN_SIDE = 2.0
MAX_SHARE = 0.7
MOVED_FROM = 8.0
"""Units across and down together from which a box is moved off its element."""


RELATIVE = re.compile(
    r"\b(next to|beside|near|left of|right of|above|below|under|over|inside|within|between|closest|"
    r"first|second|third|fourth|fifth|last|\d+(st|nd|rd|th)|in the row|belonging to)\b",
    re.I,
)
"""An expression that names one element to say where another is."""


def expression_of(sample: Sample) -> str:
    """The expression of a grounding prompt (`Where is …?`), else the whole prompt."""
    text = prompt_text(sample.row["messages"])
    match = _ASKED.fullmatch(text.strip())
    return match.group(1) if match else text


def boxes_of(sample: Sample) -> list[Box]:
    """Target boxes, 0..1000."""
    return [tuple(box) for box in sample.row["target_boxes"]]


def box_sane(sample: Sample) -> Finding | None:
    """A target box has area, isn't most of the screen, and isn't blank. Can't see: whether it is the right one."""
    boxes = boxes_of(sample)
    if not boxes:
        return None
    for box in boxes:
        shown = [round(value) for value in box]
        if box[2] - box[0] < MIN_SIDE or box[3] - box[1] < MIN_SIDE:
            return Finding("thin_box", 3, f"the box {shown} is a line or a dot")
        if (box[2] - box[0]) * (box[3] - box[1]) > MAX_SHARE * 1e6:
            return Finding("huge_box", 4, f"the box {shown} covers most of the screen")
        if sample.screen is not None and spread_in(sample.screen.grey, box) < BLANK_SPREAD:
            return Finding("blank_box", 2, f"the box {shown} holds nothing but blank ground", repair=_snap(sample))
    return Finding("box_sane", 8, "the box has a size and something in it")


def box_frames(sample: Sample) -> Finding | None:
    """A target box frames what is drawn and doesn't cut through it.

    Can't see: a box shifted onto blank space between things, or exactly onto another one; photographs and patterned
    backgrounds look cut, so lists of many boxes aren't looked at and one cut side is only doubtful.
    """
    boxes = boxes_of(sample)
    if sample.screen is None or not 1 <= len(boxes) <= MANY_BOXES:
        return None
    for box in boxes:
        shown = [round(value) for value in box]
        # Two cut sides are hardly chance, one may be.
        if (sides := cut_sides(sample.screen.grey, box, 0.06)) >= 2:
            return Finding(
                "box_cuts", 3, f"{sides} sides of the box {shown} cut through something", repair=_snap(sample)
            )
        # Boxes of answers and expressions are often drawn loosely; one cut side says something of element boxes only.
        if sample.row["objective"] == "perception" and cut_sides(sample.screen.grey, box, 0.15) == 1:
            return Finding("box_cuts", 5, f"a side of the box {shown} cuts through something", repair=_snap(sample))
    return None


def answer_in_box(sample: Sample) -> Finding | None:
    """A grounding answer `[x,y]` lies in its target box."""
    if sample.row["objective"] != "grounding":
        return None
    match, boxes = _POINT.fullmatch(sample.row["answer"]), boxes_of(sample)
    if match is None or not boxes:
        return None
    point = (int(match.group(1)), int(match.group(2)))
    # One unit more on each side, for points that were rounded onto the border.
    if any(contains((box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1), point) for box in boxes):
        return Finding("answer_in_box", 9, "the answer lies in the box")
    return Finding("answer_outside", 3, f"the answer {point} lies outside its box", repair={"recentre": True})


def box_of_named(sample: Sample) -> Finding | None:
    """The element that the expression names lies under the box.

    Can't see: expressions that describe or say where in relation to what, and elements without text.
    """
    if sample.row["objective"] != "grounding" or sample.screen is None or sample.row["answer"] == REFUSAL:
        return None
    boxes = boxes_of(sample)
    elements = [e for e in sample.screen.elements if e.area > 0]
    if not boxes or not elements:
        return None
    requested = expression_of(sample)
    exact = [e for e in elements if plain(requested) in (plain(e.name), plain(e.text))]
    # "The icon left of Cart" names Cart and asks for another element.
    if not exact and RELATIVE.search(requested):
        return None
    named = exact or named_elements(requested, elements, minimum=3)
    if not named:
        return None
    if any(_covers(box, e) for box in boxes for e in named):
        return Finding("box_of_named", 10, f"the box is that of {named[0].label[:40]!r}, which is asked for")
    under = _under(boxes[0], elements)
    # The words may be about what lies under the box, if not by its exact name.
    if not exact and under is not None and under.label and word_f1(under.label, requested) > 0.3:
        return None
    whole = any(plain(e.label) and overlap(boxes[0], e.box) >= 0.8 for e in elements)
    reason = (
        f"asked for {named[0].label[:40]!r}, the box lies on {under.label[:40]!r}"
        if under
        else (f"asked for {named[0].label[:40]!r}, the box lies on no element")
    )
    # A box that is some element's own points to wrong words (rewrite), one that is none's to a wrong box (reconstruct).
    return Finding("box_misses_named", 5 if whole else 3 if exact else 4, reason, repair=_snap(sample, named))


def _covers(box: Box, element: Element) -> bool:
    """Box and element are the same thing: they overlap well, or one lies in the other and isn't much larger."""
    # Boxes of a text and of its button differ much in area, and are still the same thing.
    if overlap(box, element.box) >= 0.4:
        return True
    width = min(box[2], element.box[2]) - max(box[0], element.box[0])
    height = min(box[3], element.box[3]) - max(box[1], element.box[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    smaller = min(area, element.area)
    return width > 0 and height > 0 and width * height >= 0.9 * smaller and max(area, element.area) <= 12 * smaller


def _under(box: Box, elements: list[Element]) -> Element | None:
    # The element that the box overlaps best, else the one at its middle.
    best = max(elements, key=lambda e: overlap(box, e.box))
    if overlap(box, best.box) > 0.3:
        return best
    return hit(elements, (int((box[0] + box[2]) / 2), int((box[1] + box[3]) / 2)))


def _snap(sample: Sample, named: list[Element] | None = None) -> dict[str, list[float]]:
    """The one element that the expression names, if there is exactly one."""
    if sample.screen is None:
        return {}
    if named is None:
        requested = plain(expression_of(sample))
        named = [e for e in sample.screen.elements if e.area > 0 and requested in (plain(e.name), plain(e.text))]
    # Two elements of the name, and nobody knows to which the box should move.
    return {"snap": list(named[0].box)} if len({e.box for e in named}) == 1 else {}


def box_on_element(sample: Sample) -> Finding | None:
    """The target box is some known element's. Can't see: elements the source doesn't list; needs 3 others listed."""
    if sample.row["objective"] != "grounding" or sample.screen is None:
        return None
    elements = [e for e in sample.screen.elements if e.area > 0]
    boxes = boxes_of(sample)
    if len(elements) < 3 or not boxes:
        return None
    if all(any(_covers(box, e) for e in elements) for box in boxes):
        return Finding("box_on_element", 8, "the box is a known element's")
    return Finding("box_no_element", 4, "the box is no known element's", repair=_snap(sample))


Move = tuple[float, float]


def picture_moved(sample: Sample) -> Move | None:
    """The one way back to their elements for all boxes of the sample's picture; None where they aren't moved in one
    direction (V1 found whole screenshots shifted).

    Compares each box with the nearest element of about its size, over all samples of the picture; needs 4 of them.
    Can't see: pictures with fewer samples, or whose source lists no elements of its own.
    """
    if sample.row["objective"] != "grounding" or sample.screen is None or len(sample.siblings) < 4:
        return None
    elements = [e for e in sample.screen.elements if e.area > 0]
    moves = [
        # The nearest element of the box's size is taken for its own; one shift for most boxes then shows.
        min(found, key=_length)
        for row in sample.siblings
        for box in row["target_boxes"]
        if (found := _moves(tuple(box), elements))
    ]
    if len(moves) < 4:
        return None
    # The median, as some boxes find a wrong neighbour.
    way = median(move[0] for move in moves), median(move[1] for move in moves)
    agreeing = sum(_alike(move, way) for move in moves)
    return way if _length(way) >= MOVED_FROM and agreeing >= 0.7 * len(moves) else None


def moved_together(sample: Sample) -> Finding | None:
    """The boxes of the sample aren't moved with those of its picture (`picture_moved`).

    One that lies on an element isn't, whatever its neighbours do: it was right from the start, or is repaired. Can't
    see: a shift that puts a box on another element of its size.
    """
    way = picture_moved(sample)
    if way is None or sample.screen is None:
        return None
    elements = [e for e in sample.screen.elements if e.area > 0]
    own = [_moves(box, elements) for box in boxes_of(sample)]
    # A box that sits on its element is right, whatever its neighbours do.
    in_place = any(_length(move) < MOVED_FROM for moves in own for move in moves)
    if in_place or not any(_alike(move, way) for moves in own for move in moves):
        return None
    reason = f"the boxes of this picture, with this one, lie ({-way[0]:.0f}, {-way[1]:.0f}) off their elements"
    return Finding("boxes_moved", 3, reason, repair={"move": list(way)})


def _moves(box: Box, elements: list[Element]) -> list[Move]:
    """The ways, no longer than 150, from a box to the elements of about its size."""
    width, height = box[2] - box[0], box[3] - box[1]
    alike = [
        e for e in elements if abs((e.box[2] - e.box[0]) - width) <= 3 and abs((e.box[3] - e.box[1]) - height) <= 3
    ]
    moves = [(e.box[0] - box[0], e.box[1] - box[1]) for e in alike]
    return [move for move in moves if _length(move) <= 150]


def _length(move: Move) -> float:
    return abs(move[0]) + abs(move[1])


def _alike(one: Move, other: Move) -> bool:
    return abs(one[0] - other[0]) <= 4 and abs(one[1] - other[1]) <= 4


def refusal_true(sample: Sample) -> Finding | None:
    """A refusal asks for what no element is called. Can't see: unnamed elements."""
    if sample.row["answer"] != REFUSAL or sample.screen is None or not sample.screen.elements:
        return None
    requested = plain(expression_of(sample))
    if any(requested in (plain(e.name), plain(e.text)) for e in sample.screen.elements):
        return Finding("false_refusal", 3, f"{requested[:40]!r} is refused, and it is on the screen")
    return Finding("refusal_true", 8, "no element has the name refused")


def answer_on_screen(sample: Sample) -> Finding | None:
    """The words of an answer stand on the screen.

    Can't see: yes/no, counts, answers in other words. Says nothing where the source lists few texts.
    """
    if sample.row["objective"] != "vqa" or sample.screen is None:
        return None
    answer, texts = sample.row["answer"], visible_text(sample.screen)
    # Yes and no stand on no screen; long answers are sentences in words of their own.
    if plain(answer) in _NO_ANSWER or len(texts) < 3 or len(plain(answer).split()) > 12:
        return None
    if any(holds(text, answer) for text in texts) or holds(" ".join(texts), answer):
        return Finding("answer_on_screen", 10, "the answer stands on the screen")
    words = plain(answer).split()
    whole = f" {plain(' '.join(texts))} "
    share = sum(f" {word} " in whole for word in words) / len(words)
    if share >= 0.6:
        return Finding("answer_on_screen", 8, "most words of the answer stand on the screen")
    # Counts aren't written on the screen: somebody has counted.
    if len(words) == 1 and words[0].isdigit() and int(words[0]) <= 30:
        return None  # may be a count
    # One text of nearly the same characters is what a slip of the pen was meant to be.
    close = {text for text in texts if similarity(text, answer) >= 0.8}
    repair = {"answer": close.pop()} if len(close) == 1 else {}
    return Finding(
        "answer_not_on_screen", 3 if share == 0 else 5, f"{answer[:40]!r} isn't on the screen", repair=repair
    )


def answer_at_point(sample: Sample) -> Finding | None:
    """A perception answer about a box names what is in it.

    Can't see: captions in other words; elements without text.
    """
    if sample.row["objective"] != "perception" or sample.screen is None:
        return None
    elements = [e for e in sample.screen.elements if e.area > 0]
    match = re.search(r"\[(\d{1,4}),(\d{1,4})\]", prompt_text(sample.row["messages"]))
    if match is None or not elements:
        return None
    under = hit(elements, (int(match.group(1)), int(match.group(2))))
    if under is None or not plain(under.label):
        return None
    answer = sample.row["answer"]
    # Captions say more than the label, labels more than short captions: either may hold the other.
    said_of = [text for text in (under.text, under.name) if text]
    if any(holds(answer, text) or holds(text, answer) or word_f1(answer, text) >= 0.4 for text in said_of):
        return Finding("answer_at_point", 10, f"the answer names {under.label[:40]!r}")
    # It names the kind of element at least ("a button").
    if under.role and holds(answer, under.role):
        return None
    said = f"{under.role} {under.text or under.name}".strip()
    return Finding(
        "answer_elsewhere",
        3,
        f"{under.label[:40]!r} lies there, the answer says {answer[:40]!r}",
        repair={"answer": said},
    )


def listed_on_screen(sample: Sample) -> Finding | None:
    """The lines of an element list (`ROLE text`) occur on the screen. Can't see: elements left out of the list."""
    if sample.row["objective"] != "perception" or sample.screen is None:
        return None
    lines = [line for line in sample.row["answer"].splitlines() if line.strip()]
    texts = visible_text(sample.screen)
    if len(lines) < 2 or len(texts) < 2:
        return None
    whole = f" {plain(' '.join(texts))} "
    # The first word of a line is the element's role.
    spoken = [rest for line in lines if (rest := plain(line.partition(" ")[2]))]
    if not spoken:
        return None
    found = sum(_mostly_in(rest, whole) for rest in spoken) / len(spoken)
    if found >= 0.9:
        return Finding("listed_on_screen", 9, "the elements listed are on the screen")
    return Finding("listed_elsewhere", 5 if found >= 0.6 else 3, f"{found:.0%} of the listed texts are on the screen")


def _mostly_in(text: str, whole: str) -> bool:
    # Numbers change between listings (times, badges), so the words decide.
    words = [word for word in text.split() if not word.isdigit()] or text.split()
    return sum(f" {word} " in whole for word in words) >= 0.6 * len(words)


def well_formed(sample: Sample) -> Finding | None:
    """Prompt and answer aren't empty, and a grounding answer is a point."""
    if not sample.row["answer"].strip():
        return Finding("empty_answer", 2, "the answer is empty")
    answer = sample.row["answer"]
    if sample.row["objective"] == "grounding" and answer != REFUSAL and _POINT.fullmatch(answer) is None:
        return Finding("no_point", 2, f"a grounding answer is [x,y]; found {answer[:40]!r}")
    return None


SAMPLE_EVIDENCE: dict[str, Callable[[Sample], Finding | None]] = {
    "well_formed": well_formed,
    "box_sane": box_sane,
    "box_frames": box_frames,
    "answer_in_box": answer_in_box,
    "box_of_named": box_of_named,
    "box_on_element": box_on_element,
    "moved_together": moved_together,
    "refusal_true": refusal_true,
    "answer_on_screen": answer_on_screen,
    "answer_at_point": answer_at_point,
    "listed_on_screen": listed_on_screen,
}
