"""A stand-in for the hub on loopback: dataset repositories with revisions, its API and its downloads, and its faults.

It speaks what `huggingface_hub`, its file system and `datasets` ask: repository info, trees, paths-info, HEAD and
ranged GET of files at a revision. `faults` maps a request (`"GET data/a.json"`, `"API"`) to what befalls the next ones.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import huggingface_hub.constants
import pytest
from huggingface_hub.utils import _http

from pipelines.raw import hub as pulling

REPO = "acme/gui"
"""The repository that most tests pull."""
LFS_FROM_BYTES = 1000
"""Files from this size on are large ones, known by sha256, as on the hub."""
_API = re.compile(r"/api/(?:datasets|models)/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+)(?:/(.*))?)?$")
_FILE = re.compile(r"/(?:datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)$")


class Hub:
    """Repositories: name → list of (commit, {path: bytes}), oldest first; `main` is the last."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.requests: list[str] = []
        self.bytes_sent = 0
        self.gated: set[str] = set()
        self.url = ""

    def commit(self, repo: str, files: dict[str, bytes]) -> str:
        """Add a revision; its commit is a hash of what is in it."""
        known = self.repositories.setdefault(repo, [])
        whole = json.dumps([[name, hashlib.sha1(data).hexdigest()] for name, data in sorted(files.items())])
        sha = hashlib.sha1(f"{len(known)}{repo}{whole}".encode()).hexdigest()
        known.append((sha, dict(files)))
        return sha

    def at(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """A revision by commit, its beginning, or `main`."""
        known = self.repositories.get(repo, [])
        if revision in ("main", "HEAD") and known:
            return known[-1]
        return next((one for one in known if one[0] == revision), None)


@contextmanager
def serve(hub: Hub, handler: type[_Handler] | None = None) -> Iterator[str]:
    """Run it; the URL is the endpoint. Everything is stopped at the end. `handler`: one that answers more."""

    class Handler(handler or _Handler):  # type: ignore[misc]
        shared = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)  # shutdown waits for a turn
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def go_online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process ask a hub, without long pauses before a fault is tried again: the client's and our own are half
    a minute together."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    pauses = {
        _http.http_backoff: "base_wait_time",
        _http.http_stream_backoff: "base_wait_time",
        pulling.pull: "first_wait_s",
        pulling.list_repository: "first_wait_s",
    }
    for asked, pause in pauses.items():
        monkeypatch.setitem(inspect.unwrap(asked).__kwdefaults__, pause, 0.01)


