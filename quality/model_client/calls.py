"""The engine behind `model_client`: questions become calls, calls become answers, each counted once.

A call is counted before it is sent and booked when it is over (`spending`); its answer is stored in the same moment.
The next call leaves the moment one ends, whichever question it belongs to; a question that waits to be tried again, or
whose pictures are being drawn, holds no place.
"""

import asyncio
import itertools
import json
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from quality.model_client.answer_cache import CachedAnswer, read_entry
from quality.model_client.batches import BatchAsker
from quality.model_client.endpoint import ModelEndpoint
from quality.model_client.errors import ModelError
from quality.model_client.questions import (
    CheckedAnswer,
    Garbage,
    NoAnswer,
    Request,
    Usage,
    VerdictCost,
    call_body,
    draw_content,
    read_body,
    read_usage,
)
from quality.model_client.rate_limit import RateLimiter
from quality.model_client.retry import POLL_S, RERUN, Breaker, Failure, sort_failure
from quality.model_client.sender import CallSlots, Sender
from quality.model_client.spending import AnswerBook, CeilingReached
from quality.model_client.unanswered import Unanswerable, UnansweredQuestions, control_request, read_no_answer

SENDERS = 16
SHARED = 4
"""Event loops at most, and questions under way that are worth another one."""
READY = 2
"""Questions under way at a time, in units of the concurrency: those not in flight are drawn, or wait to try again."""


@dataclass
class _Question:
    """A request on its way: its body, what it has cost so far, when it must be over (monotonic seconds)."""

    request: Request
    key: str
    sender: Sender
    content: list[dict[str, object]]
    estimate: int
    deadline: float
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    said: str = "no attempt"
    to_blame: int = 0
    """Attempts that failed by the question itself, as far as one can tell."""


