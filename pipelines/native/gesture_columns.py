"""AITW's gestures by column: the vectorised twin of `pipelines.native.aitw_codes`, for every source that has its codes.

`actions` decides for whole columns what `aitw_codes.gesture` decides for one step; steps that can't be mapped (about
one in a hundred) are handed to that function for their reason. `steps` makes the rows that an `EpisodeBuilder` makes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping.adapter import MappedBatch, RecordBatch, RecordScreen, RejectedUnit
from pipelines.mapping.card import Descriptor
from pipelines.mapping.column_json import JoinedText, plain, strings
from pipelines.mapping.columns import (
    boxes,
    by_name,
    coded,
    parents,
    picked,
    provenance,
    step_places,
    steps_table,
    taken,
)
from pipelines.mapping.fullest_list import keep_fullest
from pipelines.mapping.items import ItemError
from pipelines.native.aitw_codes import TAP_DISTANCE, gesture
from schemas.action_columns import action_text, content_direction, scroll_text
from schemas.coordinates import UNITS, to_unit_array
from schemas.ids import canonical_json

_KINDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("DUAL_POINT/tap", "Click", ("click_at_touch_point",)),
    ("DUAL_POINT/swipe", "Scroll", ("direction_from_points",)),
    ("TYPE", "Type", ()),
    ("PRESS_BACK", "PressBack", ()),
    ("PRESS_HOME", "PressHome", ()),
    ("PRESS_ENTER", "PressEnter", ()),
    ("STATUS_TASK_COMPLETE", "Finished", ()),
    ("STATUS_TASK_IMPOSSIBLE", "Finished", ("status_impossible",)),
)
"""(word, action, rules) of what a step can be."""
_TAP, _SWIPE, _TYPE, _IMPOSSIBLE = 0, 1, 2, 7
_BY_CODE = {3: _TYPE, 4: _TAP, 5: 3, 6: 4, 7: 5, 10: 6, 11: _IMPOSSIBLE}
_OF_CODE = np.array([_BY_CODE.get(code, -1) for code in (*range(max(_BY_CODE) + 2), -1)], np.int8)
"""The same by place; there is one too high, and the last one is for negative codes."""
_RULES = [canonical_json(list(rules)) if rules else None for _, _, rules in _KINDS]


@dataclass(frozen=True)
class Gestures:
    """Native gestures of the steps of a batch, a row each. `touch` and `lift` are [n, 2], (y, x) in 0..1."""

    code: np.ndarray
    touch: np.ndarray
    lift: np.ndarray
    text: pa.Array
    number: np.ndarray
    """Native index of the step in its episode."""
    native: JoinedText
    """The native_action column: canonical JSON."""


@dataclass(frozen=True)
class Elements:
    """Boxes of the screens of a batch: `count` of each row, their (y, x, h, w) [m, 4] in row order, and the frame
    [n, 2] (width, height) that they refer to."""

    count: np.ndarray
    boxes_yxhw: np.ndarray
    frame: np.ndarray


@dataclass(frozen=True)
class BatchPictures:
    """Screens of the rows of a batch: columns, and the screens themselves, one a row. None of them: `none`."""

    sha256: pa.Array
    width_px: pa.Array
    height_px: pa.Array
    problem: pa.Array
    """Why there is no picture; null where there is one."""
    screens: Sequence[RecordScreen] = ()

    @classmethod
    def none(cls, width_px: pa.Array, height_px: pa.Array) -> "BatchPictures":
        rows = len(width_px)
        return cls(pa.nulls(rows, pa.string()), width_px, height_px, coded(["image_missing"], np.zeros(rows, np.int8)))


@dataclass(frozen=True)
class Episodes:
    """What all steps of a record share, a row for each record."""

    instruction: pa.Array
    split: pa.Array
    outcome: pa.Array
    app: pa.Array


@dataclass(frozen=True)
class Actions:
    """What the gestures are: number of their kind (-1: none), and points [n, 2] of touch and lift, (x, y) in 0..1000
    (-1: off the screen, or the gesture has none)."""

    kind: np.ndarray
    start: np.ndarray
    end: np.ndarray


def actions(found: Gestures) -> Actions:
    """Kinds and points of gestures."""
    # Unknown codes fall on the ends of the table, which refuse them.
    kind = _OF_CODE[np.clip(found.code, -1, len(_OF_CODE) - 2)]
    dual = np.flatnonzero(kind == _TAP)
    start, end = (np.full((len(kind), 2), -1, np.int16) for _ in range(2))
    touch, lift = found.touch[dual], found.lift[dual]
    # Numbers of broken rows may be anything; they are refused below.
    with np.errstate(invalid="ignore", over="ignore"):
        dy, dx = (touch - lift).T
        distance = np.sqrt(dy * dy + dx * dx)
    near = np.flatnonzero(np.abs(distance - TAP_DISTANCE) < 1e-9)  # where the last bit decides: as Python
    distance[near] = [math.dist(touch[row], lift[row]) for row in near]
    at, to = (to_unit_array(points, 1.0)[:, ::-1] for points in (touch, lift))
    start[dual], end[dual] = at, to
    # Off the screen is -1 there.
    off = np.minimum(np.minimum(*at.T), np.minimum(*to.T)) < 0
    kind[dual] = np.where(off, -1, np.where(distance <= TAP_DISTANCE, _TAP, _SWIPE))
    typed = np.flatnonzero(kind == _TYPE)
    # Nothing typed is no action.
    empty = np.asarray(pc.equal(found.text.take(pa.array(typed)), ""))
    kind[typed[empty]] = -1
    return Actions(kind, start, end)


def texts(found: Gestures, made: Actions, pictures: BatchPictures, wanted: np.ndarray | None = None) -> pa.Array:
    """The canonical action texts of all rows, or of some in a given order; null where there is no action. Each kind is
    written for its rows only. A swipe goes the way that is longer on its screen."""
    order, pieces = [], []
    # Written by kinds, as each kind is one pattern of text.
    for number, (_, name, _) in enumerate(_KINDS):
        rows = np.flatnonzero(made.kind == number)
        if not rows.size:
            continue
        chosen = pa.array(rows)
        if number == _TAP:
            text = action_text(name, point=_columns(made.start[rows]))
        elif number == _SWIPE:
            points = (*_columns(made.start[rows]), *_columns(made.end[rows]))
            size = (pictures.width_px.take(chosen), pictures.height_px.take(chosen))
            text = scroll_text(*points, direction=content_direction(*points, *size))
        else:
            content = plain(found.text.take(chosen)) if number == _TYPE else pa.repeat(pa.scalar(""), len(rows))
            text = action_text(name, content=content)
        order.append(rows)
        pieces.append(text)
    if not pieces:
        return pa.nulls(len(made.kind if wanted is None else wanted), pa.string())
    # Back into the order of the rows.
    place = np.full(len(made.kind), -1, np.int64)
    place[np.concatenate(order)] = np.arange(sum(map(len, order)))
    place = place if wanted is None else place[wanted]
    return pa.concat_arrays(pieces).take(pa.array(place, mask=place < 0))


def _columns(points: np.ndarray) -> tuple[pa.Array, pa.Array]:
    x, y = (pa.array(np.ascontiguousarray(side)) for side in points.T)
    return x, y


def target_boxes(made: Actions, elements: Elements) -> tuple[np.ndarray, np.ndarray]:
    """The smallest element that holds each tap, as `mapping.smallest_box` finds it: (rows, boxes [n, 4]).

    A tap lies in 0..1000, so it lies in a box iff it lies in the part of the box on the screen: what a side rules out
    need not be looked at again, and few boxes are left to be cut and compared. Height rules out nine of ten (see
    `_level`), the rest are held to their sides as exactly as `box_to_unit` does.
    """
    left = _level(made, elements)
    owner = np.searchsorted(np.cumsum(elements.count), left, "right")
    for near, size, axis in ((0, 2, 1), (1, 3, 0)):  # y and height, then x and width
        low = elements.boxes_yxhw[left, near].astype(np.float64)
        side, at = elements.frame[owner, axis], made.start[owner, axis]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            high = (low + elements.boxes_yxhw[left, size]) * 1000.0 / side
            holds = (low * 1000.0 / side <= at) & (at <= high)
        left, owner = left[holds], owner[holds]
    # Few are left, so they are cut as exactly as by row.
    y, x, height, width = elements.boxes_yxhw[left].astype(np.float64).T
    frame = elements.frame[owner].T
    sides = np.stack([x, y, x + width, y + height]) * 1000.0 / np.concatenate([frame, frame])
    finite = np.isfinite(sides).all(axis=0)
    sides = np.clip(sides, 0.0, float(UNITS))
    hit = np.flatnonzero((sides[0] < sides[2]) & (sides[1] < sides[3]) & finite)
    area = (sides[2] - sides[0])[hit] * (sides[3] - sides[1])[hit]
    # By area, and by place where areas are equal: the first smallest wins, as by row.
    order = hit[np.lexsort((hit, area, owner[hit]))]
    rows, first = np.unique(owner[order], return_index=True)
    return rows, sides[:, order[first]].T


_ROWS = 2_048
"""Rows whose boxes are looked at together: so many stay in the processor's cache."""


