"""What the Android sources share: AITW's gesture codes, reading Example features, elements, split lists, notices."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.adapter import Loss, Mapped, Raw, RecordError, Reject
from schemas.actions import (
    Action,
    Click,
    Finished,
    PressBack,
    PressEnter,
    PressHome,
    Scroll,
    Type,
    scroll_direction,
)
from schemas.coordinates import OffScreen, box_to_unit, contains, point_to_unit

TAP_DISTANCE = 0.04
"""Largest distance of touch and lift (both axes 0..1) that is a tap: the rule of AITW's own `action_matching.py`."""

CODES = {
    3: "TYPE", 4: "DUAL_POINT", 5: "PRESS_BACK", 6: "PRESS_HOME", 7: "PRESS_ENTER",
    10: "STATUS_TASK_COMPLETE", 11: "STATUS_TASK_IMPOSSIBLE",
}  # fmt: skip
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
    Loss("other codes", "-", "dropped", "unknown_action:<code>: 0, 1, 2, 8, 9 are unused in AITW; nothing is guessed"),
)
"""The loss table of AITW's action codes, for every source that uses them."""


class ItemError(ValueError):
    """One native action that can't be mapped: reason, detail, and the native word it is counted under."""

    def __init__(self, reason: str, detail: str = "", word: str = "?") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.word = word


def gesture(code: int, touch_yx: Sequence[float], lift_yx: Sequence[float], text: str) -> tuple[Action, str, list[str]]:
    """AITW code, touch and lift (y first, 0..1), typed text → (action, native word, rules).

    A tap iff the distance of touch and lift is at most 0.04 (normalised, both axes alike); the click point is the
    touch point. Raises `ItemError`: unknown_action, off_screen, empty_text, bad_value.
    """
    if code not in CODES:
        raise ItemError(f"unknown_action:{code}", f"expected one of {sorted(CODES)}", str(code))
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
        start = point_to_unit((touch_yx[1], touch_yx[0]), (1.0, 1.0))
        end = point_to_unit((lift_yx[1], lift_yx[0]), (1.0, 1.0))
    except OffScreen as error:
        raise ItemError("off_screen", f"touch (y, x) {list(touch_yx)}, lift {list(lift_yx)}: {error}", word) from error
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
            continue
        if box[0] >= box[2] or box[1] >= box[3]:
            continue
        icon = kind.startswith("ICON_")
        name = f"{kind.removeprefix('ICON_').replace('_', ' ').lower()} icon" if icon else text
        found.append({"box": box, "role": "icon" if icon else kind.lower(), "text": text, "name": name})
    return found


def smallest_box(elements: Sequence[Mapping[str, Any]], action: Action) -> list[float] | None:
    """Box of the smallest element that holds the action's point (the first of equal ones); None if there is none."""
    point = getattr(action, "box", None)
    if point is None:
        return None
    holding = [element["box"] for element in elements if contains(element["box"], point)]
    return min(holding, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]), default=None)


def is_text(value: str) -> bool:
    """Whether a string is Unicode text: JSON can smuggle in lone surrogates, which no table can hold."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def one(features: Mapping[str, Any], name: str, kind: type) -> Any:
    """The only value of an Example feature, as int, float or text, of `readable` features.

    Raises `RecordError`: missing_field (absent or empty), bad_value (several values, another type, no UTF-8).
    """
    values = features.get(name)
    if not values:
        raise RecordError("missing_field", f"expected a feature {name!r}")
    if len(values) != 1 or not isinstance(values[0], kind):
        shown = values if len(values) < 5 else f"{len(values)} values"
        wanted = "UTF-8 text" if kind is str else kind.__name__
        raise RecordError("bad_value", f"{name}: expected one {wanted}, found {str(shown)[:120]}")
    return values[0]


def texts(features: Mapping[str, Any], name: str) -> list[str]:
    """All values of a text feature (absent: none). Raises `RecordError("bad_value")` if one isn't UTF-8 text."""
    values = list(features.get(name, []))
    if not all(isinstance(value, str) for value in values):
        raise RecordError("bad_value", f"{name}: expected UTF-8 text, found {str(values)[:120]}")
    return values


def readable(features: Mapping[str, Sequence[Any]], binary: frozenset[str] = frozenset()) -> dict[str, list[Any]]:
    """Example features with bytes decoded to text, except those named `binary` and values that aren't UTF-8 (they
    stay bytes), so that a quarantined record can be read."""
    return {name: list(values) if name in binary else [_text(value) for value in values]
            for name, values in features.items()}  # fmt: skip


def _text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def notices(mapped: Mapped, found: Sequence[tuple[str, str, Any]]) -> Mapped:
    """Put (reason, detail, native) lines into the quarantine that cost no native item: something beside the actions
    that was not mapped (an unseen column, a broken tree, missing steps) is named and counted, and kept there whole."""
    mapped.rejects.extend(Reject("record", 0, reason, detail, native) for reason, detail, native in found)
    return mapped


def unknown_fields(payload: Mapping[str, Any], known: frozenset[str]) -> list[tuple[str, str, Any]]:
    """A notice for each field that the source's page doesn't know."""
    return [
        (f"unknown_field:{name[:60]}", "the row is mapped without it", {name: payload[name]})
        for name in sorted(set(payload) - known)
    ]


def split_of(raw: Raw, name: str, episode_id: str) -> str | None:
    """The split of an episode by a list `{train|validation|test: [ids]}` in file `name` of the raw folder; None if
    there is no such file or the id isn't in it; test wins over the others. Raises `SplitListError` on a file that
    isn't such a list: training on test episodes by a typing error must not be possible."""
    path = raw.path(name)
    if not path.is_file():
        return None
    stat = path.stat()
    return _splits(path, stat.st_mtime_ns, stat.st_size).get(episode_id)


@functools.lru_cache(maxsize=8)
def _splits(path: Path, mtime_ns: int, size: int) -> dict[str, str]:
    del mtime_ns, size  # part of the key only: an edited file is read again
    try:
        lists = json.loads(path.read_bytes())
        found: dict[str, str] = {}
        for split in ("train", "validation", "test"):
            found |= {str(episode): split for episode in lists.get(split, [])}
    except (ValueError, AttributeError, TypeError) as error:
        raise SplitListError(f"{path.name}: expected an object of train, validation, test lists: {error}") from error
    if not found:
        raise SplitListError(f"{path.name}: expected lists train, validation, test; found none of them")
    return found


class SplitListError(RuntimeError):
    """A split list that can't be read. Not a `ValueError`: it must stop the run, not quarantine one record."""
