"""What the GUICourse sources share: picture tables read by id, coordinate tags, actions of its web parts, episodes.

`<name>_data.json` has its pictures in `<name>_images.parquet` beside it: the index is the image id, the column
`base64` holds text (raw bytes in guichat). `related` coordinates are fractions of the picture, x first; `absolute`
ones contradict the picture's size in real records and are never used.
"""

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Broken, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import whole_sides
from pipelines.mapping.items import ItemError, bad_values, read_once, refusing
from pipelines.mapping.items import text_of as stated_text
from pipelines.mapping.points import in_frame, wheel_direction
from pipelines.native.record_readers import json_list
from pipelines.native.spill import Spill
from schemas.action_types import ActionSpace, speaks
from schemas.actions import Action, Click, Drag, Finished, Hotkey, Hover, Point, PressEnter, Scroll, SelectOption, Type
from schemas.coordinates import OffScreen, ScreenBox, centre, screen_box
from schemas.ids import digest

DATA, IMAGES = "_data.json", "_images.parquet"
_TAG = re.compile(r"<(box|point)>([^<>]*)</\1>")
_UID = re.compile(r"uid_(?:record|episode)_(.+)_step_(\d+)", re.ASCII)
_STEP = re.compile(r"^\s*step\s+(\d+)", re.MULTILINE | re.IGNORECASE)
ROW = frozenset({"uid", "image_id", "image_size", "question", "actions_history", "logs", "thoughts", "actions_label"})
"""Fields of a row of the three parts that hold actions."""
OTHER = "other actions"
WEB_LOSSES = (
    Loss("click", "Click", "kept"),
    Loss("hover", "Hover", "kept"),
    Loss("input", "Click, Type", "kept", "Type only, without an element"),
    Loss("enter", "PressEnter", "kept"),
    Loss("scroll", "Scroll(direction)", "kept", "lossy if it goes both ways; by nothing: no_counterpart"),
    Loss("select", "Click, Type", "lossy", "the option's place is unknown. v2: SelectOption, kept"),
    Loss("select_text", "Drag", "kept"),
    Loss("copy", "Hotkey(ctrl, c)", "kept"),
)
"""Rows for the loss table of a web part, without `answer`."""
OTHER_LOSSES = (
    Loss(OTHER, "-", "dropped", "unknown_action:<name>, or no name"),
    Loss("elements", "-", "lossy", "boxes without text in a frame that nothing confirms"),
)
"""Rows for that of any part with actions."""
WORDS = (*(loss.native for loss in WEB_LOSSES), "answer")


def numbers(text: object, kind: str, word: str) -> list[float]:
    """`<box>0.1, 0.2, 0.3, 0.4</box>` (separated by commas or blanks) → its numbers: 4 of a box, 2 of a point.

    Raises `ItemError`: missing_field without a text, bad_value if it is no such tag.
    """
    if not isinstance(text, str):
        raise ItemError("missing_field", f"expected <{kind}>, found {text!r:.60}", word)
    match = _TAG.fullmatch(text.strip())
    try:
        # The kind of tag must be the one that was asked for.
        found = [float(part) for part in match[2].replace(",", " ").split()] if match and match[1] == kind else []
    except ValueError:
        found = []
    if len(found) != (4 if kind == "box" else 2) or not all(map(math.isfinite, found)):
        raise ItemError("bad_value", f"expected <{kind}> with its numbers, found {text[:80]!r}", word)
    return found


def unit_box(text: Any, word: str, size: float = 1.0) -> ScreenBox:
    """A box tag in a frame of `size` both ways → left, top, right, bottom in 0..1000. Raises `ItemError`: bad_box
    without area, off_screen (see `schemas.coordinates.screen_box`)."""
    left, top, right, bottom = numbers(text, "box", word)
    if not (left < right and top < bottom):
        raise ItemError("bad_box", f"{text[:80]!r} has no area", word)
    try:
        return screen_box((left, top, right, bottom), (size, size))
    except OffScreen as error:
        raise ItemError("off_screen", f"{text[:80]!r}: {error}", word) from error


