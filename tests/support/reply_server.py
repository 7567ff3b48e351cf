"""The test server of /v1/chat/completions for policies: it answers with free text instead of JSON of a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai_server import COMPLETION_TOKENS, PROMPT_TOKENS, OpenAIServer

CLICK = "<think></think><action>Click(box=(10,20))</action><conclusion>Click it.</conclusion>"


class ReplyServer(OpenAIServer):
    """`reply(body)` is what the model says. Modes as in `OpenAIServer`, and `garbage` (text without an action),
    `nobody` (JSON without choices), `null` (a message without text)."""

    def __init__(self, reply: Callable[[dict[str, Any]], str] = lambda body: CLICK, **options: Any) -> None:
        self.reply = reply
        super().__init__(**options)

    def __enter__(self) -> ReplyServer:
        return self

    def _payload(self, body: dict[str, Any], mode: str) -> bytes:
        if mode.partition(":")[0].isdigit() or mode == "html":
            return super()._payload(body, mode)
        if mode == "nobody":
            return b'{"choices": []}'
        text = "I would rather not." if mode == "garbage" else None if mode == "null" else self.reply(body)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        }
        plain = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        return json.dumps(plain if mode == "no_usage" else {**plain, "usage": usage}).encode()


def text_of(body: dict[str, Any]) -> str:
    """All text of a question, the last turn's last."""
    parts: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        parts += [content] if isinstance(content, str) else [p["text"] for p in content if p["type"] == "text"]
    return "\n".join(parts)
