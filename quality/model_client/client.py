"""One way to ask a model that speaks the OpenAI protocol: schema, cache, retries, limits, ceiling, breaker, bill.

A few event loops send at most `concurrency` calls at a time altogether; the next one leaves the moment one ends,
whichever question, item or part it belongs to, and a question that waits to be tried again holds no place. Every call
ends by its deadline, also against a server that drips bytes. `Retry` is the only policy.

Only complete, valid answers are cached, by content (`Request.key`), before anything else happens with them: so a
question answered once is never asked again, and an unchanged rerun sends nothing. Equal questions are asked once. A
failure is never an answer: after its last attempt a request raises `ModelError`, and a dead endpoint stops all others.
What it can't answer though it answers others (`unanswered`) has a `NoAnswer`, and isn't asked again by itself.
What a night's `Ceiling` leaves no room for has no answer (None) and is asked another night.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quality.model_client.batch_form import BatchForm
from quality.model_client.calls import Engine
from quality.model_client.endpoint import ModelEndpoint
from quality.model_client.errors import ModelError
from quality.model_client.prices import Prices
from quality.model_client.questions import (
    CheckedAnswer,
    Garbage,
    NoAnswer,
    Request,
    RequestPicture,
    data_block,
    read_answer,
)
from quality.model_client.rate_limit import RateLimits
from quality.model_client.retry import Retry
from quality.model_client.spending import Ceiling, CeilingReached, Spent
from quality.model_client.unanswered import Unanswerable

__all__ = [
    "Ceiling",
    "CeilingReached",
    "CheckedAnswer",
    "Garbage",
    "ModelClient",
    "NoAnswer",
    "Prices",
    "RateLimits",
    "Request",
    "RequestPicture",
    "Retry",
    "Unanswerable",
    "data_block",
    "read_answer",
]


class ModelClient:
    """Asks a model; safe to use from several threads.

    `base_url` and `model` name the endpoint; the key is that of `keys.key_for` and never
    written anywhere. `cache` is a folder on a local disk, usually `$VESPER_HOME/cache/judge`; it holds the book of
    answers and bills. Processes that share it share rate limits and ceiling; without it both hold for this
    client alone. `ask_again`: raise it to have what had no answer asked once more. `batch`: ask by /batches, whose
    answers come within a day.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        cache: Path | None,
        *,
        retry: Retry | None = None,
        concurrency: int = 32,
        max_tokens: int = 400,
        limits: RateLimits | None = None,
        prices: Prices | None = None,
        ceiling: Ceiling | None = None,
        ask_again: int = 0,
        batch: BatchForm | bool = False,
    ) -> None:
        self.model = model
        self.retry = retry or Retry()
        self.prices = prices or Prices()
        self.ceiling = ceiling or Ceiling()
        self.ask_again = ask_again
        form = BatchForm() if batch is True else batch or None
        self._endpoint = ModelEndpoint(
            base_url, model, cache, self.retry, concurrency, max_tokens, limits, self.ceiling, ask_again, form
        )
        self._sent_before = 0
        self._engine: Engine | None = None
        self._starting = threading.Lock()

    @property
    def requests_sent(self) -> int:
        """Calls that left for the endpoint since this was made; answers from the cache aren't among them."""
        return self._sent_before + (self._engine.sent if self._engine is not None else 0)

    @property
    def asks_by_batch(self) -> bool:
        """Whether questions wait for a batch, so that many parts should be under way at once."""
        return self._endpoint.batch is not None

    def ask_all(self, requests: Sequence[Request]) -> list[CheckedAnswer | NoAnswer | None]:
        """Answers in order, None for those that the ceiling leaves for another night, `NoAnswer` for those that the
        model can't answer though it answers others.

        Every request is tried (so that all complete answers are cached) unless the endpoint is dead; raises
        `ModelError` with the first failure and their number if the endpoint failed.
        """
        if not requests:
            return []
        results = self._started().ask_many(requests)
        failures = [result for result in results if isinstance(result, ModelError)]
        failures = [failure for failure in failures if not isinstance(failure, CeilingReached | Unanswerable)]
        # Once the endpoint is dead, every failure says so; which question was first says nothing.
        if failures and (dead := self._started().breaker.dead):
            raise ModelError(dead)
        if failures:
            raise ModelError(f"{len(failures)} of {len(requests)} requests failed; the first: {failures[0]}")
        plain = [result.found if isinstance(result, Unanswerable) else result for result in results]
        return [result if isinstance(result, CheckedAnswer | NoAnswer) else None for result in plain]

    def ask(self, request: Request) -> CheckedAnswer:
        """One answer, from the cache if it is there. Raises `ModelError`; `CeilingReached` if it has to wait,
        `Unanswerable` if the model can't answer it though it answers others."""
        [result] = self._started().ask_many([request])
        if isinstance(result, ModelError):
            raise result
        return result

    def spent(self) -> Spent:
        """What was sent to this model and billed this night, by all who share the cache folder."""
        return self._started().book.spent(self.ceiling.night, self.model)

    def bill(self) -> dict[str, Any]:
        """This night's calls, billed tokens and their price, plain."""
        spent = self.spent()
        plain = self.prices.bill(spent.usage.prompt_tokens, spent.usage.completion_tokens)
        calls = {name: getattr(spent, name) for name in ("requests", "answers", "garbage", "failed")}
        return {
            "night": self.ceiling.night,
            **calls,
            **plain,
            "unbilled_tokens": spent.unbilled_tokens,
            "open_tokens": spent.open_tokens,
        }

    def stop(self, why: str) -> None:
        """Let nothing new be sent; whoever waits for an answer gets `ModelError`."""
        if self._engine is not None:
            self._engine.breaker.stop(why)

    def close(self) -> None:
        """Close connections and the thread; a later question opens them again."""
        # What was sent so far is remembered, as the engine that counted it goes.
        with self._starting:
            self._sent_before, engine, self._engine = self.requests_sent, self._engine, None
        if engine is not None:
            engine.close()

    def _started(self) -> Engine:
        with self._starting:
            # Only when it is needed: it starts a thread and opens the cache.
            if self._engine is None:
                self._engine = Engine(self._endpoint, self)
            return self._engine
