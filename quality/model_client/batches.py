"""Questions of a night by batch: a file of them that the server answers within a day, mostly for half the price.

    POST /files (JSON lines) → POST /batches → GET /batches/ID until it has ended → GET /files/ID/content

Every question is counted in the book before the file leaves, so that a ceiling holds, and booked by its line of the
results, its answer in the same transaction. What a batch asks stands in the book before it is created: a process that
is killed anywhere takes up the same batch the next time, by its id or, killed before it knew that, by our name in its
metadata. Nothing is paid twice.

A line that is no valid answer leaves its question to be asked directly, by the one retry policy. What a batch left
undone (it expired, or someone cancelled it) waits for another night.
"""

import contextlib
import json
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any

from quality.model_client.answer_cache import CachedAnswer
from quality.model_client.batch_form import BatchForm
from quality.model_client.endpoint import ModelEndpoint
from quality.model_client.errors import ModelError
from quality.model_client.keys import key_for
from quality.model_client.questions import Garbage, Request, Usage, call_body, draw_content, read_body, read_usage
from quality.model_client.retry import POLL_S, Breaker, sort_failure
from quality.model_client.sender import MAX_BODY_BYTES
from quality.model_client.spending import AnswerBook, CeilingReached, OpenBatch

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
NAME = "vesper"
"""Key of our name in a batch's metadata."""
MOST_LISTED = 1_000
"""Of the server's batches, the latest first, among which one is looked for whose id never reached us."""


