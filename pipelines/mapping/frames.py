"""Pictures that must fit a frame known from elsewhere: a cropped or foreign one would move every coordinate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.mapping.adapter import RecordScreen

MISFIT = "image_misfit"


def fitting_screen(
    data: bytes | None, frame: tuple[int, int], elements: Sequence[Mapping[str, object]] = ()
) -> RecordScreen:
    """A screen of a known frame (width, height in native px). The picture is used only if its sides have the frame's
    ratio: scaled to the picture's width, the frame's height differs by at most 1 px. Else problem = `image_misfit`."""
    screen = RecordScreen.load(data, elements, frame)
    if screen.info is not None and abs(screen.info.width_px * frame[1] / frame[0] - screen.info.height_px) > 1:
        return RecordScreen(frame[0], frame[1], None, None, tuple(elements), MISFIT)
    return screen
