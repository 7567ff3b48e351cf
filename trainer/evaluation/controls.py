"""What a model must beat: the blind table, the random element, and its own score on the wrong screen.

A grounding figure without its blind prior says nothing: on pages of one template a table from the element's name to
its usual place, with no picture at all, can be as good as a trained model.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.prompts import REFUSAL, prompt_text
from schemas.actions import parse_reply
from schemas.coordinates import centre, contains
from trainer.data.clusters import picture_key
from trainer.modeling.batches import row_images

Box = Sequence[float]


class BlindTable:
    """Prompt text → usual answer in the training set; looks at no picture.

    Grounding: the mean of the points that this text had (refusal if most were refusals), by platform first, then over
    all platforms, then the platform's mean point. Navigation: the most frequent reply to this text, else the
    platform's most frequent reply.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._points: dict[tuple[str, ...], list[tuple[int, int] | None]] = defaultdict(list)
        self._replies: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for row in rows:
            keys = self._keys(row)
            if row["objective"] == "grounding":
                point = parse_reply(row["answer"]).point
                if point is not None:
                    for key in keys:
                        # a refusal has no place that could be averaged
                        self._points[key].append(None if point == (-1, -1) else point)
            elif row["objective"] == "navigation":
                for key in keys:
                    self._replies[key][row["answer"]] += 1

    @staticmethod
    def _keys(row: Mapping[str, Any]) -> list[tuple[str, ...]]:
        text, platform = prompt_text(row["messages"]).casefold(), str(row["platform"])
        # from the most exact to the most general: the first that training rows had is taken
        return [(platform, text), ("", text), (platform,), ()]

    def reply(self, row: Mapping[str, object]) -> str:
        """The table's answer to a row, as reply text; empty if the training set had nothing of the kind."""
        for key in self._keys(row):
            if row["objective"] == "grounding" and key in self._points:
                return self._point(self._points[key])
            if row["objective"] == "navigation" and key in self._replies:
                counted = self._replies[key]
                # the text decides between equal counts
                return min(counted, key=lambda text: (-counted[text], text))
        return ""

    @staticmethod
    def _point(seen: Sequence[tuple[int, int] | None]) -> str:
        there = [point for point in seen if point is not None]
        # more refusals than points
        if len(there) * 2 < len(seen):
            return REFUSAL
        x, y = (round(sum(point[axis] for point in there) / len(there)) for axis in (0, 1))
        return f"[{x},{y}]"


def random_element(targets: Sequence[Box], elements: Sequence[Box]) -> float:
    """Chance that the centre of a random element of the screen lies in a target box.

    Without known elements: the share of the screen that the targets cover (overlap counted twice, at most 1). A
    sample that expects a refusal has no targets: 0, since a random element never refuses.
    """
    if not targets:
        return 0.0
    if not elements:
        # 1000 x 1000, in the frame of screens
        return min(1.0, sum((box[2] - box[0]) * (box[3] - box[1]) for box in targets) / 1e6)
    centres = [centre(box) for box in elements]
    return sum(any(contains(list(target), point) for target in targets) for point in centres) / len(centres)


def swap_screens(rows: Sequence[Mapping[str, object]]) -> list[dict[str, Any] | None]:
    """Each row with the pictures of another screen, of the same platform and source if there is one.

    Deterministic: the next row in order, round about, whose screen is another; None where no other screen exists.
    """
    keys = [picture_key(row) for row in rows]
    swapped: list[dict[str, Any] | None] = []
    for i, row in enumerate(rows):
        order = [(i + step) % len(rows) for step in range(1, len(rows))]
        others = [j for j in order if keys[j] != keys[i] and len(row_images(rows[j])) == len(row_images(row))]
        near = [j for j in others if rows[j]["platform"] == row["platform"]]
        alike = [j for j in near if rows[j]["source"] == row["source"]]
        # the control should differ in nothing but the screen
        best = next(iter(alike or near or others), None)
        swapped.append(None if best is None else {**row, "images": rows[best]["images"]})
    return swapped
