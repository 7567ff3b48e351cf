"""Replies in the OpenAI protocol: whole, or in chunks while they are made, which add up to the same."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer.serving.chat_request import ChatAsk

if TYPE_CHECKING:
    from trainer.modeling.generation import Completion
    from trainer.modeling.processor import Processor
    from trainer.serving.turns import Caller

UNDECODED = "\ufffd"
"""What stands for bytes that are no character, or not yet."""


class _Spoken:
    """What of one reply has been sent, and where it ended by a stop."""

    def __init__(self) -> None:
        self.chars = self.tokens = 0
        self.stopped = False
        self.text = ""


class ChatReply:
    """The reply to a request, as it grows: `grow` is `generate`'s `on_tokens`."""

    def __init__(self, ask: ChatAsk, model: str, processor: Processor, caller: Caller) -> None:
        self._ask, self._processor, self._caller = ask, processor, caller
        self._spoken = [_Spoken() for _ in range(ask.n)]
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk" if ask.stream else "chat.completion",
            "created": int(time.time()),
            "model": model,
        }

    def begin(self) -> None:
        """The roles, once it is known that there will be a reply."""
        for index in range(self._ask.n if self._ask.stream else 0):
            self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def grow(self, reply: Completion) -> bool:
        """Send what can't change any more; → whether a stop was found, behind which the reply is cut."""
        # raises where nobody waits any more, which ends the call
        self._caller.stay()
        if not (self._ask.stream or self._ask.stops):
            return False
        spoken = self._spoken[reply.member]
        text = self._processor.text(reply.token_ids)
        # the first stop in the text, whichever was found first
        if places := [place for stop in self._ask.stops if (place := text.find(stop)) >= 0]:
            spoken.stopped = True
            self._cut(reply)
            text = text[: min(places)]
        spoken.text = text
        if self._ask.stream:
            self._send(reply, text if spoken.stopped else text[: self._sure(text)])
        return spoken.stopped

    def finish(self, replies: Sequence[Completion], prompt_tokens: int) -> None:
        """Send the rest: of a stream what was held back, the reasons and the usage; else all of it."""
        spent = sum(len(reply.token_ids) for reply in replies)
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": spent, "total_tokens": prompt_tokens + spent}
        whole = [self._choice(reply) for reply in replies]
        if not self._ask.stream:
            self._caller.send({**self._head, "choices": whole, "usage": usage})
            return
        for reply, choice in zip(replies, whole, strict=True):
            self._send(reply, choice["message"]["content"])
            self._chunk(reply.member, {}, finish=choice["finish_reason"])
        if self._ask.usage_in_stream:
            self._caller.send({**self._head, "choices": [], "usage": usage})

    def _choice(self, reply: Completion) -> dict[str, Any]:
        spoken = self._spoken[reply.member]
        return {
            "index": reply.member,
            "finish_reason": "stop" if reply.finished or spoken.stopped else "length",
            "message": {"role": "assistant", "content": spoken.text if spoken.stopped else reply.text, "refusal": None},
            "logprobs": self._logprobs(reply, 0) if self._ask.logprobs else None,
        }

    def _cut(self, reply: Completion) -> None:
        """Leave out the tokens behind the one that completed a stop: a pass may draw several."""
        # what was sent can't be taken back
        least = self._spoken[reply.member].tokens
        for count in range(least + 1, len(reply.token_ids)):
            text = self._processor.text(reply.token_ids[:count])
            if any(stop in text for stop in self._ask.stops):
                del reply.token_ids[count:], reply.logprobs[count:], reply.top_logprobs[count:]
                reply.finished = False
                return

    def _sure(self, text: str) -> int:
        """How many characters stand whatever comes: neither half a character nor what may begin a stop."""
        # a character may come in several tokens: half of one isn't sent
        sure = len(text.rstrip(UNDECODED))
        for stop in self._ask.stops:
            # the longest end of the text that may begin a stop
            begins = (n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n]))
            sure = min(sure, len(text) - next(begins, 0))
        return sure

    def _send(self, reply: Completion, text: str) -> None:
        spoken = self._spoken[reply.member]
        new = text[spoken.chars :]
        if new or (self._ask.logprobs and spoken.tokens < len(reply.token_ids)):
            logprobs = self._logprobs(reply, spoken.tokens) if self._ask.logprobs else None
            self._chunk(reply.member, {"content": new}, logprobs)
        spoken.chars = max(spoken.chars, len(text))
        spoken.tokens = len(reply.token_ids)

    def _chunk(
        self, index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None, finish: str | None = None
    ) -> None:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        usage = {"usage": None} if self._ask.usage_in_stream else {}
        self._caller.send({**self._head, "choices": [choice], **usage})

    def _logprobs(self, reply: Completion, first: int) -> dict[str, Any]:
        """Of the tokens from `first` on, under the distribution of the temperature alone."""
        content = []
        for place in range(first, len(reply.token_ids)):
            likeliest = reply.top_logprobs[place] if reply.top_logprobs else []
            content.append(
                {
                    **self._token(reply.token_ids[place], reply.logprobs[place]),
                    "top_logprobs": [self._token(token, logprob) for token, logprob in likeliest],
                }
            )
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        # a control token has no text: its name stands for it
        text = self._processor.text([token]) or self._processor.tokenizer.convert_ids_to_tokens(token)
        return {"token": text, "logprob": logprob, "bytes": None if UNDECODED in text else [*text.encode()]}
