"""What our local pages share: an address with a token, strict headers, JSON answers, and a server on the loopback.

The address holds a token made at each start (or a key that a person set, so that links last), and all else lies below
it; there is no cookie, which a browser would send to every other port of this machine. Every request must name this
server as its Host and mustn't come from another page; a POST must bear this page's own Origin, as JSON
(`pipelines.http_guard`). Scripts and styles run only from the package's own files (Content-Security-Policy).
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.http_guard import FRAMING, App, Guard, Scope
from pipelines.ports import named_port

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

HOST = "127.0.0.1"
MAX_BODY = 64 * 1024
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    **FRAMING,
}
Refused = tuple[type[Exception], ...]
"""Errors whose message is the answer to a bad request; any other is a bug and answers 500."""
_KEY = re.compile(r"[A-Za-z0-9_-]{24,128}")


class BehindToken:
    """ASGI layer: answers only below `/<token>/`, and takes the token off the path. No websockets, no long bodies.
    `command` is who prints the address."""

    def __init__(self, app: App, token: str, command: str, max_body: int = MAX_BODY) -> None:
        self._app, self._token, self._command, self._max_body = app, token, command, max_body

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, or pass on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        from starlette.responses import PlainTextResponse

        status, why = self._refuses(scope)
        if status:
            await PlainTextResponse(f"refused: {why}\n", status, dict(HEADERS))(scope, receive, send)
            return
        # The page sees addresses without the token.
        path = "/" + scope["path"].partition("/")[2].partition("/")[2]
        await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    def _refuses(self, scope: Scope) -> tuple[int, str]:
        """(status, reason), or (0, "")."""
        token, slash, _ = scope["path"].removeprefix("/").partition("/")
        # Compared in constant time below: the token mustn't be guessed byte by byte.
        if not slash or not _same(token, self._token):
            return 403, f"open the address that `{self._command}` printed at this start; it holds a token"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "GET and POST only"
        length = dict(scope["headers"]).get(b"content-length", b"")
        # Without a length it could go on for ever.
        if scope["method"] == "POST" and (not length.isdigit() or int(length) > self._max_body):
            return 413, f"expected a body of at most {self._max_body} bytes, with its length"
        return 0, ""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def guarded_page(routes: list[BaseRoute], port: int, token: str, command: str, max_body: int = MAX_BODY) -> App:
    """Routes as an ASGI application that only the page itself, at its own address, can use."""
    from starlette.applications import Starlette

    hosts = {f"{HOST}:{port}", f"localhost:{port}"}
    guarded = Guard(
        Starlette(routes=routes), hosts=hosts, entrance=lambda path: path == "/", needs_origin=True, headers=HEADERS
    )
    return BehindToken(guarded, token, command, max_body)


def file_routes(folder: Path, files: Mapping[str, tuple[str, str]]) -> list[BaseRoute]:
    """Routes of a page's own files. `files`: path → (name in `folder`, media type)."""
    from starlette.routing import Route

    return [Route(path, partial(_file, folder / name, kind)) for path, (name, kind) in files.items()]


async def _file(path: Path, kind: str, request: Request) -> Response:
    from starlette.responses import FileResponse

    return FileResponse(path, media_type=kind, headers={"Cache-Control": "no-cache"})


async def posted(call: Callable[[Any], object], refused: Refused, request: Request) -> Response:
    """A POST's JSON through `call`, in a thread; its answer as JSON."""
    from starlette.responses import JSONResponse

    body = await request.body()
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return JSONResponse({"error": "expected JSON"}, 400)
    return await answered(call, plain, refused)


async def answered(call: Callable[[Any], object], given: object, refused: Refused) -> Response:
    """`call(given)`, in a thread, as JSON; 400 with its message where it raises what is `refused`."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    try:
        # In a thread, as SQLite and Parquet would block all other requests.
        plain = await run_in_threadpool(call, given)
    except refused as error:
        return JSONResponse({"error": str(error)}, 400)
    # Answers change with every click.
    return JSONResponse(plain, headers={"Cache-Control": "no-store"})


def page_key(text: str | None, name: str) -> str:
    """The token of an address: a new one, or the one that the variable `name` sets. Raises `ValueError` for one that
    could be guessed or doesn't fit into an address."""
    if not text:
        return secrets.token_urlsafe(24)
    if not _KEY.fullmatch(text):
        raise ValueError(f"{name}: expected 24 to 128 letters, digits, - and _, found {len(text)} characters")
    return text


def serve_page(make: Callable[[int], App], token: str, port: int, report: Callable[[str], None]) -> None:
    """Serve until interrupted. `make`: port → application; `report` is given the address once it can be opened. Raises
    `OSError` if the port is taken."""
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # A page that was just stopped may be started again at once.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with named_port(HOST, port):
            listener.bind((HOST, port))
        listener.listen(128)
        # The real one, where 0 was asked for.
        real = listener.getsockname()[1]
        config = uvicorn.Config(
            # Addresses hold the token, so none is logged.
            make(real),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        report(f"http://{HOST}:{real}/{token}/")
        uvicorn.Server(config).run(sockets=[listener])
