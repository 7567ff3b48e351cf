"""A real local server of /v1/files and /v1/batches beside /v1/chat/completions, as OpenAI describes them.

A batch ends after `polls` looks at it. Each of its lines takes a mode from `line_script` (then `right`): those of
`OpenAIServer`, an HTTP status for a line that failed by itself, `undone` for one that wasn't asked (the batch then
expires). `refuse` ends every batch as invalid. `lose_created` drops the connection once, after a batch was created.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from openai_server import OpenAIServer


class BatchServer(OpenAIServer):
    """`asked_in_batches` counts each custom_id that a batch held; `direct` calls are counted by `asked`."""

    def __init__(self, *, polls: int = 1, line_script: tuple[str, ...] = (), refuse: str = "", **more: Any) -> None:
        self.polls, self.line_script, self.refuse = polls, list(line_script), refuse
        self.lose_created = False
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked_in_batches: Counter[str] = Counter()
        self._files: dict[str, bytes] = {}
        self._looks: Counter[str] = Counter()
        super().__init__(**more)

    def elsewhere(self, head: str, data: bytes) -> bytes | None:
        method, path = head.split(" ", 2)[:2]
        path, _, _ = path.partition("?")
        if (method, path) == ("POST", "/v1/files"):
            return self._put_file(head, data)
        if found := re.fullmatch(r"/v1/files/([^/]+)/content", path):
            return self._files[found[1]]
        if (method, path) == ("POST", "/v1/batches"):
            created = self._create(json.loads(data))
            if self.lose_created:
                self.lose_created = False
                raise ConnectionError
            return created
        if path == "/v1/batches":
            listed = list(self.batches.values())
            return json.dumps({"object": "list", "data": listed, "has_more": False}).encode()
        if found := re.fullmatch(r"/v1/batches/([^/]+)", path):
            return self._look(found[1])
        return None

    def _put_file(self, head: str, data: bytes) -> bytes:
        boundary = re.search(r"boundary=([^\r\n;]+)", head)
        assert boundary is not None
        parts = data.split(b"--" + boundary[1].encode())
        [content] = [part.partition(b"\r\n\r\n")[2][:-2] for part in parts if b"filename=" in part]
        return json.dumps({"id": self._keep(content), "object": "file", "purpose": "batch"}).encode()

    def _keep(self, content: bytes) -> str:
        name = f"file-{len(self._files)}"
        self._files[name] = content
        return name

    def _create(self, body: dict[str, Any]) -> bytes:
        assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
        name = f"batch-{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            "input_file_id": body["input_file_id"],
            "metadata": body["metadata"],
            "output_file_id": None,
            "error_file_id": None,
        }
        return json.dumps(self.batches[name]).encode()

    def _look(self, name: str) -> bytes:
        batch = self.batches[name]
        self._looks[name] += 1
        if batch["status"] == "in_progress" and self._looks[name] > self.polls:
            self._end(batch)
        return json.dumps(batch).encode()

    def _end(self, batch: dict[str, Any]) -> None:
        if self.refuse:
            errors = {"object": "list", "data": [{"message": self.refuse}]}
            batch |= {"status": "failed", "errors": errors}
            return
        right, wrong = [], []
        for line in self._files[batch["input_file_id"]].splitlines():
            plain = json.loads(line)
            self.asked_in_batches[plain["custom_id"]] += 1
            mode = self.line_script.pop(0) if self.line_script else "right"
            reply: dict[str, Any] = {"custom_id": plain["custom_id"], "response": None, "error": None}
            if mode == "undone":
                batch["status"] = "expired"
                wrong.append({**reply, "error": {"code": "batch_expired", "message": "too late"}})
                continue
            status = int(mode) if mode.isdigit() else 200
            reply["response"] = {"status_code": status, "body": json.loads(self._payload(plain["body"], mode))}
            (wrong if status != 200 else right).append(reply)
        if batch["status"] == "in_progress":
            batch["status"] = "completed"
        # In any order, as the protocol says, and with a line that nobody can read.
        lines = [json.dumps(reply).encode() for reply in reversed(right)] + [b"{", b'{"custom_id": "x"}']
        batch["output_file_id"] = self._keep(b"\n".join(lines))
        batch["error_file_id"] = self._keep(b"\n".join(json.dumps(r).encode() for r in wrong)) if wrong else None