def unit_point(text: object, word: str) -> Point:
    """A point tag of fractions → 0..1000. Raises `ItemError`."""
    x, y = numbers(text, "point", word)
    return in_frame(x, y, (1.0, 1.0), word)


def related(holder: object, word: str) -> object:
    """The `related` part of {absolute, related}. Raises `ItemError("missing_field")`."""
    if not isinstance(holder, Mapping) or "related" not in holder:
        raise ItemError("missing_field", f"expected an object with `related`, found {str(holder)[:60]!r}", word)
    return holder["related"]


def ends(action: Mapping[str, object], word: str) -> tuple[Point, Point]:
    """`dual_point.related` from → to. Raises `ItemError`."""
    pair = related(action.get("dual_point"), word)
    if not isinstance(pair, Mapping):
        raise ItemError("missing_field", "dual_point.related: expected from and to", word)
    return unit_point(pair.get("from"), word), unit_point(pair.get("to"), word)


def text_of(action: Mapping[str, object], word: str) -> str:
    """The text of an action. Raises `ItemError`: missing_field, empty_text."""
    text = action.get("text")
    if not isinstance(text, str):
        raise ItemError("missing_field", f"text: expected a text, found {text!r:.60}", word)
    if not text:
        raise ItemError("empty_text", f"{word} without text", word)
    return text


def word_of(action: object, known: Sequence[str]) -> str:
    """The name of an action in lower case (`Click` occurs). Raises `ItemError`: missing_field, unknown_action."""
    name = action.get("name") if isinstance(action, Mapping) else None
    if not isinstance(name, str):
        raise ItemError("missing_field", f"expected an action with a name, found {str(action)[:60]!r}", OTHER)
    # Two spellings of one action.
    word = {"copy_text": "copy"}.get(name.strip().lower(), name.strip().lower())
    if word not in known:
        raise ItemError(f"unknown_action:{name[:60]}", f"expected one of {tuple(known)}", OTHER)
    return word


def web_action(action: Any, space: ActionSpace, shared: bool = False) -> MappedAction:
    """One action of the web parts, in a space; `shared`: its picture is that of an action before it. Raises
    `ItemError`."""
    word = word_of(action, WORDS)
    with bad_values(word):
        mapped = _web(word, action, space)
    return replace(mapped, rules=(*mapped.rules, "shared_screenshot")) if shared else mapped


def _web(word: str, action: Mapping[str, object], space: ActionSpace) -> MappedAction:
    if word in ("click", "hover"):
        point, box, rules = _target(action, word)
        return MappedAction([Click(point) if word == "click" else Hover(point)], word, box=box, rules=rules)
    if word == "input":
        # Typing without a place goes to what has the focus.
        if action.get("element") is None and action.get("point") is None:
            return MappedAction([Type(text_of(action, word))], word)
        point, box, rules = _target(action, word)
        return MappedAction([Click(point), Type(text_of(action, word))], word, box=box, rules=rules)
    if word == "select":
        point, box, rules = _target(action, word)
        if speaks(space, SelectOption):
            return MappedAction([SelectOption(point, text_of(action, word))], word, box=box, rules=rules)
        # Choosing without SelectOption: click and type, which is what some lists take.
        actions: list[Action] = [Click(point), Type(text_of(action, word))]
        return MappedAction(actions, word, box=box, lossy=True, rules=(*rules, "select_as_click_type"))
    if word == "select_text":
        return MappedAction([Drag(*ends(action, word))], word)
    if word == "scroll":
        return _scroll(action)
    if word == "enter":
        return MappedAction([PressEnter()], word)
    return MappedAction([Hotkey(("ctrl", "c"))] if word == "copy" else [Finished(text_of(action, word))], word)


