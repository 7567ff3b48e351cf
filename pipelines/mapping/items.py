"""What adapters share: an item that can't be mapped, notices beside the items, the box under a point, split lists."""

import base64
import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from pipelines.mapping.adapter import Mapped, Raw, RejectedUnit
from pipelines.mapping.record_error import RecordError, SourceError
from schemas.actions import Action
from schemas.coordinates import OffScreen, contains

T = TypeVar("T")
MIN_BASE64 = 90
"""Letters of base64 below which there is no picture: the smallest PNG has 67 bytes."""
_NUMERAL = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")


class ItemError(ValueError):
    """One native action that can't be mapped: reason, detail, and the native word it is counted under."""

    def __init__(self, reason: str, detail: str = "", word: str = "?") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.word = word


@contextmanager
def bad_values(word: str) -> Iterator[None]:
    """What is refused within, such as a value that no action can have, is an `ItemError` of the word."""
    try:
        yield
    except ItemError:
        raise
    except OffScreen as error:
        raise ItemError("off_screen", str(error), word) from error
    except ValueError as error:
        raise ItemError("bad_value", str(error)[:200], word) from error


@contextmanager
def refusing(items: int) -> Iterator[None]:
    """What is refused within costs the whole record, with so many native items. Raises `RecordError`."""
    try:
        yield
    except (ItemError, RecordError) as error:
        raise RecordError(error.reason, error.detail, items) from error


def picture_bytes(cell: object) -> bytes | None:
    """The encoded picture of a cell: `{"bytes": ..., "path": ...}` as `datasets` writes it; or as other tools do, a
    plain binary column, its bytes as numbers, base64 (behind `data:…,` or not), a list of one of these; None if it
    holds none."""
    data = cell.get("bytes") if isinstance(cell, Mapping) else cell
    if isinstance(data, list) and len(data) == 1:
        return picture_bytes(data[0])
    with contextlib.suppress(ValueError, TypeError):  # a text that is no base64, numbers that are no bytes
        if isinstance(data, bytes | bytearray | list):
            return bytes(data) or None
        # A short text is a name, and every name of letters could be base64.
        if isinstance(data, str) and len(data) >= MIN_BASE64:
            head, comma, rest = data[:100].partition(",")
            coded = data[len(head) + 1 :] if comma and head.startswith("data:") else data
            return base64.b64decode("".join(coded.split()), validate=True)
    return None


def smallest_box(elements: Sequence[Mapping[str, Any]], action: Action) -> list[float] | None:
    """Box of the smallest element that holds the action's point (the first of equal ones); None if there is none."""
    point = getattr(action, "box", None)
    if point is None:
        return None
    # The point of a click lies in its button, in the bar around it and in the page: the innermost is what was
    # meant.
    holding = [element["box"] for element in elements if contains(element["box"], point)]
    return min(holding, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]), default=None)


def is_text(value: str) -> bool:
    """Whether a string is Unicode text: JSON can smuggle in lone surrogates, which no table can hold."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def plain_number(value: object) -> object:
    """A number that a tool wrote as text ("200") as the number; anything else as it is."""
    return float(value) if isinstance(value, str) and _NUMERAL.fullmatch(value) else value


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value of JSON is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def optional_text(value: object) -> str | None:
    """A Unicode text that says something; None of anything else."""
    return value if isinstance(value, str) and value.strip() and is_text(value) else None


def text_of(holder: object, name: str, word: str) -> str:
    """The text under a name, as it stands. Raises `ItemError`: missing_field without one, bad_value for one that is no
    Unicode, empty_text for a blank one."""
    value = holder.get(name) if isinstance(holder, Mapping) else None
    if not isinstance(value, str):
        raise ItemError("missing_field", f"{name}: expected a text, found {value!r:.60}", word)
    if not is_text(value):
        raise ItemError("bad_value", f"{name}: not Unicode text", word)
    if not value.strip():
        raise ItemError("empty_text", name, word)
    return value


def list_of(holder: object, name: str) -> list[Any]:
    """The list under a name that a whole record needs. Raises `RecordError`: missing_field."""
    value = holder.get(name) if isinstance(holder, Mapping) else None
    if not isinstance(value, list):
        raise RecordError("missing_field", f"{name}: expected a list, found {value!r:.60}")
    return value


def notices(mapped: Mapped, found: Sequence[tuple[str, str, object]]) -> Mapped:
    """Put (reason, detail, native) lines into the quarantine that cost no native item: something beside the actions
    that was not mapped (an unseen column, a broken tree, missing steps) is named, counted and stored there whole."""
    mapped.rejects.extend(RejectedUnit("record", 0, reason, detail, native) for reason, detail, native in found)
    return mapped


def unknown_fields(payload: Mapping[str, object], known: frozenset[str]) -> list[tuple[str, str, object]]:
    """A notice for each field that the source's page doesn't know."""
    return [
        (f"unknown_field:{name[:60]}", "the row is mapped without it", {name: payload[name]})
        # Sorted, as the order of keys in a payload is no property of the data.
        for name in sorted(set(payload) - known)
    ]


def split_of(raw: Raw, name: str, episode_id: str) -> str | None:
    """The split of an episode by a list `{train|validation|test: [ids]}` in file `name` of the raw folder; None if
    there is no such file or the id isn't in it; test wins over the others. Raises `SplitListError` on a file that
    isn't such a list: training on test episodes by a typing error must not be possible."""
    return split_lists(raw, name).get(episode_id)


