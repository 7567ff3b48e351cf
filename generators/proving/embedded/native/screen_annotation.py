"""ScreenAI Screen Annotation: a CSV of `CLASS TEXT x_min x_max y_min y_max (children)` strings on a 0..999 grid."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from generators.devices.browser import RICO
from generators.proving.embedded.defects import DefectRates, PlantedDefect, shift_point
from generators.proving.embedded.native import common
from generators.proving.embedded.screens import StillScreen, picture_box
from schemas.coordinates import centre, contains

CLASSES = {
    "listitem": "LIST_ITEM",
    "button": "BUTTON",
    "link": "BUTTON",
    "tab": "BUTTON",
    "image": "IMAGE",
    "icon": "PICTOGRAM",
    "textbox": "TEXT_INPUT",
    "combobox": "TEXT_INPUT",
    "checkbox": "CHECKBOX",
    "radio": "RADIO_BUTTON",
    "switch": "SWITCH",
    "option": "LIST_ITEM",
    "text": "TEXT",
    "heading": "TEXT",
    "slider": "SLIDER",
}
SPLIT_FILES = {"train": "train", "validation": "valid", "test": "test"}


@dataclass(frozen=True)
class AnnotationPart:
    """One element of the annotation: class, words, box in CSS pixels, and how deep it is nested."""

    kind: str
    text: str
    box: tuple[float, float, float, float]
    depth: int


@dataclass(frozen=True)
class Annotation:
    screen: StillScreen
    parts: tuple[AnnotationPart, ...]


def annotate(screen: StillScreen) -> Annotation:
    """Elements in the page's order; children of list items are nested one level."""
    parts: list[AnnotationPart] = []
    for e in screen.elements:
        kind = CLASSES.get(e.role)
        if kind is None:
            continue
        if e.icon and not e.text:
            # Pictures and icons have classes of their own; other roles keep theirs.
            kind = "IMAGE" if e.role == "image" else ("PICTOGRAM" if e.role in ("button", "icon") else kind)
        parent = screen.elements[e.parent] if e.parent >= 0 else None
        nested = parent is not None and parent.role in ("listitem", "option")
        if parent is not None and not nested and parent.text == e.text and parent.role in CLASSES:
            continue  # the words of a button, said already
        words = e.name if kind in ("PICTOGRAM", "IMAGE") else e.text
        if kind == "LIST_ITEM":
            words = ""
            if not any(c.parent >= 0 and screen.elements[c.parent] is e for c in screen.elements):
                words = e.text
        parts.append(AnnotationPart(kind, words, e.box, 1 if nested else 0))
    return Annotation(screen, tuple(parts))


def grid(part: AnnotationPart) -> tuple[int, int, int, int]:
    """(x_min, x_max, y_min, y_max) on the 0..999 grid; not clipped, so that a defect shows."""
    left, top, right, bottom = part.box
    return (
        round(left / RICO.width * 999),
        round(right / RICO.width * 999),
        round(top / RICO.height * 999),
        round(bottom / RICO.height * 999),
    )


def text_of(annotation: Annotation) -> str:
    """The string of one screen: `CLASS TEXT x x y y (CLASS …), CLASS …`."""
    out, depth = "", 0
    for part in annotation.parts:
        piece = " ".join([part.kind, *([part.text] if part.text else []), *(str(v) for v in grid(part))])
        # Nested one level at most: the format has no deeper brackets in practice.
        if part.depth > depth:
            out += " (" + piece
        else:
            out += ")" * (depth - part.depth) + (", " if out else "") + piece
        depth = part.depth
    return out + ")" * depth


WRONG = ("Sign out", "Pause", "Free trial", "Blue whale", "Unsubscribe", "Row 7", "Skip intro", "Refund")


def _moved(part: AnnotationPart, dx: float, dy: float) -> AnnotationPart | None:
    """The part elsewhere, cut at the edges of the screen; None where its centre would leave the screen: too little of
    it would be left."""
    x, y = centre(part.box)
    if not (0 <= x + dx <= RICO.width and 0 <= y + dy <= RICO.height):
        return None
    left, top, right, bottom = part.box
    box = (max(0.0, left + dx), max(0.0, top + dy), min(RICO.width, right + dx), min(RICO.height, bottom + dy))
    return replace(part, box=box)


