"""Answers by content, read out of the model's book and checked like fresh ones.

Only complete, valid answers come here, each in the same transaction as its bill (`spending.AnswerBook.book`). A damaged
entry, as its digest shows, reads as missing and is asked again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.store.files import StoreError, require_as_sealed, sealed
from quality.model_client.questions import Garbage, Usage, read_answer


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """A stored answer: its fields, and what it cost altogether, with the unusable answers before it."""

    fields: dict[str, Any]
    usage: Usage

    def text(self) -> str:
        plain = {"answer": self.fields, "usage": [self.usage.prompt_tokens, self.usage.completion_tokens]}
        return sealed(json.dumps(plain, ensure_ascii=False, sort_keys=True))


def read_entry(text: str | None, schema: Mapping[str, object]) -> CachedAnswer | None:
    """Stored text → entry; None if there is none, or it isn't of the schema."""
    if text is None:
        return None
    try:
        require_as_sealed(text, "answer")
        plain = json.loads(text)
        prompt, completion = map(int, plain["usage"])
        return CachedAnswer(read_answer(json.dumps(plain["answer"]), schema), Usage(prompt, completion))
    except (Garbage, StoreError, KeyError, TypeError, ValueError):
        return None