def _target(action: Mapping[str, object], word: str) -> tuple[Point, Sequence[float] | None, tuple[str, ...]]:
    """Point (else the box's centre) and box of an action; fractions in, units out."""
    element = action.get("element")
    box = unit_box(related(element, word), word) if element is not None else None
    # A point is where the person clicked; the box's centre is a guess.
    if action.get("point") is not None:
        return unit_point(related(action["point"], word), word), box, ()
    if box is None:
        raise ItemError("missing_field", f"{word}: expected an element or a point", word)
    return in_frame(*centre(numbers(related(element, word), "box", word)), (1.0, 1.0), word), box, ("centre_of_box",)


def _scroll(action: Mapping[str, object]) -> MappedAction:
    """Positive `down` and `right`: the page shows what lies there. `related` may be rounded to 0, `absolute` isn't."""
    holder = action.get("scroll")
    # Small scrolls are rounded to 0 in fractions; pixels keep the sign.
    for frame in ("related", "absolute"):
        amounts = holder.get(frame) if isinstance(holder, Mapping) else None
        if not isinstance(amounts, Mapping):
            raise ItemError("missing_field", f"scroll.{frame}: expected down and right", "scroll")
        try:
            down, right = float(amounts.get("down") or 0), float(amounts.get("right") or 0)
        except (TypeError, ValueError) as error:
            raise ItemError("bad_value", f"scroll.{frame}: {error}", "scroll") from error
        if not (math.isfinite(down) and math.isfinite(right)):
            raise ItemError("bad_value", f"scroll.{frame}: not finite", "scroll")
        if down or right:
            word = wheel_direction(right, down)
            rules = ("direction_from_amount", *(["sign_of_absolute"] if frame == "absolute" else []))
            return MappedAction([Scroll(direction=word)], "scroll", lossy=bool(down and right), rules=rules)
    raise ItemError("no_counterpart", "a scroll by nothing", "scroll")


def split_of_file(file: str) -> str:
    """test if the file's name says so, else train."""
    return "test" if "test" in file.rpartition("/")[2].lower() else "train"


def episodes(raw: Raw, file: str) -> Iterator[Record | Broken]:
    """Consecutive rows of one episode (id of the uid, and question: ids are reused) as one record, by step number.

    The payload is the list of rows. A row whose uid can't be read is a record of its own, refused by `map`.
    """
    held: list[Any] = []
    key: tuple[str, str] | None = None
    first = ""
    for found in json_list(raw, file, count=lambda text: text.count('"name"')):
        row = found.payload if isinstance(found, Record) else None
        match = _UID.fullmatch(str(row.get("uid"))) if isinstance(row, Mapping) else None
        here = (match[1], str(row.get("question"))) if match and isinstance(row, Mapping) else None
        # Only neighbours belong together: ids are used again.
        if held and (here is None or here != key):
            yield _episode(file, first, held, key)
            held = []
        if isinstance(found, Broken):
            yield found
        elif here is None:
            yield Record(file, found.locator, [row])
        else:
            first = first if held else found.locator
            held.append(row)
            key = here
    if held:
        yield _episode(file, first, held, key)


def _episode(file: str, locator: str, rows: list[object], key: tuple[str, str] | None) -> Record:
    assert key is not None
    # Rows may stand in any order within their episode.
    ordered = sorted(rows, key=lambda row: int(_UID.fullmatch(row["uid"])[2]))  # type: ignore[index]
    return Record(file, locator, ordered, f"{split_of_file(file)}_{key[0]}-{digest(key[1])[:8]}")


def logical_index(row: Mapping[str, object]) -> int:
    """Which step of the task a row is: the largest number of its history + 1, else the number in its uid."""
    history = row.get("actions_history")
    # Histories count steps even where rows were left out.
    seen = [int(number) for number in _STEP.findall(history)] if isinstance(history, str) else []
    match = _UID.fullmatch(str(row.get("uid")))
    return max(seen) + 1 if seen else int(match[2]) if match else 0