def _is_off(part: AnnotationPart, moved: AnnotationPart) -> bool:
    """Hit test: the centre of the moved box lies outside the element."""
    return not contains(part.box, centre(moved.box))


def _damage(kind: str, annotation: Annotation, i: int, rng: Random) -> Annotation | None:
    part = annotation.parts[i]
    if kind == "shifted_point":
        x, y = map(int, centre(part.box))
        point = shift_point((x, y), part.box, (RICO.width, RICO.height), rng)
        if point is None:
            return None
        moved = _moved(part, point[0] - x, point[1] - y)
        if moved is None or not _is_off(part, moved):
            return None
        new = moved
    elif kind == "wrong_text":
        if not part.text:
            return None
        new = replace(part, text=rng.choice([w for w in WRONG if w != part.text]))
    else:  # off_screen
        left, top, right, bottom = part.box
        new = replace(part, box=(left + RICO.width, top, right + RICO.width, bottom))
    return replace(annotation, parts=(*annotation.parts[:i], new, *annotation.parts[i + 1 :]))


def _shift_all(annotation: Annotation, rng: Random) -> Annotation:
    """Every box moved the same way, but for those at the edge of the screen that have no room: the fault V1 of the
    method reports for whole screenshots. Up or down: most elements are wider than high, and a box that is moved within
    its element is neither right nor wrong."""
    dy = rng.choice((56, -56, 72, -72))
    return replace(annotation, parts=tuple(_moved(part, 0, dy) or part for part in annotation.parts))


def plant(found: Sequence[Annotation], rates: DefectRates, seed: int) -> tuple[list[Annotation], list[PlantedDefect]]:
    """Two thirds of the low elements lie on screens whose boxes are all moved, the rest in a few spoiled screens.

    An element of a moved screen is low where its box's centre no longer lies in it. Real annotation noise comes in such
    clumps; spread evenly it would leave no whole screen. A few boxes off the screen and exact copies come on top.
    """
    rng = Random(f"screen_annotation/{seed}")
    out, truths = list(found), []
    order = [a for a, annotation in enumerate(found) if annotation.screen.split in rates.splits]
    rng.shuffle(order)
    total = sum(len(found[a].parts) for a in order)
    low, bad = round(rates.low * total), round(rates.unreadable * total)

    def note(a: int, i: int, kind: str) -> None:
        part = found[a].parts[i]
        truths.append(
            PlantedDefect(
                str(found[a].screen.number),
                i,
                kind,
                {"class": part.kind, "text": part.text, "box": picture_box(part.box)},
            )
        )

    moved = 0
    # Two thirds in whole screens, see above.
    while order and moved < low * 2 / 3:
        a = order.pop()
        out[a] = _shift_all(out[a], rng)
        for i, (part, new_part) in enumerate(zip(found[a].parts, out[a].parts, strict=True)):
            if _is_off(part, new_part):
                note(a, i, "shifted_point")
                moved += 1
    low -= moved
    while order and (low > 0 or bad > 0):
        a = order.pop()
        places = range(len(found[a].parts))
        # Two fifths of a screen: enough to spoil it, not all of it.
        for i in rng.sample(places, max(1, len(places) * 2 // 5)):
            kind = rng.choice(("shifted_point", "wrong_text")) if low > 0 else "off_screen"
            new = _damage(kind, out[a], i, rng) if (low > 0 or bad > 0) else None
            if new is not None:
                out[a] = new
                note(a, i, kind)
                low, bad = (low - 1, bad) if kind != "off_screen" else (low, bad - 1)
    for a in [a for a in order if found[a].screen.split == "train"][: round(rates.duplicate * len(found))]:
        out.append(out[a])
        truths.append(PlantedDefect(str(out[a].screen.number), None, "duplicate_record", {}))
    return out, truths


def write(root: Path, found: Sequence[Annotation]) -> None:
    """`train.csv`, `valid.csv`, `test.csv` with the header `screen_id,screen_annotation`."""
    for split, name in SPLIT_FILES.items():
        lines = io.StringIO()
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(["screen_id", "screen_annotation"])
        for annotation in found:
            if annotation.screen.split == split:
                table.writerow([annotation.screen.number, text_of(annotation)])
        common.write(root / f"{name}.csv", lines.getvalue())
