"""Reading screens in parts: each window is asked, the surest one answers, and its point goes back to the screen.

One path for all models (`trainer.settings.reading`): `windows` asks every window of a screen, for a small model sees
small text at scale 1 only, and the whole screen where all of them refuse; `zoom` asks the whole screen first and then
the part around its answer, enlarged, which is the test-time zoom of published models. Prompts that show no screen, or
several, are put as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipelines.prompts import REFUSAL
from pipelines.store.images import ImageError, open_image
from schemas.actions import WIDEST, Action, parse_reply, render
from trainer.modeling.batches import BadSample, PixelPicture, Row, row_images
from trainer.modeling.generation import Completion
from trainer.modeling.sampler import Sampler
from trainer.modeling.seen_pictures import seen_once
from trainer.reading.windows import ScreenWindow, around, points_of, whole, windows
from trainer.settings.reading import Mode, Reading

if TYPE_CHECKING:
    from trainer.modeling.checkpoint import Checkpoint

READ = ("grounding", "navigation")
"""Objectives whose answers point at the screen."""


@dataclass(frozen=True, slots=True)
class View:
    """A window, and the row that asks about it."""

    window: ScreenWindow
    row: Row


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered about a screen: `text` in its frame, the completion as it was said of `view`, and how many
    prompts it took (`asked`)."""

    text: str
    completion: Completion
    view: View
    asked: int


Ask = Callable[[Sequence[Row]], Sequence["Completion"]]
"""Rows → a completion each, in their order."""
Show = Callable[[np.ndarray], object]
"""Pixels of a window, uint8 [height, width, 3] → what stands in a row's `images`."""
ROWS = 32
"""Rows whose windows are in memory at a time."""


def looking(checkpoint: Checkpoint, mode: Mode | None) -> Checkpoint:
    """A loaded checkpoint that looks at screens otherwise than it was trained to (None: as it was)."""
    if mode is None:
        return checkpoint
    # the processor is shared with others of this checkpoint, who go on looking as before
    processor = checkpoint.processor.apart()
    processor.preset = replace(processor.preset, reading=processor.preset.reading.changed(mode=mode))
    return replace(checkpoint, processor=processor)


def answers(
    sampler: Sampler,
    rows: Sequence[Row],
    *,
    max_new_tokens: int,
    batch_size: int = 64,
    on_batch: Callable[[int], None] | None = None,
) -> list[Answer]:
    """The likeliest answer to each row; its screen is read as the preset of the sampler's processor says. `on_batch`
    hears of the rows that are answered. Raises `BadSample` for a row that can't be put."""

    processor = sampler.processor
    in_windows = processor.preset.reading.mode == "windows"

    def ask(some: Sequence[Row]) -> list[Completion]:
        return sampler.draw(some, max_new_tokens=max_new_tokens, batch_size=batch_size, decided=in_windows)

    found: list[Answer] = []
    size = ROWS if in_windows else batch_size
    with seen_once(sampler.model, processor) if in_windows else nullcontext():  # windows come again: rows share screens
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            found += read(some, processor.preset.reading, ask, processor.pixels)
            if on_batch is not None:
                on_batch(len(some))
    return found


def read(rows: Sequence[Row], reading: Reading, ask: Ask, show: Show) -> list[Answer]:
    """An answer to each row, which is put as `reading` says. Raises `BadSample` for a picture that can't be decoded."""
    screens = [_screen(row, reading) for row in rows]
    views = [_first_looks(row, pixels, reading, show) for row, pixels in zip(rows, screens, strict=True)]
    # all windows of all rows in one call: the model batches them
    parts = iter(ask([view.row for some in views for view in some]))
    answers = [_surest([(view, next(parts)) for view in some], reading.sure_from) for some in views]
    second = {
        place: view
        for place, (row, pixels, first) in enumerate(zip(rows, screens, answers, strict=True))
        if pixels is not None and (view := _second_look(row, pixels, first, reading, show)) is not None
    }
    closer = ask([view.row for view in second.values()]) if second else ()
    for (place, view), said in zip(second.items(), closer, strict=True):
        answers[place] = _with_second(answers[place], Answer(on_screen(said.text, view.window), said, view, 1))
    return answers