def _described(path: str, data: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": blob}
    if len(data) >= LFS_FROM_BYTES:
        found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return found


class _Handler(BaseHTTPRequestHandler):
    shared: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: the second would wait 40 ms for the first's receipt

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._answer(body=True, posted=self.rfile.read(length))

    def _answer(self, *, body: bool, posted: bytes = b"") -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        self.shared.requests.append(f"{self.command} {path}")
        if (file := _FILE.match(path)) is not None:
            self._file(file[1], unquote(file[2]), file[3], body)
        elif (api := _API.match(path)) is not None:
            self._api(api[1], api[2], unquote(api[3] or "main"), api[4] or "", parts.query, posted)
        else:
            self._error(404, "no such page")

    def _api(self, repo: str, kind: str | None, revision: str, below: str, query: str, posted: bytes) -> None:
        if self._fault("API"):
            return
        if repo in self.shared.gated:
            self._error(403, "Access to this dataset is restricted", "GatedRepo")
            return
        if repo not in self.shared.repositories:
            self._error(404, "Repository not found", "RepoNotFound")
            return
        found = self.shared.at(repo, revision)
        if found is None:
            self._error(404, f"Revision {revision} not found", "RevisionNotFound")
            return
        commit, files = found
        if kind in (None, "revision"):
            siblings = [
                {
                    "rfilename": name,
                    "size": len(data),
                    "blobId": _described(name, data)["oid"],
                    **(
                        {"lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}
                        if len(data) >= LFS_FROM_BYTES
                        else {}
                    ),
                }
                for name, data in sorted(files.items())
            ]
            about = {"tags": [], "private": False, "gated": False, "downloads": 0, "likes": 0, "disabled": False}
            self._json({"id": repo, "sha": commit, "siblings": siblings, **about})
        elif kind == "tree":
            self._json(self._tree(files, below, recursive="true" in parse_qs(query).get("recursive", [""])[0].lower()))
        else:
            asked = json.loads(posted) if posted.startswith(b"{") else parse_qs(posted.decode())
            self._json([self._entry(files, name) for name in asked["paths"] if self._entry(files, name)])

    def _entry(self, files: dict[str, bytes], name: str) -> dict[str, Any] | None:
        if name in files:
            return _described(name, files[name])
        if any(path.startswith(f"{name}/") for path in files):
            return {"type": "directory", "path": name, "size": 0, "oid": "0" * 40}
        return None

    def _tree(self, files: dict[str, bytes], below: str, *, recursive: bool) -> list[dict[str, Any]]:
        prefix = f"{below}/" if below else ""
        inside = {path: data for path, data in files.items() if path.startswith(prefix)}
        if recursive:
            names = sorted({*inside, *(folder for path in inside for folder in _folders(path) if folder != below)})
        else:
            names = sorted({prefix + path[len(prefix) :].partition("/")[0] for path in inside})
        return [entry for name in names if (entry := self._entry(files, name)) is not None]

    def _file(self, repo: str, revision: str, name: str, body: bool) -> None:
        if self._fault(f"{self.command} {name}", only=("429", "500", "503", "hang")):
            return
        found = self.shared.at(repo, revision)
        if found is None or name not in found[1]:
            code = "EntryNotFound" if found else "RevisionNotFound"
            self._error(404, f"{name} not found at {revision}", code)
            return
        commit, data = found[0], found[1][name]
        described = _described(name, data)
        etag = described.get("lfs", {}).get("oid") or described["oid"]
        fault = self._next(f"{self.command} {name}")
        served = bytes([*data[:-1], data[-1] ^ 255]) if fault == "corrupt" else data
        begin, end = 0, len(data)
        if (asked := re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range") or "")) is not None:
            begin, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else len(data), len(data))
        piece = served[begin:end]
        self.send_response(206 if asked else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Accept-Ranges", "bytes")
        if "lfs" in described:
            self.send_header("X-Linked-Etag", f'"{etag}"')
            self.send_header("X-Linked-Size", str(len(data)))
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        if not body:
            return
        if fault.startswith("cut:"):
            piece = piece[: int(fault[4:])]
            self.close_connection = True
        self.wfile.write(piece)
        self.wfile.flush()
        self.shared.bytes_sent += len(piece)
        if fault.startswith("cut:"):
            self.connection.close()

    def _next(self, key: str) -> str:
        waiting = self.shared.faults.get(key)
        return waiting.pop(0) if waiting else ""

    def _fault(self, key: str, only: tuple[str, ...] = ("429", "500", "503", "hang")) -> bool:
        waiting = self.shared.faults.get(key)
        if not waiting or waiting[0] not in only:
            return False
        fault = waiting.pop(0)
        if fault == "hang":
            time.sleep(3)
            self.close_connection = True
            return True
        if fault == "429":  # who is busy says when to come again; the client waits a second more than that
            self._error(429, "busy", headers={"Retry-After": "0"})
        else:
            self._error(int(fault), "failing")
        return True

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, message: str, code: str = "", headers: dict[str, str] | None = None) -> None:
        data = json.dumps({"error": message}).encode()
        self.send_response(status)
        for name, value in {"X-Error-Code": code, "X-Error-Message": message, **(headers or {})}.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def pull(hub: Hub, target: Path, **more: object) -> pulling.Pulled:
    """Pull that repository."""
    return pulling.pull(REPO, target, endpoint=hub.url, **more)  # type: ignore[arg-type]


def gets(hub: Hub, name: str) -> int:
    """How often a file whose name ends so was asked for."""
    return sum(line.startswith("GET /datasets/") and line.endswith(name) for line in hub.requests)
