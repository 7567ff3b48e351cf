"""Which pieces of a raw file (lines, rows, elements, frames) a withdrawn record may stand in: ways to try, best first.

None is trusted: `raw_files` proves each with the source's adapter, and takes the first that leaves exactly the other
records.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence

Cut = Callable[[int, bytes], bool]
"""(number, bytes of a line, row, element or frame) → whether it goes."""
Place = tuple[str, str]
"""(native id, locator) of a record."""
MOST_READS = 400
"""Subsets of a file that `search` reads at most."""


def ways(gone: Sequence[Place], others: Sequence[str]) -> Iterator[Cut]:
    """By the ids as they may be written; by the numbers that the locators tell, counted from 0, 1 or 2 (a heading is a
    line); from there up to where the next record begins; by the keys that they tell. `others`: locators of what stays.
    """
    ids = [name for name, _ in gone]
    written = [text.encode() for name in ids for text in {name, json.dumps(name), json.dumps(name)[1:-1]} if name]
    # As whole words: an id within a longer one is another record.
    whole = re.compile(rb"(?<![0-9A-Za-z_])(?:" + b"|".join(map(re.escape, written)) + rb")(?![0-9A-Za-z_])")
    yield lambda number, data: whole.search(data) is not None
    fields = [b"\n" + _varint(len(name.encode())) + name.encode() for name in ids]  # a bytes feature of an Example
    yield lambda number, data: any(one in data for one in fields)
    numbers = [number for _, locator in gone if (number := _number(locator)) is not None]
    if len(numbers) == len(gone):
        named = set(numbers)
        # Up to the next record's number, whichever record that is.
        ends = sorted({*named, *(number for one in others if (number := _number(one)) is not None)})
        spans = [(first, next((end for end in ends if end > first), None)) for first in sorted(named)]
        for base in range(3):
            yield lambda number, data, base=base: number + base in named  # type: ignore[misc]
        for base in range(3):
            yield lambda number, data, base=base: any(  # type: ignore[misc]
                first <= number + base and (end is None or number + base < end) for first, end in spans
            )
    keys = [json.dumps([locator])[:-1].encode() + b"," for _, locator in gone]
    yield lambda number, data: data.startswith(tuple(keys))


def _number(locator: str) -> int | None:
    found = re.findall(r"\d+", locator)
    return int(found[-1]) if found else None


def search(numbers: Sequence[int], ids_in: Callable[[Collection[int]], set[str]], gone: Collection[str]) -> set[int]:
    """Pieces that give a withdrawn record when they are read without the others, found by halving. `ids_in` reads some
    pieces alone. Empty if that takes too many readings."""
    found: set[int] = set()
    waiting, reads = [list(numbers)], 0
    while waiting:
        some = waiting.pop()
        reads += 1
        # Reading takes long; past the limit the file is reported instead of cut.
        if reads > MOST_READS:
            return set()
        if ids_in(some).isdisjoint(gone):
            continue
        if len(some) == 1:
            found |= set(some)
        else:
            # A record may need several pieces, so both halves are looked at.
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
    return found


def _varint(number: int) -> bytes:
    """As protocol buffers write a length."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