def _level(made: Actions, elements: Elements) -> np.ndarray:
    """Places of the boxes at the height of their row's tap: all that are, and a few that just aren't.

    In float32, as boxes come: the tap's height is taken a little too low for the lower side, too high for the upper,
    and a difference is rounded monotonically, so no box is lost.
    """
    height = elements.frame[:, 1]
    # Rows without a tap compare with nothing.
    at = np.where(made.kind == _TAP, made.start[:, 1] * (height / 1000.0), np.nan)
    kind = elements.boxes_yxhw.dtype
    high, low = ((at * (1 + slack) + height * slack).astype(kind) for slack in (1e-5, -1e-5))
    ends = np.concatenate([[0], np.cumsum(elements.count)])
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(at), _ROWS):
        last = min(first + _ROWS, len(at))
        many = elements.count[first:last]
        boxes = elements.boxes_yxhw[ends[first] : ends[last]]
        with np.errstate(invalid="ignore", over="ignore"):
            level = boxes[:, 0] <= np.repeat(high[first:last], many)
            level &= np.repeat(low[first:last], many) - boxes[:, 0] <= boxes[:, 2]
        found.append(np.flatnonzero(level) + ends[first])
    return np.concatenate(found)


def map_gestures(
    card: Descriptor,
    batch: RecordBatch,
    found: Gestures,
    episodes: Episodes,
    pictures: BatchPictures,
    elements: Elements,
    natives_of: Callable[[list[int]], list[Any]],
    words: Mapping[str, pa.Array] | None = None,
) -> MappedBatch:
    """The step rows of a batch, and its rejects. `natives_of` gives the native actions of some rows as plain values;
    `words` are further columns of `Steps` (thought, …)."""
    mapped_gestures = actions(found)
    mapped = mapped_gestures.kind >= 0
    owner = parents(batch.starts)
    result = MappedBatch(items=len(mapped), mapped=int(mapped.sum()))
    _count(result, mapped_gestures.kind)
    _reject(result, batch, found, mapped, owner, natives_of)
    rows, index, gap_at = step_places(mapped, batch.starts)
    _report_pictures(result, batch, pictures, rows, owner, found.number)
    result.screens.update(_of_rows(pictures, rows))
    if not rows.size:
        return result
    if (order := by_name(batch.native_ids, owner[rows])) is not None:  # as the table will be: now that costs least
        rows, index, gap_at = rows[order], index[order], gap_at[order]
    record = pa.array(owner[rows])
    kind = mapped_gestures.kind[rows]
    ids = batch.native_ids.take(record)
    box_rows, sides = target_boxes(mapped_gestures, elements)
    places = np.zeros(len(mapped), np.int64)
    places[rows] = np.arange(len(rows))
    columns: dict[str, pa.Array | str | None] = {
        "source": card.id,
        "episode_id": ids,
        "step_index": pa.array(index, pa.int32()),
        "split": episodes.split.take(record),
        "platform": "mobile",
        "language": card.language,
        "app": episodes.app.take(record),
        "instruction": episodes.instruction.take(record),
        "screenshot_sha256": picked(pictures.sha256, rows),
        "width_px": picked(pictures.width_px, rows),
        "height_px": picked(pictures.height_px, rows),
        "action_type": taken([name for _, name, _ in _KINDS], kind),
        "action_text": texts(found, mapped_gestures, pictures, rows),
        "target_box": boxes(len(rows), places[box_rows], sides),
        "episode_outcome": episodes.outcome.take(record),
        "native_action": picked(found.native, rows),
        "provenance": provenance(
            canonical_json(batch.file) if isinstance(batch.file, str) else coded(strings(batch.file), owner[rows]),
            coded(strings(batch.locators), owner[rows]),
            coded(strings(batch.native_ids), owner[rows]),
            pa.array(found.number[rows]),
            gap_at=gap_at,
            image_missing=picked(pictures.problem, rows),
            rules=coded(_RULES, kind),
            lossy=kind == _IMPOSSIBLE,
        ),
        **{name: picked(column, rows) for name, column in (words or {}).items()},
    }
    result.steps = steps_table(columns, len(rows))
    return result


