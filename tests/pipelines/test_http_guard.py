"""The layer before our servers: what a foreign page can make a browser send is refused; programs and own pages pass."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pipelines.http_guard import LOOPBACK, Guard, Refusal

Headers = list[tuple[str, str]]
OURS = ("Host", "127.0.0.1:3000")
JSON = ("Content-Type", "application/json")


async def _app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"ALLOWALL")]})
    await send({"type": "http.response.body", "body": b"done"})


def ask(method: str, path: str, headers: Headers, kind: str = "http", **how: Any) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body); of a websocket 101 or the code that it was closed with."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode(), "headers": raw}
    guard = Guard(_app, hosts=how.pop("hosts", LOOPBACK), **how)
    asyncio.run(guard(scope, None, send))
    if kind == "websocket":
        return (101 if sent[0]["type"] == "websocket.accept" else sent[0]["code"]), {}, b""
    named = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], named, sent[1]["body"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([OURS], 200),
        ([("Host", "localhost")], 200),
        ([("Host", "LOCALHOST:7")], 200),
        ([("Host", "[::1]:3000")], 200),
        ([("Host", "evil.example")], 421),
        ([("Host", "127.0.0.1.evil.example:3000")], 421),
        ([("Host", "evil.example:127.0.0.1")], 421),
        ([("Host", "")], 421),
        ([], 421),
        ([OURS, ("Host", "evil.example")], 421),
        ([OURS, ("Origin", "http://127.0.0.1:3000")], 200),
        ([OURS, ("Origin", "http://localhost:3000")], 403),
        ([OURS, ("Origin", "http://127.0.0.1:8000")], 403),
        ([OURS, ("Origin", "http://evil.example")], 403),
        ([OURS, ("Origin", "null")], 403),
        ([OURS, ("Origin", "http://[")], 403),
        ([OURS, ("Origin", "http://127.0.0.1:3000"), ("Origin", "http://evil.example")], 403),
        ([OURS, ("Sec-Fetch-Site", "same-origin")], 200),
        ([OURS, ("Sec-Fetch-Site", "none")], 200),
        ([OURS, ("Sec-Fetch-Site", "same-site")], 403),
        ([OURS, ("Sec-Fetch-Site", "cross-site")], 403),
        ([OURS, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Dest", "document")], 403),
    ],
)
def test_host_origin_and_fetch_metadata(headers: Headers, status: int) -> None:
    assert ask("GET", "/", headers)[0] == status
    assert ask("POST", "/", [*headers, JSON])[0] == status
    assert ask("GET", "/", headers, "websocket")[0] == (101 if status == 200 else 1008)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_changes_state_is_json(kind: str) -> None:
    assert ask("POST", "/", [OURS, ("Content-Type", kind)])[0] == 415
    assert ask("POST", "/", [OURS, ("Content-Type", "text/plain; application/json")])[0] == 415
    assert ask("POST", "/", [OURS, JSON, ("Content-Type", "text/plain")])[0] == 415
    assert ask("DELETE", "/", [OURS, ("Content-Type", kind)])[0] == 415
    assert ask("POST", "/", [OURS, ("Content-Type", "Application/JSON; charset=utf-8")])[0] == 200
    assert ask("POST", "/", [OURS])[0] == 415
    assert ask("POST", "/", [OURS], untyped=True)[0] == 200
    assert ask("POST", "/", [OURS, ("Content-Type", kind)], untyped=True)[0] == 415


def test_a_link_leads_in_by_an_entrance_alone() -> None:
    foreign = [OURS, ("Sec-Fetch-Site", "cross-site")]

    def entrance(path: str) -> bool:
        return path == "/"

    assert ask("GET", "/", [*foreign, ("Sec-Fetch-Dest", "document")], entrance=entrance)[0] == 200
    assert ask("GET", "/a", [*foreign, ("Sec-Fetch-Dest", "document")], entrance=entrance)[0] == 403
    assert ask("GET", "/", [*foreign, ("Sec-Fetch-Dest", "iframe")], entrance=entrance)[0] == 403
    assert ask("GET", "/", [*foreign, ("Sec-Fetch-Dest", "image")], entrance=entrance)[0] == 403
    assert ask("POST", "/", [*foreign, JSON, ("Sec-Fetch-Dest", "document")], entrance=entrance)[0] == 403


def test_a_get_that_executes_is_refused() -> None:
    def executes(path: str) -> bool:
        return path == "/graphql"

    assert ask("GET", "/graphql?query=mutation", [OURS], executes=executes)[0] == 405
    assert ask("GET", "/graphql", [OURS], executes=executes)[0] == 200
    assert ask("GET", "/runs?query=1", [OURS], executes=executes)[0] == 200


def test_origin_may_be_needed_and_any_host_allowed() -> None:
    assert ask("POST", "/", [OURS, JSON], needs_origin=True)[0] == 403
    assert ask("POST", "/", [OURS, JSON, ("Origin", "http://127.0.0.1:3000")], needs_origin=True)[0] == 200
    assert ask("GET", "/", [("Host", "any.example")], hosts=())[0] == 200
    assert ask("GET", "/", [OURS], hosts=("127.0.0.1:3001",))[0] == 421


def test_answers_and_refusals_bear_the_headers() -> None:
    for headers in ([OURS], [("Host", "evil.example")]):
        _, found, _ = ask("GET", "/", headers)
        assert found["x-frame-options"] == "DENY" and found["x-content-type-options"] == "nosniff"
    status, found, body = ask("GET", "/", [("Host", "a")], written=lambda one: (400, "x/y", one.code.encode()))
    assert (status, found["content-type"], body) == (400, "x/y", b"foreign_host")
    assert ask("HEAD", "/", [("Host", "a")])[2] == b""
    assert isinstance(Guard(_app, hosts=()).refuses({"type": "http", "headers": []}), Refusal)
