"""Screens whose source names boxes on them: one list of (name, box, kind) → counted samples.

A name that stands on one place of its screen gives a grounding sample and, where the name is what is drawn, a sample
that asks what is at the place. A name that stands on several places gives only the latter: which one is meant can't be
said, so the native element is counted as lossy (`ambiguous_name`). A box that can't be is rejected, alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.adapter import Mapped, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.items import ItemError, is_number, is_text, notices, plain_number, unknown_fields
from schemas.coordinates import OffScreen, ScreenBox, screen_box

AMBIGUOUS = "ambiguous_name"


@dataclass(frozen=True, slots=True)
class Named:
    """An element that can be used. `box` in 0..1000; `drawn`: whether the name is a text that the screen shows."""

    name: str
    box: tuple[float, float, float, float]
    word: str
    role: str = ""
    drawn: bool = True


Read = Callable[[Any], Named]
"""A native element → `Named`. Raises `ItemError`."""


def unit_box(value: object, size: tuple[float, float], word: str) -> ScreenBox:
    """left, top, right, bottom in a frame of (width, height) → 0..1000. Raises `ItemError`: bad_box, off_screen.

    What hangs over by a little is cut off (`schemas.coordinates.screen_box`).
    """
    numbers: list[Any] = [plain_number(side) for side in value] if isinstance(value, list | tuple) else []
    if len(numbers) != 4 or not all(map(is_number, numbers)):
        raise ItemError("bad_box", f"expected four numbers, found {value!r:.80}", word)
    left, top, right, bottom = (float(number) for number in numbers)
    if not (left < right and top < bottom):
        raise ItemError("bad_box", f"{numbers}: expected left < right and top < bottom", word)
    try:
        return screen_box((left, top, right, bottom), size)
    except (OffScreen, ValueError) as error:
        raise ItemError("off_screen", str(error), word) from error


def read_elements(
    listed: Sequence[object], read: Read, known: frozenset[str], word: str = ""
) -> tuple[list[tuple[int, Named]], list[tuple[int, object, ItemError]], list[tuple[str, str, object]]]:
    """(usable, failed, notices of unknown keys), each with its place in the native list. With a `word`, what is no
    object fails under it before it is read."""
    good: list[tuple[int, Named]] = []
    failed: list[tuple[int, Any, ItemError]] = []
    new: dict[str, tuple[str, str, Any]] = {}
    for index, element in enumerate(listed):
        try:
            if word and not isinstance(element, Mapping):
                raise ItemError("bad_value", f"expected an object, found {type(element).__name__}", word)
            named = read(element)
            # Here once for all adapters.
            if not named.name.strip():
                raise ItemError("empty_text", "the element has no name", named.word)
            if not is_text(named.name):
                raise ItemError("bad_value", "the name is not Unicode text", named.word)
            good.append((index, named))
        except ItemError as error:
            failed.append((index, element, error))
        if isinstance(element, Mapping):
            # One notice a reason, not one an element.
            new |= {reason: (reason, detail, native) for reason, detail, native in unknown_fields(element, known)}
    return good, failed, list(new.values())


def screen_elements(found: Sequence[tuple[int, Named]]) -> list[dict[str, object]]:
    """The same as elements of a screen: the text only where it is drawn."""
    return [
        {"box": list(one.box), "role": one.role, "text": one.name if one.drawn else "", "name": one.name}
        for _, one in found
    ]


def emit(
    builder: SampleBuilder,
    screen: RecordScreen,
    good: Sequence[tuple[int, Named]],
    failed: Sequence[tuple[int, object, ItemError]],
    new: Sequence[tuple[str, str, object]] = (),
) -> Mapped:
    """Samples and rejects of one screen, in native order."""
    for index, element, error in failed:
        builder.reject(error.reason, native=element, native_index=index, word=error.word, detail=error.detail)
    # The same name at the same place is one element, listed twice.
    places = Counter((name, box) for name, box in _places(good))
    names = Counter(name for name, _ in places)
    for index, one in good:
        # A name that several places bear points at none of them.
        if names[_folded(one.name)] == 1:
            builder.grounding(one.name, one.box, screen, index, one.word)
            if one.drawn:
                # What isn't drawn can't be read off the screen.
                builder.region(one.name.strip(), one.box, screen, index, one.word, k=1, count=False)
        else:
            builder.region(one.name.strip(), one.box, screen, index, one.word, k=1, lossy=True, rules=[AMBIGUOUS])
    return notices(builder.finish(), new)


def _places(good: Sequence[tuple[int, Named]]) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    yield from ((_folded(one.name), one.box) for _, one in good)


def _folded(name: str) -> str:
    # As a person would compare them.
    return " ".join(name.casefold().split())
