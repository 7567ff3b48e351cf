"""Text that speaks to a judge is left out before the rules or the nano judge read an item, so it can't move a score.

Both compare texts with each other, and the nano judge reads them as overlaps and embeddings; every added word would
move those a little. What follows the first order to a judge or model isn't part of a task and is left out, in
instructions, thoughts, typed text and on screens; where the order comes first, what follows it stands. An order in
words that aren't known here still has no way to name a score: it only makes a text fit its trace less.
"""

import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from quality.evidence.stated_actions import without_quotes
from quality.evidence.word_lists import sections_of

_WORDS = sections_of(Path(__file__).with_suffix(".txt"))
_ORDER = re.compile("\n".join(_WORDS["orders"]), re.IGNORECASE | re.VERBOSE)
_HINTS = _WORDS["hints"]
"""One of these stands in every order: most texts and screens hold none, and looking costs a fiftieth of the search."""
_END = re.compile(r"[.!?]+(?:\s+|$)|[\n。！？]+\s*")


@lru_cache(maxsize=8192)
def speaks(text: str) -> bool:
    """Whether a text of a row holds an order; the rows of an episode share its instruction."""
    if may_order(text) and _ORDER.search(text) is not None:
        return True
    shown = as_shown(text)
    return shown != text and may_order(shown) and _ORDER.search(shown) is not None


def as_shown(text: str) -> str:
    """A text in compatibility forms and without characters that nobody sees."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def may_order(text: str) -> bool:
    return any(map(text.casefold().__contains__, _HINTS))


@lru_cache(maxsize=8192)
def without_orders(text: str) -> str:
    """The text up to the sentence of the first order to a judge or model, and of one that holds a task too, up to the
    order. Where nothing stands before it: the text behind the sentence of the last order."""
    orders = list(_ORDER.finditer(text)) if may_order(text) else []
    if not orders:
        # letters of other widths and marks that nobody sees hide an order from patterns, not from a model
        shown = as_shown(text)
        return without_orders(shown) if shown != text and speaks(shown) else text
    before = text[: orders[0].start()]
    sentences = [end.end() for end in _END.finditer(without_quotes(before))]
    # The whole sentence with the order, where something stands before it; else what stands before the order
    # itself.
    whole = before[: sentences[-1]] if sentences else ""
    for kept in (_trimmed(whole), _trimmed(before)):
        if any(char.isalnum() for char in kept):
            return kept
    ended = _END.search(text, orders[-1].end())
    return text[ended.end() :].strip() if ended else ""


def _trimmed(text: str) -> str:
    """Text without the marks that led to what was cut off; of quotes only one that it opens and doesn't close."""
    end, unclosed = len(text), {mark for mark in "\"'" if text.count(mark) % 2}
    # A quote that was opened just before the cut goes with what it would have held.
    while end and (text[end - 1] in " ,;:-–—\n" or text[end - 1] in unclosed):
        unclosed.discard(text[end - 1])
        end -= 1
    return text[:end]