def split_lists(raw: Raw, name: str) -> Mapping[str, str]:
    """{episode id: split} of file `name` of the raw folder; empty if there is none (see `split_of`)."""
    return read_splits(raw.path(name))


def read_once(
    files: int, absent: Callable[[], Any] | None = None
) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
    """A function of a file's path that remembers what it read of the last `files` files, by time of change and size: an
    edited file is read again. `absent` makes what is read where there is no file; without it that is an `OSError`."""

    def decorate(read: Callable[[Path], T]) -> Callable[[Path], T]:
        # Keyed by time and size as well as path, which is how an edited file is noticed.
        @functools.lru_cache(maxsize=files)
        def remembered(path: Path, mtime_ns: int, size: int) -> T:
            return read(path)

        @functools.wraps(read)
        def of(path: Path) -> T:
            if absent is not None and not path.is_file():
                return absent()  # type: ignore[no-any-return]
            stat = path.stat()
            return remembered(path, stat.st_mtime_ns, stat.st_size)

        return of

    return decorate


_SPLIT_NAMES = {"train": "train", **dict.fromkeys(("validation", "valid", "val", "dev"), "validation")}


@read_once(8, dict)
def read_splits(path: Path) -> dict[str, str]:
    """Episode id → split, of the lists in a file by their names: one of a name that isn't known is held out as a test.
    Raises `SplitListError`."""
    try:
        lists = json.loads(path.read_bytes())
        found: dict[str, str] = {}
        tests = [name for name, listed in lists.items() if name not in _SPLIT_NAMES and isinstance(listed, list)]
        # Tests come last and overwrite: an id in two lists must not train.
        for name in (*_SPLIT_NAMES, *tests):
            found |= {id_text(episode): _SPLIT_NAMES.get(name, "test") for episode in lists.get(name, [])}
    except (ValueError, AttributeError, TypeError) as error:
        raise SplitListError(f"{path.name}: expected an object of train, validation, test lists: {error}") from error
    if not found:
        raise SplitListError(f"{path.name}: expected lists train, validation, test; found none of them")
    return found


@read_once(16)
def tests_of(path: Path) -> frozenset[str]:
    """What a list `{"test": [names], …}` in a file tests on. Raises `SplitListError`."""
    try:
        return frozenset(map(id_text, json.loads(path.read_bytes())["test"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SplitListError(f"{path.name}: expected an object with a list named test: {error}") from error


class SplitListError(SourceError):
    """A split list that can't be read. Not a `ValueError`: it must stop the run, not quarantine one record."""


@dataclass(frozen=True, slots=True)
class NumberedStep:
    """A step of a source that numbers its steps. `after_gap`: a number before it is missing; `repeated`: the step
    before has the same number."""

    step: Any
    after_gap: bool = False
    repeated: bool = False


def whole_number(value: object) -> int | None:
    """An int, or a float that is whole, as tools write numbers of a column that once held nulls; None of anything
    else."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def id_text(value: object) -> str:
    """An id as text: 7 and 7.0, as tools write numbers of a column that once held nulls, are the id "7"."""
    whole = whole_number(value)
    return str(value if whole is None else whole)


def by_number(steps: Sequence[object], name: str) -> list[NumberedStep]:
    """The steps of an episode in the order of their numbers (the field `name`), which begin at 0 or 1 and may be
    written as text; in the order of the file where one of them has no number."""
    numbers = [plain_number(step.get(name)) if isinstance(step, Mapping) else None for step in steps]
    known = [whole for number in numbers if (whole := whole_number(number)) is not None and whole >= 0]
    # One step without a number, and the order of the numbers says nothing about it.
    if len(known) < len(steps):
        return [NumberedStep(step) for step in steps]
    found: list[NumberedStep] = []
    before = 0
    # By place where numbers are equal, so that the first stays the first.
    for number, place in sorted(zip(known, range(len(steps)), strict=True)):
        ahead = number - before
        # Numbers begin at 0 or 1, so the first step lies after a gap only from 2 on.
        found.append(NumberedStep(steps[place], ahead > 1, bool(found) and ahead == 0))
        before = number
    return found
