"""A real local server of /v1/chat/completions with latency and faults, for tests and figures.

In a test: `with OpenAIServer(latency_s=0.02) as server:` (a thread of its own). As a process:
`python openai_server.py --latency 0.2 --jitter 0.1` prints its URL and serves until its standard input ends.

A fault is a mode: an HTTP status (`429`, `429:2` with Retry-After 2), `slow`, `hang`, `drop`, `trickle` and
`trickle_head` (one byte at a time), `half` (the body breaks off), `html`, `prose`, `extra`, `eleven`, `float`,
`surrogate`, `cut`, `no_usage`, else the right answer. `script` holds modes used up in order; after it `faults` draws
one with a probability.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

ANSWER = {"alignment": 8, "reachability": 9, "confidence": 7, "reason": "fits"}
PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10
SLOW_S = 3.0


class OpenAIServer:
    """Counts what was asked and what was delivered whole, by question (`question_of`)."""

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        jitter_s: float = 0.0,
        script: Sequence[str] = (),
        faults: Sequence[str] = (),
        fault_share: float = 0.0,
        seed: int = 0,
        keep_bodies: bool = True,
    ) -> None:
        self.latency_s, self.jitter_s = latency_s, jitter_s
        self.script, self.faults, self.fault_share = list(script), list(faults), fault_share
        self.answer: dict[str, Any] = dict(ANSWER)
        self.bodies: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.modes: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()  # valid answers
        self.billed_responses = self.busy = self.most_busy = 0
        self.hold_after: int | None = None  # deliver so many valid answers, then keep all others waiting
        self._random = random.Random(seed)
        self._keep_bodies = keep_bodies
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(10), "the server didn't start"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        self._started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def stop(self) -> None:
        """Close the port and all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.close)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def __enter__(self) -> OpenAIServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def billed_tokens(self) -> tuple[int, int]:
        """(prompt, completion) of all responses delivered whole with a usage."""
        return self.billed_responses * PROMPT_TOKENS, self.billed_responses * COMPLETION_TOKENS

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next((int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
        data = await reader.readexactly(length)
        if (found := self.elsewhere(head, data)) is not None:
            kind = b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(found)
            writer.write(kind + found)
            await writer.drain()
            return True
        if not length:  # somebody asks which models there are: it has no such list
            writer.write(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return True
        body = json.loads(data)
        question = question_of(body)
        mode = self._mode()
        self.asked[question] += 1
        self.modes[mode] += 1
        self.times.append(time.monotonic())
        if self._keep_bodies:
            self.bodies.append(body)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(max(self.latency_s + self._random.uniform(-1, 1) * self.jitter_s, 0.0))
            while self.hold_after is not None and self.delivered.total() >= self.hold_after:
                await asyncio.sleep(0.005)
            return await self._reply(reader, writer, body, question, mode)
        finally:
            self.busy -= 1

    def elsewhere(self, head: str, data: bytes) -> bytes | None:
        """The reply to a request of another kind than /chat/completions; None if there is none."""
        return None

    def _mode(self) -> str:
        if self.script:
            return self.script.pop(0)
        if self.faults and self._random.random() < self.fault_share:
            return self._random.choice(self.faults)
        return "right"

    async def _reply(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any], question: str, mode: str
    ) -> bool:
        if mode == "slow":
            await asyncio.sleep(SLOW_S)
            mode = "right"
        if mode == "drop":
            return False
        if mode == "hang":
            await reader.read(1)  # until the client goes
            return False
        status, _, wait = mode.partition(":")
        payload = self._payload(body, mode)
        head = f"HTTP/1.1 {status if status.isdigit() else 200} x\r\nContent-Type: application/json\r\n"
        head += f"Retry-After: {wait or 0}\r\n" if status.isdigit() else ""
        head += f"Content-Length: {len(payload)}\r\n\r\n"
        if mode.startswith("trickle"):
            await self._trickle(writer, head.encode(), payload, mode)
            return False
        if mode == "half":
            payload = payload[: len(payload) // 2]
        if writer.is_closing() or reader.at_eof():
            return False
        if mode != "half":  # counted first: whoever has the last answer may look at the counts at once
            self.delivered[question] += mode in ("right", "no_usage")
            self.billed_responses += not status.isdigit() and mode not in ("no_usage", "html")
        writer.write(head.encode() + payload)
        await writer.drain()
        return mode != "half"

    async def _trickle(self, writer: asyncio.StreamWriter, head: bytes, payload: bytes, mode: str) -> None:
        """A byte now and then, so that no single read ever times out."""
        if mode == "trickle":
            writer.write(head)
        data = payload if mode == "trickle" else head[:20] + b"X-Long: " + b"a" * 100_000
        for byte in data:
            if writer.is_closing():
                return
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)

    def _payload(self, body: dict[str, Any], mode: str) -> bytes:
        if mode.partition(":")[0].isdigit():
            return json.dumps({"error": {"message": f"status {mode}"}}).encode()
        if mode == "html":
            return b"<html>busy</html>"
        names = body["response_format"]["json_schema"]["schema"]["required"]
        right = json.dumps({name: self.answer[name] for name in names})
        text = {
            "prose": "I would give it an 8.",
            "extra": right[:-1] + ', "note": 1}',
            "eleven": right.replace("8", "11").replace("9", "11"),
            "float": right.replace("8", "8.0").replace("9", "9.0"),
            "surrogate": right.replace("fits", "\\ud800"),
        }.get(mode, right)
        finish = "length" if mode == "cut" else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
        plain = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        }
        return json.dumps(plain if mode == "no_usage" else {**plain, "usage": usage}).encode()


def question_of(body: dict[str, Any]) -> str:
    """Which question a body asks, whatever the attempt (`seed`)."""
    return hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds")
    parser.add_argument("--jitter", type=float, default=0.1, help="seconds, to both sides")
    options = parser.parse_args()
    with OpenAIServer(latency_s=options.latency, jitter_s=options.jitter, keep_bodies=False) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
