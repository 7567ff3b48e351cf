"""Rico's screens by id: picture, view hierarchy, canvas, and the lists of screens that are held out.

Many sources annotate Rico screens and name them by id. The companion folder `rico` holds `combined/<id>.jpg` and
`combined/<id>.json`, and may hold `split/{train,dev,test}.txt` (an id a line): screens that the benchmarks on Rico hold
out. `listed_split` reads such lists there and in a source's own folder, so a source without a split can honour them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Raw, RecordError
from pipelines.mapping.items import ItemError, SplitListError, read_once, whole_number
from pipelines.native.named_boxes import unit_box
from schemas.coordinates import ScreenBox

COMPANION = "rico"
SPLIT_LISTS = "split/*.txt"
"""In the raw folder, for `Adapter.side_lists`."""
CANVAS = (1440, 2560)
"""Width and height that a view hierarchy's `bounds` count in, whatever the size of the picture."""

_ID = re.compile(r"([0-9]{1,12})(?:\.0)?")
_FILE = re.compile(r"(?:[^\0]*/)?([0-9]{1,12})\.(?:jpg|jpeg|png)", re.IGNORECASE)
_LISTS = {"test": ("test",), "validation": ("dev", "val", "validation"), "train": ("train",)}  # the first wins


def screen_id(value: object, items: int | None = None) -> str:
    """A screen's id as text. Raises `RecordError("unsafe_path")` unless it is a number, so that it can name a file."""
    text = value if isinstance(value, str) else str(whole_number(value))
    found = _ID.fullmatch(text)
    if found is None:
        raise RecordError("unsafe_path", f"screen id: expected a number, found {value!r:.60}", items)
    return found[1]


def id_of_file(name: str) -> str | None:
    """`combined/123.jpg` → "123"; None if a picture's name is no id."""
    match = _FILE.fullmatch(name)
    return match.group(1) if match else None


def picture(raw: Raw, identifier: str) -> bytes | None:
    """The screen's picture, or None if it (or the companion) isn't there."""
    return raw.read_if_there(f"combined/{identifier}.jpg", COMPANION)


def file_split(file: str) -> str:
    """The split that a file's name says: `dev…`, `val…` → validation, `test…` → test, else train."""
    name = file.rpartition("/")[2].lower()
    return "validation" if name.startswith(("val", "dev")) else "test" if name.startswith("test") else "train"


def listed_split(raw: Raw, identifier: str) -> str | None:
    """The split of a screen by the lists in `split/` of the raw folder and of the companion: test wins over validation,
    validation over train; None if no list names it. Raises `SplitListError` on a list that isn't one of ids."""
    companions = (None, COMPANION) if COMPANION in raw.companions else (None,)
    for split, names in _LISTS.items():
        for name in names:
            for companion in companions:
                for file in (f"split/{name}.txt", f"split/{name}_screens.txt"):
                    if raw.is_there(file, companion) and identifier in _ids(raw.path(file, companion)):
                        return split
    return None


@read_once(32)
def _ids(path: Path) -> frozenset[str]:
    try:
        ids = path.read_text(encoding="utf-8-sig").split()
    except ValueError as error:
        raise SplitListError(f"{path.name}: {error}") from error
    # A list of anything else would let test screens into training.
    try:
        return frozenset(map(screen_id, ids))
    except RecordError as error:
        raise SplitListError(f"{path.name}: expected an id a line: {error}") from error


def hierarchy(raw: Raw, identifier: str, items: int | None = None) -> dict[str, object]:
    """Root node of a screen's view hierarchy. Raises `RecordError`: `missing_file`, `bad_json`, `missing_field`."""
    data = raw.read_if_there(f"combined/{identifier}.json", COMPANION)
    if data is None:
        raise RecordError("missing_file", f"no view hierarchy of screen {identifier} in {COMPANION}", items)
    try:
        root = json.loads(data)["activity"]["root"]
    except (KeyError, TypeError) as error:
        raise RecordError("missing_field", "expected activity.root in the view hierarchy", items) from error
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_json", f"view hierarchy of screen {identifier}: {error}", items) from error
    if not isinstance(root, dict):
        raise RecordError("missing_field", "activity.root is no object", items)
    return root


def node(root: Mapping[str, object], path: str, word: str) -> Mapping[str, object]:
    """The node at "0.1.2": the first number is the root itself, the others count children (which may be null).

    Raises `ItemError("no_target")` if the way ends before, `bad_value` for a path that isn't numbers and points."""
    # Numbers of a bounded length: a path comes from a file that others wrote.
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})*", path):
        raise ItemError("bad_value", f"node id {path!r:.60}: expected numbers joined by points", word)
    found: Any = root
    for number in path.split(".")[1:]:
        children = found.get("children")
        found = children[int(number)] if isinstance(children, list) and int(number) < len(children) else None
        if not isinstance(found, dict):
            raise ItemError("no_target", f"the view hierarchy has no node {path}", word)
    return found  # type: ignore[no-any-return]


def canvas_box(bounds: object, word: str) -> ScreenBox:
    """left, top, right, bottom on the canvas → 0..1000. Raises as `named_boxes.unit_box`."""
    return unit_box(bounds, CANVAS, word)
