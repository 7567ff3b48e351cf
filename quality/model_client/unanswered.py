"""Questions that a model can't answer though it answers others: refused every time, or answered with garbage.

Whose fault it is shows only afterwards: a server that was set up wrong refuses everything, and an ill one talks garbage
to everybody. So such a question is held until the endpoint has given a valid answer to another one; if none follows by
itself, a control question about nothing is asked. Then it is kept like an answer, and isn't asked again until people
say so (`ask_again`). Without that proof it stays an error, and nothing is kept.
"""

import json
import threading
from collections.abc import Iterable, Mapping

from quality.model_client.errors import ModelError
from quality.model_client.questions import NoAnswer, Request, VerdictCost
from quality.model_client.spending import AnswerBook

CONTROL_VERSION = "control-1"


class Unanswerable(ModelError):
    """A question that the model can't answer."""

    def __init__(self, message: str, found: NoAnswer) -> None:
        super().__init__(message)
        self.found = found


def control_request(request: Request) -> Request:
    """A question about nothing, to be answered in the same form."""
    text = "This is a control question: there is nothing to judge, any valid answer will do."
    return Request(CONTROL_VERSION, "Answer with JSON of the given schema only.", text, (), request.schema)


def entry_text(found: NoAnswer, ask_again: int) -> str:
    """How it stands in the book, in the place of an answer."""
    usage = [found.cost.prompt_tokens, found.cost.completion_tokens]
    plain = {"no_answer": found.said, "ask_again": ask_again, "usage": usage}
    return json.dumps(plain, ensure_ascii=False, sort_keys=True)


def read_no_answer(text: str | None, ask_again: int) -> NoAnswer | None:
    """Stored text → what it says; None if it is an answer, or nothing, or people have asked for another try since."""
    try:
        plain = json.loads(text or "")
        if int(plain["ask_again"]) < ask_again:
            return None
        prompt, completion = map(int, plain["usage"])
        return NoAnswer(str(plain["no_answer"]), VerdictCost(prompt, completion, 0.0, cached=True))
    except (KeyError, TypeError, ValueError):
        return None


class UnansweredQuestions:
    """Questions without an answer, until something proves whose fault that is; safe to use from several threads."""

    def __init__(self, book: AnswerBook, ask_again: int) -> None:
        self._book, self._ask_again = book, ask_again
        self._held: dict[str, NoAnswer] = {}
        self._proved: set[str] = set()
        self._lock = threading.Lock()

    def hold(self, key: str, found: NoAnswer) -> None:
        """Keep a question in mind until the endpoint answers another one."""
        with self._lock:
            self._held[key] = found

    def prove(self) -> None:
        """The endpoint has answered: what is held was the questions' own fault, and goes into the book."""
        with self._lock:
            held, self._held = self._held, {}
            self._proved |= set(held)
        for key, found in held.items():
            self._book.keep(key, entry_text(found, self._ask_again))

    def doubtful(self, found: Mapping[str, object]) -> dict[str, NoAnswer]:
        """Those of the answers `found` that say there is none, and that nothing has proved."""
        left = {key: one.found for key, one in found.items() if isinstance(one, Unanswerable)}
        with self._lock:
            return {key: one for key, one in left.items() if key not in self._proved and not one.cost.cached}

    def drop(self, keys: Iterable[str]) -> None:
        """Forget questions: the endpoint didn't answer the control question either."""
        with self._lock:
            for key in keys:
                self._held.pop(key, None)