def _screen(row: Row, reading: Reading) -> np.ndarray | None:
    """uint8 [height, width, 3] of the screen that a row asks about; None where it is put as it is."""
    pictures = list(row.get("images") or ())
    if reading.mode == "whole" or row["objective"] not in READ or len(pictures) != 1:
        return None
    if isinstance(pictures[0], PixelPicture):  # it is a part already
        return None
    try:
        return np.asarray(open_image(row_images(row)[0]))
    except ImageError as error:
        raise BadSample(f"sample {row.get('sample_id', '?')}: {error}") from error


def _size(pixels: np.ndarray) -> tuple[int, int]:
    high, wide = pixels.shape[:2]
    return wide, high


def _first_looks(row: Row, pixels: np.ndarray | None, reading: Reading, show: Show) -> list[View]:
    if pixels is None:
        return [View(whole((1, 1)), row)]
    size = _size(pixels)
    parts = windows(size, reading) if reading.mode == "windows" else []
    # one window is the whole screen: put as it is, in its own frame
    if len(parts) < 2:
        return [View(whole(size), row)]
    return [View(one, _shown(row, pixels, one, show)) for one in parts]


def _second_look(row: Row, pixels: np.ndarray, first: Answer, reading: Reading, show: Show) -> View | None:
    """What is looked at once the first answer is known."""
    size = _size(pixels)
    if reading.mode == "windows":
        # only where every window refused: beside them the whole screen would win too often
        last_word = not reading.sure_from and first.asked > 1 and parse_reply(first.text).refusal
        return View(whole(size), row) if last_word else None
    point = _pointed(first.text)
    if point is None:
        return None
    part = around(point, size, reading.zoom)
    return View(part, _shown(row, pixels, part, show))


def _with_second(first: Answer, second: Answer) -> Answer:
    """The second answer, unless it points at nothing where the first one did."""
    # a part that doesn't show the element says nothing against the first look
    chosen = first if _pointed(first.text) is not None and _pointed(second.text) is None else second
    return replace(chosen, asked=first.asked + second.asked)


def _shown(row: Row, pixels: np.ndarray, window: ScreenWindow, show: Show) -> Row:
    return {**row, "images": [show(window.cut(pixels))]}


def sureness(completion: Completion) -> float:
    """How sure a model is that what was asked for is there, in nats: of all that it said, whatever the numbers are.

    Of the place itself it may be sure for a bad reason: a name that usually stands in one place is "there" on any
    screen (docs/decisions/reading.md).
    """
    # `decided` takes all numbers together, and leaves the place out
    return sum(completion.decided or completion.logprobs)


def _surest(answered: Sequence[tuple[View, Completion]], sure_from: float) -> Answer:
    """Of the windows that don't refuse the surest; a refusal where all do, or none is sure enough of a question's
    element."""
    pointing = [(view, said) for view, said in answered if not parse_reply(said.text).refusal]
    # where all refuse any of them is as good: the first
    view, said = max(pointing or answered[:1], key=lambda pair: sureness(pair[1]))
    unsure = sure_from and view.row["objective"] == "grounding" and sureness(said) < math.log(sure_from)
    text = REFUSAL if pointing and unsure else on_screen(said.text, view.window)
    return Answer(text, said, view, len(answered))


def _pointed(text: str) -> tuple[float, float] | None:
    """The point that a reply is about: of grounding, or the first of its action's."""
    reply = parse_reply(text, WIDEST)
    if reply.refusal:
        return None
    points = points_of(reply.action) if reply.action is not None else []
    return reply.point or (points[0] if points else None)


def on_screen(text: str, window: ScreenWindow) -> str:
    """A reply about a window as one about its screen. One about the whole screen stays as it was written, and so does
    what holds no point. Whether its model may say that action is decided where the reply is carried out or judged."""
    if window.size == window.screen:
        return text
    reply = parse_reply(text, WIDEST)
    if reply.point is not None and not reply.refusal:
        x, y = window.to_screen(reply.point)
        return f"[{x},{y}]" + (f" {reply.confidence}" if reply.confidence is not None else "")
    if reply.action is None or not points_of(reply.action):
        return text
    return with_action(text, window.action_on_screen(reply.action))


def with_action(text: str, action: Action) -> str:
    """A reply with another action that has points in place of its own; without tags it is the action alone."""
    # in text of the web a scroll is its direction alone
    said = render(action, "mobile")  # where a scroll keeps its points
    before, tag, rest = text.partition("<action>")
    if not tag:
        return said
    end = rest.rpartition("</action>")
    return f"{before}{tag}{said}{end[1]}{end[2]}"
