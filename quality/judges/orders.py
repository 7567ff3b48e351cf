"""Text that speaks to a judge is cut off before the nano judge reads an item, so it can't move a score by a bit.

The nano judge reads text as overlaps and embeddings; every added word would move those a little. What follows the first
order to a judge or model isn't part of a task and is left out, in instructions, thoughts, typed text and on screens. An
order in words that aren't known here still has no way to name a score: it only makes a text fit its trace less.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pipelines.prompts import messages, prompt_text
from quality.items.item import Episode, Item, Row, rebanked
from quality.items.screens import BankView, Element
from schemas.action_types import CallUser, Finished, Type
from schemas.actions import format, parse

_ORDER = re.compile(
    r"""
    \b(ignore|disregard|forget|override|bypass)\b [^.!?\n]{0,60}
        \b(rubric|instruct\w*|rules?|prompt|previous|prior|above|guideline\w*|criteri\w*|polic\w*)\b
    | \b(system|assistant|developer|admin)\s*(prompt|message)\s*[:>]
    | (?-i:\b(SYSTEM|ASSISTANT|DEVELOPER|ADMIN)\s*:)
    | </?\s*(system|data|instructions?|im_start|im_end)\b | <\|\w+\|>
    | \b(you\s+are\s+(now\s+)?|act\s+as\s+)(in\s+)?(an?\s+|the\s+)?(judge|grader|evaluator|auditor?|rater|audit)\b
    | \b(give|assign|award|output|return|answer|reply|rate|grade|score|mark)\b [^.!?\n]{0,40}
        \b((scores?|alignment|reachability)\s*(of|as|to|is|=|:)?\s*\d+
        |(perfect|full|high(est)?|max(imum|imal)?|top)\s+(score|marks?|rating|alignment|reachability)
        |10\s*/\s*10|ten\s+out\s+of\s+ten|an?\s+10(?=\s*($|[.!?,;\n])))
    | (忽略|无视|忘记).{0,20}(评分|规则|指令|标准|提示|以上) | (给|打).{0,6}(满分|10分|十分)
    """,
    re.IGNORECASE | re.VERBOSE,
)


EPISODE_TEXTS = ("instruction", "step_instruction", "thought", "action_text")
SAMPLE_TEXTS = ("messages", "answer")


def without_orders(text: str) -> str:
    """The text up to the first order to a judge or model."""
    found = _ORDER.search(text)
    return text if found is None else text[: found.start()].rstrip(" ,;:-–—\"'\n")


class QuietBank(BankView):
    """A bank's screens without orders in their elements."""

    def elements(self, sha256: str) -> list[Element]:
        found = []
        for element in self._bank.elements(sha256):
            text, name = without_orders(element.text), without_orders(element.name)
            if text or name or not element.label:  # an element that says nothing but an order isn't one
                found.append(Element(element.box, element.role, text, name))
        return found


def heard(item: Item, banks: dict[int, QuietBank]) -> Item:
    """The item as the nano judge reads it. `banks` keeps one quiet bank for each bank met."""
    bank = banks.setdefault(id(item.bank), QuietBank(item.bank))
    names = EPISODE_TEXTS if isinstance(item, Episode) else SAMPLE_TEXTS
    return rebanked(item, bank, lambda row: _quiet(row, names))


def _quiet(row: Row, names: tuple[str, ...]) -> Row:
    changed = {}
    for name in names:
        text = row.get(name)
        if text and _ORDER.search(text):
            changed[name] = _reworded(name, text, row)
    return {**row, **changed} if changed else row


def _reworded(name: str, text: str, row: Row) -> str:
    """A column's text without orders, still readable as what the column holds."""
    if name == "action_text":
        action = parse(text)
        if isinstance(action, Type | Finished | CallUser):
            return format(replace(action, content=without_orders(action.content)))
        return text
    if name == "messages":
        return messages(row["objective"], without_orders(prompt_text(text)) or "?", len(row["images"] or ()))
    return without_orders(text)
