"""Mind2Web's actions: an operation on a candidate of the DOM → unified actions, in the frame of the full page."""

import json
import math
from collections.abc import Mapping
from typing import Any

from pipelines.mapping.items import ItemError
from schemas.action_types import ActionSpace, speaks
from schemas.actions import Action, Click, Hover, PressEnter, SelectOption, Type
from schemas.coordinates import OffScreen, box_to_unit, centre, point_to_unit

OPS = ("CLICK", "TYPE", "SELECT", "HOVER", "ENTER")


def operation_of(action: object) -> str:
    """The native word. Raises `ItemError`: missing_field, unknown_action."""
    operation = action.get("operation") if isinstance(action, dict) else None
    if not isinstance(operation, dict):
        raise ItemError("missing_field", f"operation: expected an object, found {operation!r:.60}")
    # The original word tells hover and Enter from click.
    word = operation.get("original_op") or operation.get("op")
    if word is None:
        raise ItemError("missing_field", "expected operation.original_op or operation.op")
    if word not in OPS:
        raise ItemError(f"unknown_action:{str(word)[:60]}", f"expected one of {OPS}")
    return str(word)


def attributes_of(candidate: object) -> dict[str, object]:
    """Attributes are JSON in a string (before June 2023 an object). Raises `ItemError("bad_value")`."""
    attributes = candidate.get("attributes") if isinstance(candidate, dict) else None
    # Both forms are published.
    try:
        decoded = json.loads(attributes) if isinstance(attributes, str) else attributes
    except (ValueError, RecursionError) as error:
        raise ItemError("bad_value", f"attributes: {error}") from error
    if not isinstance(decoded, dict):
        raise ItemError("bad_value", f"attributes: expected a JSON object, found {attributes!r:.60}")
    return decoded


def rect_of(candidate: object) -> tuple[float, float, float, float]:
    """`bounding_box_rect` "x,y,w,h" → left, top, right, bottom in page pixels. Raises `ItemError`."""
    text = attributes_of(candidate).get("bounding_box_rect")
    try:
        x, y, width, height = (float(part) for part in str(text).split(","))
    except ValueError as error:
        raise ItemError("bad_value", f"bounding_box_rect: expected 'x,y,w,h', found {text!r:.60}") from error
    # Elements of no size aren't drawn.
    if not (width > 0 and height > 0 and all(map(math.isfinite, (x, y, width, height)))):
        raise ItemError("bad_box", f"bounding_box_rect {text!r:.60} has no area: the element isn't drawn")
    return x, y, x + width, y + height


def candidates_of(action: Mapping[str, object]) -> list[Any]:
    """Positive candidates, then negative ones."""
    lists = (action.get("pos_candidates"), action.get("neg_candidates"))
    return [candidate for listed in lists if isinstance(listed, list) for candidate in listed]


def page_size(action: Mapping[str, object], word: str) -> tuple[float, float] | None:
    """Width and height of the page, of its html (else body) candidate. Raises `ItemError("bad_frame")`."""
    # The first of the two that is drawn.
    for tag in ("html", "body"):
        for candidate in candidates_of(action):
            if isinstance(candidate, dict) and candidate.get("tag") == tag:
                try:
                    return rect_of(candidate)[2:]
                except ItemError:
                    continue
    # Enter needs no place, so the size isn't needed either.
    if word == "ENTER":
        return None
    raise ItemError("bad_frame", "no html or body candidate with a box: the size of the page isn't known")


def target_of(action: Mapping[str, object], word: str) -> dict[str, object]:
    """The original target, else the top-level one. Raises `ItemError`: missing_field, no_target."""
    positives = action.get("pos_candidates")
    if not isinstance(positives, list):
        raise ItemError("missing_field", f"pos_candidates: expected a list, found {positives!r:.60}")
    # What the person clicked, else the element around it.
    for flag in ("is_original_target", "is_top_level_target"):
        for candidate in positives:
            if isinstance(candidate, dict) and candidate.get(flag) is True:
                return candidate
    raise ItemError("no_target", f"{word}: none of {len(positives)} positive candidates is the target")


def actions_of(
    word: str, value: object, target: Mapping[str, object] | None, frame: tuple[float, float] | None, space: ActionSpace
) -> tuple[list[Action], list[float] | None]:
    """Actions of a space and the target's box in 0..1000; without a target a PressEnter. Raises `ItemError`."""
    if target is None or frame is None:
        return [PressEnter()], None
    rect = rect_of(target)
    try:
        point = point_to_unit(centre(rect), frame)
        box = box_to_unit(rect, frame)
    except OffScreen as error:
        raise ItemError("off_screen", str(error)) from error
    if word in ("CLICK", "HOVER"):
        return [Click(point) if word == "CLICK" else Hover(point)], box
    if not isinstance(value, str):
        raise ItemError("missing_field", f"{word}: expected a text in operation.value, found {value!r:.60}")
    if not value:
        raise ItemError("empty_text", f"{word} without text")
    try:
        if word == "SELECT" and speaks(space, SelectOption):
            return [SelectOption(point, value)], box
        return [Click(point), Type(value)], box
    except ValueError as error:
        raise ItemError("bad_value", str(error)) from error


def is_lossy(word: str, space: ActionSpace) -> bool:
    """Whether an operation loses something in a space: where the option stands isn't known, so it is typed."""
    return word == "SELECT" and not speaks(space, SelectOption)


def elements_of(action: Mapping[str, object], frame: tuple[float, float]) -> list[dict[str, Any]]:
    """Candidates that are drawn on the page; their names are what their attributes say."""
    found = []
    for candidate in candidates_of(action):
        try:
            attributes, box = attributes_of(candidate), box_to_unit(rect_of(candidate), frame)
        except (ItemError, OffScreen):
            continue
        names = (attributes.get(name) for name in ("aria_label", "title", "alt", "placeholder", "label", "name"))
        name = next((str(value).strip() for value in names if value), "")
        found.append({"box": box, "role": str(candidate.get("tag") or ""), "text": "", "name": name})
    return found