def _count(result: MappedBatch, kind: np.ndarray) -> None:
    for number, (word, _, _) in enumerate(_KINDS):
        if count := int((kind == number).sum()):
            result.losses[(word, "lossy" if number == _IMPOSSIBLE else "kept")] += count


def _reject(
    result: MappedBatch,
    batch: RecordBatch,
    found: Gestures,
    mapped: np.ndarray,
    owner: np.ndarray,
    natives_of: Callable[[list[int]], list[Any]],
) -> None:
    """The scalar mapping says what is wrong with a step; it must refuse what the columns refused."""
    rows = np.flatnonzero(~mapped).tolist()
    for row, native in zip(rows, natives_of(rows), strict=True):
        code, number, record = int(found.code[row]), int(found.number[row]), int(owner[row])
        try:
            gesture(code, found.touch[row].tolist(), found.lift[row].tolist(), found.text[row].as_py())
        except ItemError as error:
            where = {"native": native, "native_index": number, "record": batch.native_ids[record].as_py()}
            result.rejects.append((record, RejectedUnit("item", 1, error.reason, error.detail, where)))
            result.losses[(error.word[:60], "dropped")] += 1
        else:
            # Two mappings that disagree would make rows depend on how a file was written.
            raise AssertionError(f"{batch.where(record)} step {number}: refused by column, mapped by row")