class Engine:
    """All that asks one endpoint: its event loops and what they share. They end with `owner`."""

    def __init__(self, endpoint: ModelEndpoint, owner: object) -> None:
        self.endpoint = endpoint
        self.retry = endpoint.retry
        self.requests_sent = 0
        self.book = AnswerBook(endpoint.cache)
        self.waiting = UnansweredQuestions(self.book, endpoint.ask_again)
        self.breaker = Breaker(self.retry.breaker_limit, endpoint.name)
        self.batches = BatchAsker(endpoint, endpoint.batch, self.book, self.breaker) if endpoint.batch else None
        shared = f"{endpoint.base_url} {endpoint.model}"
        self.limiter = RateLimiter(endpoint.limits, self.book, shared) if endpoint.limits else None
        self._places = CallSlots(endpoint.concurrency)
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._flying = 0
        self._quiet_until = 0.0
        self._same: dict[str, Future[CheckedAnswer | ModelError]] = {}
        self._drawing = ThreadPoolExecutor(min(8, (os.cpu_count() or 1) + 1), "judge-pictures")
        self._senders: list[Sender] = []
        self._owner = weakref.ref(owner)

    @property
    def sent(self) -> int:
        """Questions that left, by calls and in batches."""
        return self.requests_sent + (self.batches.sent if self.batches is not None else 0)

    def close(self) -> None:
        for sender in self._senders:
            sender.close()
        self._drawing.shutdown()
        if self.batches is not None:
            self.batches.close()
        self.book.close()

    def ask_many(self, requests: Sequence[Request]) -> list[CheckedAnswer | ModelError]:
        """Answers in order; a request that failed, has to wait or can't be answered stands as its error. Other errors
        are raised."""
        # By content: equal questions of one call are asked once.
        keys = [request.key(self.endpoint.model, self.endpoint.max_tokens) for request in requests]
        asked = dict(zip(keys, requests, strict=True))
        found: dict[str, CheckedAnswer | ModelError] = {}
        if self.batches is not None:
            # What a batch answers is found in the book below; what it answers badly is asked there like any other.
            found.update(self.batches.answer({k: r for k, r in asked.items() if self._known(k, r) is None}))
        # Whoever is ready takes the next one.
        left = iter([(key, request) for key, request in asked.items() if key not in found])
        wrong: list[BaseException] = []

        async def work(sender: Sender) -> None:
            for key, request in left:
                if wrong:
                    return
                try:
                    found[key] = await self._ask(request, key, sender)
                except ModelError as error:
                    found[key] = error
                except Exception as error:  # a picture that can't be made, a full disk: no failure of the endpoint
                    wrong.append(error)

        # More in work than in flight: while some are sent, others are drawn or wait to be tried again.
        number = min(len(requests), READY * self.endpoint.concurrency)
        senders = self._started(min(-(-number // SHARED), SENDERS))
        turns = itertools.islice(itertools.cycle(senders), number)
        for worker in [asyncio.run_coroutine_threadsafe(work(sender), sender.loop) for sender in turns]:
            worker.result()
        if wrong:
            raise wrong[0]
        self._control(found, asked)
        places = {key: place for place, key in reversed(list(enumerate(keys)))}  # where each is asked first
        return [found[key] if places[key] == place else _again(found[key]) for place, key in enumerate(keys)]

    def _control(self, found: dict[str, CheckedAnswer | ModelError], requested: Mapping[str, Request]) -> None:
        """Ask about nothing where the endpoint hasn't answered since it left questions without an answer; what it then
        doesn't answer either is its own fault."""
        # Unanswered questions since the endpoint's last good answer: it may be the endpoint, not they.
        doubtful = self.waiting.doubtful(found)
        if not doubtful:
            return
        for key, left in doubtful.items():  # whoever asked the same may have given it up by now
            self.waiting.hold(key, left)
        request = control_request(requested[next(iter(doubtful))])
        key = request.key(self.endpoint.model, self.endpoint.max_tokens)
        [sender] = self._started(1)
        try:
            asyncio.run_coroutine_threadsafe(self._ask_model(request, key, sender), sender.loop).result()
        except CeilingReached as error:
            found.update(dict.fromkeys(doubtful, error))
        except ModelError:
            found.update({key: ModelError(str(found[key])) for key in doubtful})
        self.waiting.drop([*doubtful, key])  # none is held any more once it was proved

    def _started(self, number: int) -> list[Sender]:
        """The first so many senders."""
        with self._lock:
            while len(self._senders) < number:
                built = Sender(self.endpoint.base_url, self.endpoint.model)
                self._senders.append(built)
                if (owner := self._owner()) is not None:
                    weakref.finalize(owner, _stop, built.loop)
            return self._senders[:number]

    async def _ask(self, request: Request, key: str, sender: Sender) -> CheckedAnswer | ModelError:
        """From the cache, from an equal question that someone else asks just now, or from the model."""
        if (known := self._known(key, request)) is not None:
            await asyncio.sleep(0)  # a long row of known answers lets others through
            return known
        with self._lock:
            # The first one asks, the others of the same content wait for its answer.
            if (same := self._same.get(key)) is None:
                mine = self._same[key] = Future()
        if same is not None:
            return _again(await asyncio.shield(asyncio.wrap_future(same)))
        try:
            if (known := self._known(key, request)) is not None:  # answered between the two looks
                mine.set_result(known)
                return known
            result: CheckedAnswer | ModelError
            try:
                result = await self._ask_model(request, key, sender)
            except ModelError as error:
                result = error
            mine.set_result(result)
            return result
        finally:
            # Whatever happens, whoever waits for this answer is told.
            if not mine.done():
                mine.set_result(ModelError(f"{self.endpoint.name}: an equal question failed"))
            with self._lock:
                del self._same[key]

    def _known(self, key: str, request: Request) -> CheckedAnswer | ModelError | None:
        text = self.book.answer(key)
        entry = read_entry(text, request.schema)
        if entry is None:
            left = read_no_answer(text, self.endpoint.ask_again)
            return Unanswerable(f"{self.endpoint.name}: {left.said}", left) if left is not None else None
        return CheckedAnswer(
            entry.fields, VerdictCost(entry.usage.prompt_tokens, entry.usage.completion_tokens, 0.0, cached=True)
        )

    def _open(self, sender: Sender) -> None:
        """Make all clients before the first call flies, so that none of them takes its time."""
        if not sender.is_open:
            with self._opening:
                for other in self._senders:
                    other.open()

    async def _ask_model(self, request: Request, key: str, sender: Sender) -> CheckedAnswer:
        self._check_alive()
        self._open(sender)
        content, estimate = await self._drawn(request)
        began = time.monotonic()
        question = _Question(request, key, sender, content, estimate, began + self.retry.deadline_s)
        # A place is held for a call alone, never while a question pauses.
        for attempt in range(self.retry.attempts):
            waiting = time.monotonic()
            async with self._places:
                found = await self._try(question, attempt, waiting)
            if isinstance(found, CheckedAnswer):
                self.breaker.good("request")
                self.waiting.prove()
                return found
            question.to_blame += found.question
            if not found.retried:
                break
            pause = self.retry.pause_s(attempt, found.asked_s)
            if time.monotonic() + pause >= question.deadline:
                question.said += f"; deadline of {self.retry.deadline_s:g} s"
                break
            if attempt + 1 < self.retry.attempts:
                await self.breaker.sleep(pause)
        self.breaker.failed_request(began, time.monotonic(), question.said)
        tried = f"no valid answer in {attempt + 1} attempts; {question.said}"
        message = f"{self.endpoint.name}: {tried}"
        # Fewer failures by the question than attempts: the endpoint failed, so nothing is said of the
        # question.
        if question.to_blame <= attempt:
            raise ModelError(message)
        spent = question.usage
        left = NoAnswer(tried, VerdictCost(spent.prompt_tokens, spent.completion_tokens, question.seconds))
        self.waiting.hold(key, left)
        raise Unanswerable(message, left)

    async def _try(self, question: _Question, attempt: int, waiting: float) -> CheckedAnswer | Failure:
        """One call, counted and booked; it has waited for its place since `waiting`."""
        call = await self._admit(question)
        now = time.monotonic()
        question.deadline += now - waiting  # places and limits are ours, not the endpoint's slowness
        usage, failure, billed = None, Failure("cancelled"), False
        try:
            body, usage = await self._send(question, attempt, min(self.retry.timeout_s, question.deadline - now))
            self.breaker.good("call")
            fields = read_body(body, question.request.schema)
            question.usage += usage or Usage()
            question.seconds += time.monotonic() - now
            entry = CachedAnswer(fields, question.usage).text()
            self._book(question, call, "answers", usage, entry=(question.key, entry))  # before anything else happens
            billed = True
            spent = question.usage
            return CheckedAnswer(fields, VerdictCost(spent.prompt_tokens, spent.completion_tokens, question.seconds))
        except Garbage as error:
            failure = Failure(f"invalid answer: {error}", endpoint=False, question=True)
            question.usage += usage or Usage()
            self._book(question, call, "garbage", usage)
            billed = True
        except Exception as error:  # sorted by kind: unknown ones are raised again
            found = sort_failure(error)
            if found is None:
                raise
            failure = found
        finally:
            try:
                if not billed:
                    self._book(question, call, "failed", usage, sent=failure.sent)
            finally:  # after the booking, since who finds nothing flying takes the ceiling for reached; and if it fails
                with self._lock:
                    self._flying -= 1
        question.seconds += time.monotonic() - now
        self._failed(question, failure, now)
        return failure

    def _failed(self, question: _Question, failure: Failure, began: float) -> None:
        """Tell the breaker, and keep all quiet while the server asks for it."""
        question.said = failure.said
        # Key, model or URL are wrong: every other call would fail the same way.
        if failure.final:
            self.breaker.stop(f"{self.endpoint.name}: {failure.said}")
        elif failure.endpoint:
            self.breaker.failed_call(began, time.monotonic(), failure.said)
        if failure.asked_s is None:
            return
        if failure.asked_s > self.retry.deadline_s:
            requested = (
                f"it asks to wait {failure.asked_s:g} s, longer than the deadline of {self.retry.deadline_s:g} s"
            )
            self.breaker.stop(f"{self.endpoint.name}: {failure.said}; {requested}; {RERUN}")
        self._quiet_until = max(self._quiet_until, time.monotonic() + failure.asked_s)

    async def _admit(self, question: _Question) -> str:
        """Wait for limits and ceiling; the id of a call that may be sent now. Raises `CeilingReached`, `ModelError`."""
        self._check_alive()
        if self.limiter is not None:
            await self.breaker.sleep(self.limiter.take(question.estimate))
        # Asked for by one reply, kept by all: the server speaks for itself, not for one question.
        while (quiet := self._quiet_until - time.monotonic()) > 0:
            await self.breaker.sleep(quiet)
            self._check_alive()
        try:
            return await self._count(question)
        except ModelError:
            # Not sent, so its share of the rate limit is given back.
            if self.limiter is not None:
                self.limiter.correct(question.estimate, 0, requests=1)
            raise

    async def _count(self, question: _Question) -> str:
        ceiling = self.endpoint.ceiling
        while True:
            self._check_alive()
            # Counting and flying are one step: two threads mustn't both take the ceiling's last call.
            with self._lock:
                alone = self._flying == 0
                if (call := self.book.open(ceiling, self.endpoint.model, question.estimate)) is not None:
                    self._flying += 1
                    self.requests_sent += 1
                    return call
            if alone:
                raise CeilingReached(f"the ceiling of the night {ceiling.night} is reached; asked another night")
            # Bills are smaller than estimates: what flies now may leave room when it lands.
            await self.breaker.sleep(POLL_S / 2)

    def _check_alive(self) -> None:
        if self.breaker.dead:
            raise ModelError(self.breaker.dead)

    def _book(
        self,
        question: _Question,
        call: str,
        outcome: str,
        usage: Usage | None,
        *,
        sent: bool = True,
        entry: tuple[str, str] | None = None,
    ) -> None:
        self.book.book(call, outcome, usage, sent=sent, entry=entry)
        # A call that was sent and has no bill may have cost all of its estimate.
        if self.limiter is None or (usage is None and sent):
            return
        billed = usage or Usage()
        self.limiter.correct(question.estimate, billed.prompt_tokens + billed.completion_tokens)

    async def _drawn(self, request: Request) -> tuple[list[dict[str, object]], int]:
        """`draw_content`, pictures made off the loop."""
        draw = partial(draw_content, request, self.endpoint.max_tokens)
        return await asyncio.get_running_loop().run_in_executor(self._drawing, draw) if request.pictures else draw()

    async def _send(self, question: _Question, attempt: int, timeout_s: float) -> tuple[Any, Usage | None]:
        """One call: its body and billed usage. Ends by `timeout_s`, whatever the server does."""
        body = call_body(question.request, question.content, self.endpoint.max_tokens, attempt)
        data = await question.sender.post(body, timeout_s)
        try:
            reply = json.loads(data)
        except (ValueError, RecursionError):
            raise Garbage(f"no JSON: {data[:80]!r}") from None
        return reply, read_usage(reply)


def _again(found: CheckedAnswer | ModelError) -> CheckedAnswer | ModelError:
    """The answer of an equal question: nothing was paid for it again."""
    return (
        replace(found, cost=replace(found.cost, seconds=0.0, cached=True))
        if isinstance(found, CheckedAnswer)
        else found
    )


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """End a loop whose client is gone, unless it was closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
