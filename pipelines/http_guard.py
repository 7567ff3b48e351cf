"""What stands before every server of ours: an ASGI layer that answers whoever asks for this server by its own name,
from its own pages or from no page at all.

A browser sends a request for any page that asks it to. So a server without a login, on loopback or behind a tunnel, is
in reach of every page that a person opens, by a form, an image, a script, or a name that is pointed at this machine
after the page was loaded. Each of those shows in what the browser adds to the request (Host, Origin, Sec-Fetch-*), or
in the form of a body that a page may send without being asked whether it may (anything but JSON).
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which a server on this machine's loopback is asked for."""
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing. OPTIONS is what a browser asks before a page's request; no answer of ours allows it."""
FRAMING = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers that keep answers out of other pages' frames, windows and elements."""

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request isn't answered; `code` is one word for programs."""

    status: int
    code: str
    message: str


def plain_text(refusal: Refusal) -> tuple[int, str, bytes]:
    """A refusal as (status, media type, body)."""
    return refusal.status, "text/plain; charset=utf-8", f"refused: {refusal.message}\n".encode()


class Guard:
    """The layer. `hosts`: what a Host header may be, with its port or without (then any port; empty: any host).

    `entrance` says of a path whether another page may lead a person there (a link, never an element or a frame).
    `executes` says of a path that a GET with a query does something there: it is refused. `needs_origin`: what changes
    state must come from a page of this server; else it may come from no page at all, as programs ask. `untyped`: a
    body may lack its type, as programs leave it out (a page's request would still bear an Origin). `headers` are put on
    every answer, refusals too; `written` gives a refusal its form.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: Collection[str],
        entrance: Callable[[str], bool] = lambda path: False,
        executes: Callable[[str], bool] = lambda path: False,
        needs_origin: bool = False,
        untyped: bool = False,
        headers: Mapping[str, str] = FRAMING,
        written: Callable[[Refusal], tuple[int, str, bytes]] = plain_text,
    ) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)
        self._entrance, self._executes, self._needs_origin = entrance, executes, needs_origin
        self._untyped = untyped
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._written = written

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in self._headers}
                remaining = [pair for pair in message.get("headers", ()) if pair[0].lower() not in named]
                message = {**message, "headers": [*remaining, *self._headers]}
            await send(message)

        refusal = self.refuses(scope)
        if refusal is None:
            await self._app(scope, receive, with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:120]})
        else:
            status, kind, body = self._written(refusal)
            length = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
            await with_headers({"type": "http.response.start", "status": status, "headers": length})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def refuses(self, scope: Scope) -> Refusal | None:
        """Why a request (or the opening of a websocket) isn't answered; None if it is."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        named = headers.get("host", [])
        if len(named) != 1 or not self._is_ours(named[0].lower()):
            return Refusal(421, "foreign_host", f"this server isn't {', '.join(named)[:80] or 'named'!r}")
        method = "GET" if scope["type"] == "websocket" else scope["method"]
        led = method in READING and "document" in headers.get("sec-fetch-dest", []) and self._entrance(scope["path"])
        if not led and any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            return Refusal(403, "foreign_page", "a request of another page")
        origins = headers.get("origin", [])
        if any(_place(origin) != named[0].lower() for origin in origins):
            return Refusal(403, "foreign_page", "a request of another page")
        if method in READING:
            if scope.get("query_string") and self._executes(scope["path"]):
                return Refusal(405, "not_by_get", "asked by GET; ask by POST, as application/json")
            return None
        if self._needs_origin and not origins:
            return Refusal(403, "foreign_page", "a POST must come from the page itself")
        kinds = headers.get("content-type", [])
        untyped = self._untyped and not kinds
        if not untyped and [kind.partition(";")[0].strip().lower() for kind in kinds] != ["application/json"]:
            return Refusal(415, "not_json", "expected application/json")
        return None

    def _is_ours(self, host: str) -> bool:
        name = re.sub(r":\d{1,5}$", "", host)
        return not self._hosts or host in self._hosts or name.removeprefix("[").removesuffix("]") in self._hosts


def _place(origin: str) -> str:
    """Host and port of an Origin; empty for `null` and for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