class BatchAsker:
    """Asks an endpoint by batch; safe to use from several threads."""

    def __init__(self, endpoint: ModelEndpoint, form: BatchForm, book: AnswerBook, breaker: Breaker) -> None:
        self.sent = 0
        self._endpoint, self._form, self._book, self._breaker = endpoint, form, book, breaker
        self._where = f"{endpoint.base_url} {endpoint.model}"
        self._lock = threading.Lock()
        self._claimed: dict[str, threading.Event] = {}
        self._opened: Any = None

    def answer(self, requests: Mapping[str, Request]) -> dict[str, ModelError]:
        """Put answers to questions (by key) into the book. Returns the questions that wait for another night; of all
        others that the book has no answer to, a few, nothing is said. Raises `ModelError` where batches fail."""
        done = threading.Event()
        with self._lock:
            others = {self._claimed[key] for key in requests if key in self._claimed}
            mine = {key: request for key, request in requests.items() if key not in self._claimed}
            self._claimed.update(dict.fromkeys(mine, done))
        try:
            waiting = self._answer(mine)
        finally:
            with self._lock:
                for key in mine:
                    del self._claimed[key]
            done.set()
        # Equal questions of another part are in its batch.
        for other in others:
            while not other.wait(POLL_S):
                self._check_alive()
        return waiting

    def _answer(self, requests: Mapping[str, Request]) -> dict[str, ModelError]:
        waiting: dict[str, ModelError] = {}
        left = dict(requests)
        for earlier in self._book.open_batches(self._where):
            # One of another part is left to whoever asks that.
            if earlier.calls.keys() & requests.keys() and (found := self._found_again(earlier)) is not None:
                waiting |= self._finish(found, requests)
                left = {key: request for key, request in left.items() if key not in found.calls}
        # A batch takes minutes at best.
        while len(left) >= self._form.least:
            batch = self._submitted(left)
            if batch is None:
                night = self._endpoint.ceiling.night
                reached = CeilingReached(f"the ceiling of the night {night} is reached; asked another night")
                return waiting | dict.fromkeys(left, reached)
            waiting |= self._finish(batch, requests)
            left = {key: request for key, request in left.items() if key not in batch.calls}
        return waiting

    def _submitted(self, left: Mapping[str, Request]) -> OpenBatch | None:
        """A batch of the first of the questions, as many as the ceiling has room for; None if it has none."""
        self._check_alive()
        with tempfile.TemporaryFile() as stream:
            calls: dict[str, str] = {}
            try:
                self._write(stream, left, calls)
            except BaseException:
                # A picture that can't be drawn: nothing was sent.
                self._release(calls)
                raise
            if not calls:
                return None
            batch = OpenBatch(uuid.uuid4().hex, calls)
            self._book.put_batch(batch, self._where)
            stream.seek(0)
            try:
                with self._told("POST /files"):
                    file = self._client.files.create(file=("questions.jsonl", stream), purpose="batch")
            except ModelError:
                self._drop(batch)
                raise
        # Not tried twice: a reply that got lost may stand for a batch that was created, and is looked for by name.
        once = self._client.with_options(max_retries=0)
        with self._told("POST /batches"):
            made = once.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={NAME: batch.name},
            )
        return self._known(batch, made.id)

    def _write(self, stream: IO[bytes], left: Mapping[str, Request], calls: dict[str, str]) -> None:
        most_tokens = self._endpoint.max_tokens
        for key, request in left.items():
            content, estimate = draw_content(request, most_tokens)
            body = {"model": self._endpoint.model, **call_body(request, content, most_tokens, 0)}
            line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
            data = json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
            # The first line goes whatever its size, or its question would never be asked.
            full = stream.tell() + len(data) > self._form.most_bytes or len(calls) >= self._form.most_questions
            if calls and full:
                return
            call = self._book.open(self._endpoint.ceiling, self._endpoint.model, estimate)
            if call is None:
                return
            calls[key] = call
            stream.write(data)

    def _known(self, batch: OpenBatch, remote: str) -> OpenBatch:
        found = OpenBatch(batch.name, batch.calls, remote)
        self._book.put_batch(found, self._where)
        with self._lock:
            self.sent += len(batch.calls)
        return found

    def _found_again(self, batch: OpenBatch) -> OpenBatch | None:
        """A batch that an earlier run left, with its id; None if it was never created, and is forgotten."""
        if batch.remote is not None:
            return batch
        with self._told("GET /batches"):
            for number, listed in enumerate(self._client.batches.list(limit=100)):
                if (listed.metadata or {}).get(NAME) == batch.name:
                    return self._known(batch, listed.id)
                if number >= MOST_LISTED:
                    break
        self._drop(batch)
        return None

    def _finish(self, batch: OpenBatch, requests: Mapping[str, Request]) -> dict[str, ModelError]:
        """Wait for a batch and book its lines; the questions that it left undone. Raises `ModelError` if the server
        refused all of it."""
        ended = self._ended(batch)
        undone = dict(batch.calls)
        for name in (ended.output_file_id, ended.error_file_id):
            for line in self._lines(name) if name else ():
                self._book_line(line, batch, requests, undone)
        # No line, or one without a response: the server billed nothing.
        self._drop(batch)
        if ended.status == "failed":
            said = "; ".join(str(error.message) for error in (ended.errors.data if ended.errors else None) or ())
            raise ModelError(f"{self._endpoint.name}: the batch was refused: {' '.join(said.split())[:200]}")
        reason = CeilingReached(f"the batch {ended.status} before it was asked; asked another night")
        return {key: reason for key in undone if key in requests}

    def _ended(self, batch: OpenBatch) -> Any:
        while True:
            self._check_alive()
            with self._told("GET /batches"):
                found = self._client.batches.retrieve(str(batch.remote))
            if found.status in ENDED:
                return found
            until = time.monotonic() + self._form.poll_s
            while (left := until - time.monotonic()) > 0:
                self._check_alive()
                time.sleep(min(left, POLL_S))

    def _lines(self, file: str) -> Iterator[bytes]:
        """Lines of a file of results. Raises `ModelError` for one without end."""
        rest = b""
        with self._told("GET /files"), self._client.files.with_streaming_response.content(file) as reply:
            for chunk in reply.iter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > MAX_BODY_BYTES:
                    raise ModelError(f"{self._endpoint.name}: a line of results of more than {MAX_BODY_BYTES} bytes")
                yield from lines
        yield rest

    def _book_line(
        self, line: bytes, batch: OpenBatch, requests: Mapping[str, Request], undone: dict[str, str]
    ) -> None:
        """Book one line of results; what isn't one of ours is passed over."""
        try:
            plain = json.loads(line)
            key, response = str(plain["custom_id"]), plain["response"]
            call, status, body = batch.calls[key], response["status_code"], response["body"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        undone.pop(key, None)
        usage = read_usage(body)
        if status != 200:
            self._book.book(call, "failed", usage, sent=False)
            return
        try:
            fields = read_body(body, requests[key].schema)
        except (Garbage, KeyError):  # or nobody asks it any more
            self._book.book(call, "garbage", usage)
            return
        self._book.book(call, "answers", usage, entry=(key, CachedAnswer(fields, usage or Usage()).text()))

    def _drop(self, batch: OpenBatch) -> None:
        self._release(batch.calls)
        self._book.drop_batch(batch.name)

    def _release(self, calls: Mapping[str, str]) -> None:
        """Give back what calls had reserved; those that are booked stay as they are."""
        for call in calls.values():
            self._book.book(call, "failed", None, sent=False)

    def _check_alive(self) -> None:
        if self._breaker.dead:
            raise ModelError(self._breaker.dead)

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                # Loaded on use: the SDK takes a second.
                import openai

                retry, url = self._endpoint.retry, self._endpoint.base_url
                # Asking twice for what is there already does no harm, so the SDK may try again by itself.
                self._opened = openai.OpenAI(base_url=url, api_key=key_for(url), max_retries=retry.attempts - 1)
            return self._opened

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of the SDK as `ModelError`; a batch that is under way then is taken up by the next run."""
        try:
            yield
        except Exception as error:
            if isinstance(error, ModelError) or (failure := sort_failure(error)) is None:
                raise
            raise ModelError(f"{self._endpoint.name}: batch: {what}: {failure.said}") from error

    def close(self) -> None:
        """Close connections."""
        if self._opened is not None:
            self._opened.close()
