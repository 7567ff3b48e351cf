"""AITW's action codes, gestures and screen annotations, for every source that uses them."""

import math
from collections.abc import Sequence
from typing import Any

from pipelines.mapping.card import Loss
from pipelines.mapping.items import ItemError, is_text
from schemas.actions import Action, Click, Finished, PressBack, PressEnter, PressHome, Scroll, Type, scroll_direction
from schemas.coordinates import OffScreen, box_to_unit, point_to_unit

TAP_DISTANCE = 0.04
"""Largest distance of touch and lift (both axes 0..1) that is a tap: the rule of AITW's own `action_matching.py`."""

CODES = {
    3: "TYPE",
    4: "DUAL_POINT",
    5: "PRESS_BACK",
    6: "PRESS_HOME",
    7: "PRESS_ENTER",
    10: "STATUS_TASK_COMPLETE",
    11: "STATUS_TASK_IMPOSSIBLE",
}
OTHER = "other codes"
_PLAIN: dict[int, type] = {5: PressBack, 6: PressHome, 7: PressEnter, 10: Finished, 11: Finished}
_WHERE_POINT = "click point = touch point; the lift point, at most 0.04 away, is left in native_action"

GESTURE_LOSSES = (
    Loss("DUAL_POINT/tap", "Click", "kept", f"distance <= {TAP_DISTANCE}; {_WHERE_POINT}"),
    Loss("DUAL_POINT/swipe", "Scroll", "kept", "start = touch, end = lift; direction recomputed from them"),
    Loss("DUAL_POINT", "-", "dropped", "off_screen: a point of the gesture lies outside the screen or is (-1, -1)"),
    Loss("TYPE", "Type", "kept", "neither a focusing tap nor an Enter is implied; empty text is quarantined"),
    Loss("PRESS_BACK", "PressBack", "kept"),
    Loss("PRESS_HOME", "PressHome", "kept"),
    Loss("PRESS_ENTER", "PressEnter", "kept"),
    Loss("STATUS_TASK_COMPLETE", "Finished", "kept", "episode_outcome success, as the annotator says; no answer text"),
    Loss("STATUS_TASK_IMPOSSIBLE", "Finished", "lossy", "the space has no such action; episode_outcome = infeasible"),
    Loss(OTHER, "-", "dropped", "unknown_action:<code>: 0, 1, 2, 8, 9 are unused in AITW; nothing is guessed"),
)
"""The loss table of AITW's action codes, for every source that uses them."""


def word_of(code: int) -> str:
    """The word that a code is counted under before more is known of it."""
    return CODES.get(code, OTHER)


def gesture(code: int, touch_yx: Sequence[float], lift_yx: Sequence[float], text: str) -> tuple[Action, str, list[str]]:
    """AITW code, touch and lift (y first, 0..1), typed text → (action, native word, rules).

    A tap iff the distance of touch and lift is at most 0.04 (normalised, both axes alike); the click point is the
    touch point. Raises `ItemError`: unknown_action, off_screen, empty_text, bad_value.
    """
    if code not in CODES:
        raise ItemError(f"unknown_action:{code}", f"expected one of {sorted(CODES)}", OTHER)
    word = CODES[code]
    if code == 3:
        if not text:
            raise ItemError("empty_text", "a TYPE step without text", word)
        if not is_text(text):
            raise ItemError("bad_value", "the text holds a lone surrogate, which is no Unicode text", word)
        return Type(text), word, []
    if code != 4:
        return _PLAIN[code](), word, ["status_impossible"] if code == 11 else []
    if len(touch_yx) != 2 or len(lift_yx) != 2:
        raise ItemError("bad_value", f"expected two numbers each, found touch {touch_yx!r}, lift {lift_yx!r}", word)
    try:
        # The source puts y first.
        start = point_to_unit((touch_yx[1], touch_yx[0]), (1.0, 1.0))
        end = point_to_unit((lift_yx[1], lift_yx[0]), (1.0, 1.0))
    except OffScreen as error:
        raise ItemError("off_screen", f"touch (y, x) {list(touch_yx)}, lift {list(lift_yx)}: {error}", word) from error
    # The distance that the source itself uses to tell taps from swipes.
    if math.dist(touch_yx, lift_yx) <= TAP_DISTANCE:
        return Click(start), f"{word}/tap", ["click_at_touch_point"]
    return Scroll(start, end, scroll_direction(start, end)), f"{word}/swipe", ["direction_from_points"]


def ocr_elements(
    boxes_yxhw: Sequence[Sequence[float]], texts: Sequence[str], types: Sequence[str], size: tuple[float, float]
) -> list[dict[str, Any]]:
    """AITW's screen annotations: (y, x, h, w) boxes in a frame of `size` (width, height), OCR text, `TEXT` or
    `ICON_*` → elements in 0..1000. An icon is named after its kind: `ICON_NAV_BAR_RECT` → role icon, name
    "nav bar rect icon". Boxes without area or off the screen are left out.

    Raises `ValueError` if the three lists differ in length or a box doesn't have four numbers.
    """
    if not len(boxes_yxhw) == len(texts) == len(types):
        raise ValueError(f"{len(boxes_yxhw)} boxes, {len(texts)} texts, {len(types)} types: expected equal numbers")
    found = []
    for (y, x, height, width), text, kind in zip(boxes_yxhw, texts, types, strict=True):
        try:
            box = box_to_unit((x, y, x + width, y + height), size)
        except OffScreen:
            # Annotated boxes may lie beside the picture.
            continue
        if box[0] >= box[2] or box[1] >= box[3]:
            continue
        icon = kind.startswith("ICON_")
        name = f"{kind.removeprefix('ICON_').replace('_', ' ').lower()} icon" if icon else text
        found.append({"box": box, "role": "icon" if icon else kind.lower(), "text": text, "name": name})
    return found
