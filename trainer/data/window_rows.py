"""Training rows of windows: the same cut as at reading, so that a model learns on what it will look at.

A row that points (grounding, or a step whose action has a point) becomes that of one window: of one that shows its
target, or, `WITHOUT_TARGET` of the times, of one that doesn't, whose answer is a refusal. All other rows are of the
whole screen, and so are some that point (`WHOLE`): that view is looked at, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from pipelines.prompts import REFUSAL
from pipelines.store.images import ImageError, open_image
from schemas.actions import WIDEST, parse_reply
from schemas.coordinates import rounded_centre
from schemas.ids import digest
from trainer.data.row_sources import RowSource, of_rank
from trainer.modeling.batches import BadSample, Row, row_images
from trainer.modeling.processor import Processor
from trainer.reading.read import with_action
from trainer.reading.windows import ScreenWindow, points_of, windows

WITHOUT_TARGET = 0.36
"""Of the rows that point and are of a window; of all that point it is about a third."""
WHOLE = 0.1
"""Of the rows that point."""
SHOWN, HIDDEN = 0.6, 0.1
"""A window shows a target of which at least so much lies in it, and doesn't one of which at most so much does; in
between it is not asked about it."""


class WindowedSource:
    """`RowSource` of another's rows, each cut to what the processor's preset looks at. Which window is drawn is a
    function of the position, so a row that comes again shows another one."""

    def __init__(self, source: RowSource, processor: Processor, seed: int = 0) -> None:
        self._source, self._processor, self._seed = source, processor, seed

    def of_rank(self, rank: int, world: int) -> "WindowedSource":
        """See `trainer.data.row_sources.of_rank`."""
        return WindowedSource(of_rank(self._source, rank, world), self._processor, self._seed)

    def rows(self, start: int) -> Iterator[Row | None]:
        """See `RowSource`; None and `ELSEWHERE` stay what they are."""
        for position, row in enumerate(self._source.rows(start), start):
            try:
                # None and ELSEWHERE are false, and stay what they are
                yield row and cut_row(row, self._processor, drawn_by=f"{self._seed}/{position}")
            except (BadSample, ImageError):
                yield row  # whoever reads it counts it

    def digest(self) -> str:
        """See `RowSource`."""
        how = [self._processor.preset.reading.plain(), WITHOUT_TARGET, WHOLE, SHOWN, HIDDEN]
        return digest([self._source.digest(), self._seed, how])


def as_read(
    source: RowSource, validation: Sequence[Row], processor: Processor, seed: int
) -> tuple[RowSource, Sequence[Row]]:
    """Training rows, and those of validation, cut to what the processor's preset looks at; as they are where that is
    the whole screen."""
    if processor.preset.reading.mode != "windows":
        return source, validation
    shown = [cut_row(row, processor, drawn_by=row["sample_id"], target=True) for row in validation]
    return WindowedSource(source, processor, seed), shown


def cut_row(row: Row, processor: Processor, *, drawn_by: object, target: bool = False) -> Row:
    """A row of one of the windows that the processor's preset looks at, the same for the same `drawn_by`; with `target`
    always of one that shows its target, if it has one. Rows that don't point stay whole, and so do those whose target
    has to show and fits into no window, as a long drag. Raises `ImageError` for a
    picture that can't be decoded."""
    reading, pictures = processor.preset.reading, row.get("images") or ()
    if reading.mode != "windows" or len(pictures) != 1 or not _points(row):
        return row
    pixels = np.asarray(open_image(row_images(row)[0]))
    size = (pixels.shape[1], pixels.shape[0])
    views = windows(size, reading)
    if len(views) == 1:
        return row
    rng = Random(f"window/{drawn_by}")
    if not target and rng.random() < WHOLE:
        return row
    # windows that show a part of the target are asked about neither way
    placed = [(view, found) for view in views if (found := _answered(row, view)) is not None]
    showing = [(view, found) for view, found in placed if found["answer"] != REFUSAL]
    without = [(view, found) for view, found in placed if found["answer"] == REFUSAL]
    if target and not parse_reply(str(row["answer"]), WIDEST).refusal:
        choice = showing
    else:
        choice = showing if showing and (not without or rng.random() >= WITHOUT_TARGET) else without
    if not choice:
        return row
    view, found = rng.choice(choice)
    return {**row, **found, "images": [processor.pixels(view.cut(pixels))]}


def _points(row: Row) -> bool:
    if row["objective"] == "grounding":
        return True
    if row["objective"] != "navigation":
        return False
    action = parse_reply(str(row["answer"]), WIDEST).action
    return action is not None and bool(points_of(action))


def _answered(row: Mapping[str, Any], view: ScreenWindow) -> dict[str, Any] | None:
    """Answer and boxes of a row in a window; None where it isn't clear whether the window shows the target."""
    boxes: Sequence[Sequence[float]] = row.get("target_boxes") or ()
    reply = parse_reply(str(row["answer"]), WIDEST)
    seen = [part for box in boxes if (part := view.box_in_window(box)) is not None]
    shown = [box for box, share in seen if share >= SHOWN]
    hidden = all(share <= HIDDEN for _, share in seen)
    if row["objective"] == "grounding":
        if reply.refusal or (boxes and hidden):
            return {"answer": REFUSAL, "target_boxes": []}
        if not shown:
            return None
        x, y = rounded_centre(shown[0])
        return {"answer": f"[{x},{y}]", "target_boxes": shown}
    action = reply.action and view.action_in_window(reply.action)
    if action is None:
        return {"answer": REFUSAL, "target_boxes": []} if hidden else None
    if boxes and not shown:
        return None
    return {"answer": with_action(str(row["answer"]), action), "target_boxes": shown}
