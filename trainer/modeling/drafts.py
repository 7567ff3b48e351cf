"""What a reply most likely says next, as far as its form goes: `<think></think><action>Click(box=(` and the like.

Speculative decoding (Leviathan et al., 2023) without a second model: a pass of the decoder reads the draft, and what is
sampled at each of its places is drawn from the model's own distribution; the reply goes on from the first token that
isn't the draft's. So a draft changes no probability, only the number of passes: three for a click instead of sixteen.

A draft is a pure function of the tokens before it, and ends where a number or a text would stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.modeling.processor import Processor

LONGEST = 10
"""Tokens of a draft."""
CONTEXT = (4, 3, 2)
"""How many tokens before it a draft's next token is looked up by; the longest context that is known decides."""
NUMBER, START = -1, -2
ACTIONS = (
    *("Click(box=(1,1))", "Type(content='')", "Finished(content='')", "Scroll(direction='down')"),
    *("PressEnter()", "PressBack()", "PressHome()", "PressRecent()", "LongPress(box=(1,1))"),
    *("DoubleClick(box=(1,1))", "Hover(box=(1,1))", "Drag(start=(1,1), end=(1,1))"),
    *("Scroll(start=(1,1), end=(1,1))", "Wait()", "CallUser(content='')", "Hotkey(keys=['ctrl','c'])"),
    *("Launch(app='')", "Launch(url='')"),
)
"""Of two that begin alike the first is drafted."""


class Drafts:
    """For one tokenizer. Where numbers aren't single tokens nothing is drafted."""

    def __init__(self, processor: Processor) -> None:
        self._numbers = processor.numbers
        self._next: dict[tuple[int, ...], int] = {}
        if self._numbers is None:
            return
        navigation = [f"<think></think><action>{action}</action><conclusion></conclusion>" for action in ACTIONS]
        for text in (*navigation, "[1,1]"):
            # as many starts as the longest context has tokens, so that a reply's first token has one, too
            ids = [START] * max(CONTEXT) + [self._kind(one) for one in processor.answer(text)]
            for place in range(max(CONTEXT), len(ids)):
                for length in CONTEXT:
                    self._next.setdefault(tuple(ids[place - length : place]), ids[place])
        self._grounding = processor.answer("[1,1]")[:1]

    def _kind(self, token: int) -> int:
        """The token, all numbers being one."""
        return NUMBER if self._numbers is not None and token in self._numbers else token

    def first(self, objective: str) -> list[int]:
        """How a reply of this objective begins."""
        if self._numbers is None:
            return []
        return list(self._grounding) if objective == "grounding" else self.after([])

    def after(self, ids: Sequence[int]) -> list[int]:
        """What comes after these tokens of a reply; [] where nothing is known."""
        before = [START] * max(CONTEXT) + [self._kind(one) for one in ids[-max(CONTEXT) :]]
        draft: list[int] = []
        while len(draft) < LONGEST:
            found = next((one for length in CONTEXT if (one := self._next.get(tuple(before[-length:])))), None)
            # a draft ends where a number would stand: which one is the model's to say
            if found is None or found == NUMBER:
                break
            draft.append(found)
            before.append(found)
        return draft
