"""Codecs of actions: how the action of a reply is written where tokens are counted, and read back.

A codec is a pair of functions from the text of an action to another text and back. The corpus, prompts, rewards and
worlds know one text alone (`schemas.actions`); the codec of a checkpoint's preset stands where an answer becomes tokens
and where tokens become a reply (`Processor.answer`, `Processor.text`). `coding` makes exact inverses of any such pair.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ActionTexts:
    """`write`: an action's text → the codec's, or None where it has none; `read`: back, or None where it wrote none."""

    write: Callable[[str], str | None]
    read: Callable[[str], str | None]
