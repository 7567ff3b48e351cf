"""A server on loopback that speaks the OpenAI protocol and answers judges' questions as a test scripts it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_BLOCK = re.compile(r'<data name="(\w+)">\n(.*?)\n</data>', re.DOTALL)


@dataclass(frozen=True)
class Question:
    """What arrived: model, system message, data blocks by name, fields of the schema, and the number of pictures."""

    model: str
    system: str
    text: str
    blocks: Mapping[str, Any]
    fields: Mapping[str, Any]
    pictures: int

    @property
    def kind(self) -> str:
        """goal (keypoints), window, final, label, or the axis that is asked for."""
        for field, kind in (("keypoint_1", "goal"), ("blocked", "window"), ("outcome", "final"), ("label", "label")):
            if field in self.fields:
                return kind
        return "alignment" if "alignment" in self.fields else "reachability"


Script = Callable[[Question], Mapping[str, Any] | int | None]
"""Question → the fields to answer with (others get `filled`'s), a status code, or None for the default answer."""


def filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A valid answer to any schema: the first word allowed, 8 of 10, or a text (statements are left empty)."""
    plain: dict[str, Any] = {}
    for name, schema in fields.items():
        if schema["type"] == "integer":
            plain[name] = 1 if name.startswith("seen_") else 0 if name == "blocked" else 8
        elif "enum" in schema:
            plain[name] = schema["enum"][0]
        else:
            plain[name] = "" if name.startswith("keypoint_") and name != "keypoint_1" else "it shows"
    return plain


class ScriptedJudge:
    """The server; `questions` holds what it was asked. Use as a context manager."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.questions: list[Question] = []
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                question = read(body)
                with lock:
                    outer.bodies.append(body)
                    outer.questions.append(question)
                said = outer.script(question) if outer.script else None
                if isinstance(said, int):
                    return self.send(said, {"error": {"message": f"status {said}"}})
                content = json.dumps({**filled(question.fields), **(said or {})})
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                plain = {"id": "x", "object": "chat.completion", "created": 0, "model": question.model}
                return self.send(200, {**plain, "choices": [choice], "usage": usage})

            def send(self, status: int, plain: object) -> None:
                payload = json.dumps(plain).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedJudge:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def asked(self, kind: str) -> list[Question]:
        """The questions of a kind, in order of arrival."""
        return [question for question in self.questions if question.kind == kind]


def read(body: Mapping[str, Any]) -> Question:
    """A request's body as a question."""
    system, user = (message["content"] for message in body["messages"])
    blocks = {name: json.loads(text) for name, text in _BLOCK.findall(user[0]["text"])}
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return Question(body["model"], system, user[0]["text"], blocks, fields, len(user) - 1)