def _report_pictures(
    result: MappedBatch,
    batch: RecordBatch,
    pictures: BatchPictures,
    rows: np.ndarray,
    owner: np.ndarray,
    number: np.ndarray,
) -> None:
    """Each unusable picture is said once; one that isn't there at all is said by the row alone."""
    broken = np.asarray(pc.fill_null(pc.not_equal(pictures.problem, "image_missing"), False))
    for row in rows[broken[rows]].tolist() if broken.any() else ():
        record = int(owner[row])
        where = {"record": batch.native_ids[record].as_py(), "native_index": int(number[row])}
        reason = pictures.problem[row].as_py()
        result.rejects.append((record, RejectedUnit("image", 0, reason, "the row is kept without it", where)))


def _of_rows(pictures: BatchPictures, rows: np.ndarray) -> dict[str, RecordScreen]:
    """The pictures of the rows that are kept, which have to be stored."""
    found: dict[str, RecordScreen] = {}
    for row in rows.tolist() if pictures.screens else ():
        keep_fullest(found, pictures.screens[row])
    return found


def outcomes(code: np.ndarray, starts: np.ndarray) -> pa.Array:
    """Per record: infeasible if a step has code 11, else success if one has 10, else unknown."""
    infeasible, success = (np.logical_or.reduceat(code == value, starts[:-1]) for value in (11, 10))
    return taken([None, "success", "infeasible"], np.where(infeasible, 2, success.astype(np.int8)))
