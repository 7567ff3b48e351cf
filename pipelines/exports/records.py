"""What is exported: a sample with its pictures, and how formats write its turns."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.store.images import ENDINGS
from pipelines.training_data.chat_turns import Turn
from pipelines.training_data.dataset_card import Group

IMAGE_MARK = "<image>"
"""Where a picture stands, for trainers that take texts with marks instead of parts."""
MARKS = (IMAGE_MARK, "<video>", "<audio>")
"""What such trainers replace wherever it stands: a page's text that holds one must not pass for a picture."""
_CONTROL = re.compile(r"<\|(?=\w+\|>)")
"""The beginning of a control token. Tokenizers make one of any text that spells it: `<|image_pad|>` would count as a
picture, `<|im_end|>` end the turn."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture by its content."""

    data: bytes
    ext: str
    """Ending of its file, without a dot."""

    @property
    def path(self) -> str:
        """Where it lies in exports that keep pictures as files."""
        sha256 = hashlib.sha256(self.data).hexdigest()
        return f"images/{sha256[:2]}/{sha256}.{self.ext}"


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the corpus. `turns` end with the answer; `boxes` in 0..1000; `score` 0 to 10, None if nobody judged
    it; `key` is its id, with a number behind it where a mixture repeats it."""

    key: str
    group: Group
    turns: list[Turn]
    answer: str
    pictures: tuple[Picture, ...]
    boxes: list[list[float]]
    score: int | None
    more: dict[str, object]
    """Columns of the shards that only some forms carry."""
    index: int
    """Place among the rows that are exported together, from 0."""

    @property
    def about(self) -> dict[str, object]:
        """Columns that every format carries beside its own."""
        return {
            "sample_id": self.key.partition("-")[0],
            "source": self.group.source,
            "licence": self.group.licence,
            "objective": self.group.objective,
            "platform": self.group.platform,
            "score": self.score,
        }


def unmarked(text: str, marks: Iterable[str] = MARKS) -> str:
    """A text without marks that a trainer would replace, and without control tokens: `<image>` becomes `< image>`,
    `<|im_end|>` becomes `< |im_end|>`."""
    for mark in marks:
        text = text.replace(mark, f"< {mark[1:]}")
    return _CONTROL.sub("< |", text)


def marked(turn: Turn, marks: Sequence[str] = MARKS) -> str:
    """A turn as one text: `<image>` for a picture, its texts without marks of their own."""
    return "".join(
        IMAGE_MARK if part["type"] == "image" else unmarked(part["text"] or "", marks) for part in turn["content"]
    )


def marked_turns(turns: Sequence[Turn], marks: Sequence[str] = MARKS) -> list[dict[str, str]]:
    """Turns with a text each; see `marked`."""
    return [{"role": turn["role"], "content": marked(turn, marks)} for turn in turns]


def ext_of(name: str) -> str:
    """The ending of a picture's file name, where it is one of ours; else png."""
    ending = name.rpartition(".")[2].lower()
    return ending if ending in ENDINGS else "png"
