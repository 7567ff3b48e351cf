"""What the servers ask of every request: the key, and a body that is a JSON object of limited size."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request


class RequestRefused(ValueError):
    """A request that isn't answered: HTTP status, the parameter at fault."""

    def __init__(self, status: int, message: str, param: str = "", code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, Any]:
        """In the form of OpenAI's protocol."""
        kind = "authentication_error" if self.status == 401 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param or None, "code": self.code}}


def check_key(headers: Mapping[str, str], key: str) -> None:
    """Raises `RequestRefused` (401) where a server with a key isn't given it."""
    given = headers.get("authorization", "").removeprefix("Bearer ")
    # in constant time, so that a wrong key's answer says nothing of the right one
    if key and not hmac.compare_digest(given.encode(), key.encode()):
        raise RequestRefused(401, "expected the server's key as `Authorization: Bearer …`", code="invalid_api_key")


async def read_object(request: Request, limit: int) -> dict[str, Any]:
    """The body as an object, read no further than `limit` bytes. Raises `RequestRefused` (400, 413)."""
    from starlette.requests import ClientDisconnect

    whole = bytearray()
    try:
        async for part in request.stream():
            # counted while it comes: a header may understate the size
            whole += part
            if len(whole) > limit:
                raise RequestRefused(413, f"expected a body of at most {limit} bytes", code="too_large")
    except ClientDisconnect:
        raise RequestRefused(400, "expected a whole body; the client went", code="bad_json") from None
    try:
        found = json.loads(bytes(whole))
    # JSON that is nested too deeply
    except (ValueError, RecursionError):
        raise RequestRefused(400, "expected a JSON body", code="bad_json") from None
    if not isinstance(found, dict):
        raise RequestRefused(400, f"expected a JSON object, found {type(found).__name__}", code="bad_json")
    return found