def steps_of(builder: EpisodeBuilder, rows: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The rows of an episode with their places: steps that the source lost mark a gap, and of rows with one uid, as of
    a file that was joined to itself, the first is mapped."""
    due, seen = 0, set[str]()
    for place, row in enumerate(rows):
        if (uid := str(row.get("uid"))) in seen:
            listed = row.get("actions_label")
            count = len(listed) if isinstance(listed, list) else 1
            detail = f"uid {uid[:60]} stands twice"
            builder.reject("duplicate", native=row, native_index=place, word=OTHER, detail=detail, items=count)
            continue
        seen.add(uid)
        if (here := logical_index(row)) > due:
            builder.gap("steps_missing_in_source")
        due = here + 1
        yield place, row


def question_of(row: object, items: int) -> str:
    """The task. Raises `RecordError`: bad_value, missing_field, empty_text."""
    if not isinstance(row, Mapping):
        raise RecordError("bad_value", f"expected an object, found {type(row).__name__}", items)
    with refusing(items):
        return stated_text(row, "question", OTHER)


def builder_of(descriptor: Descriptor, record: Record, items: int, outcome: str | None = None) -> EpisodeBuilder:
    """For the rows of an episode. Raises `RecordError`: bad_value without its id, and as `question_of`."""
    question = question_of(record.payload[0], items)
    if record.native_id is None:
        uid = record.payload[0].get("uid")
        raise RecordError("bad_value", f"uid: expected uid_(record or episode)_N_step_N, found {uid!r:.60}", items)
    split, language = split_of_file(record.file), language_of(question)
    return EpisodeBuilder(descriptor, record, instruction=question, split=split, language=language, outcome=outcome)


def language_of(text: str) -> str:
    """zh if the text holds Chinese characters, else en: the source has these two."""
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def screen_of(raw: Raw, file: str, row: Mapping[str, object], *, encoded: bool = True) -> RecordScreen:
    """The screen of a row, by its image id; coordinates are fractions, so its size needn't be known."""
    image_id, size = row.get("image_id"), row.get("image_size")
    data, problem = None, None
    if isinstance(image_id, str):
        try:
            data = picture(raw, file, image_id, encoded=encoded)
        except RecordError as error:
            problem = error.reason
    frame = None
    # Of a picture that isn't there the row still tells the size.
    if data is None and isinstance(size, Mapping):
        frame = whole_sides((size.get("width"), size.get("height")))
    screen = RecordScreen.load(data, frame=frame, normalised=True)
    if problem is None:
        return screen
    return RecordScreen(screen.width_px, screen.height_px, None, None, (), problem)


def picture(raw: Raw, file: str, image_id: str, *, encoded: bool = True) -> bytes | None:
    """The picture of an id from the table beside a data file; None if there is none. Bytes that are no base64 come as
    they are: the decoder then refuses them by name. Raises `RecordError("image_table_unreadable")`."""
    path = raw.path(file.removesuffix(DATA) + IMAGES)
    if not path.is_file():
        return None
    table = _table(path)
    if table is None:
        raise RecordError("image_table_unreadable", path.name)
    if image_id not in table:
        return None
    is_text, data = table.get(image_id)
    # Some tables hold bytes, some base64 in bytes: `encoded` says which.
    if not (encoded or is_text):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return data


@read_once(2)
def _table(path: Path) -> Spill | None:
    """A picture table, streamed once to a temporary file: a row group of gigabytes allows no look-up. None if it
    can't be read, or has other columns than `base64`, `elements` and one of image ids."""
    import pyarrow as pa

    found = Spill()
    try:
        return found if _fill(found, path) else None
    except (pa.ArrowException, OSError):
        return None


def _fill(found: Spill, path: Path) -> bool:
    import pyarrow.parquet as pq

    # Little at a time: tables of gigabytes are read front to back.
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as table:
        names = [name for name in table.schema_arrow.names if name not in ("base64", "elements")]
        if "base64" not in table.schema_arrow.names or len(names) != 1:
            return False
        for batch in table.iter_batches(batch_size=16, columns=[names[0], "base64"]):
            for row in batch.to_pylist():
                value = row["base64"]
                if isinstance(value, str | bytes) and row[names[0]] is not None:
                    is_text = isinstance(value, str)
                    found.put(str(row[names[0]]), is_text, value.encode() if isinstance(value, str) else value)
    return True
