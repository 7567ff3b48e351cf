"""Heads of HTTP/1.1 messages, read strictly: what two readers could understand differently is refused."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

LIMIT = 16_384
"""Bytes of a head, its blank line with it."""
END = b"\r\n\r\n"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class BadHead(ValueError):
    """Not a head of HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """`start` = the three parts of the first line; headers in order, as they came."""

    start: tuple[str, str, str]
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Value of a header ("" if it isn't there). Raises `BadHead` if it stands there twice."""
        # headers are compared without case
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        if len(found) > 1:
            # two of a kind: a proxy might read the one and a server the other
            raise BadHead(f"header {name}: expected once, found {len(found)} times")
        return found[0] if found else ""

    def without(self, *names: str) -> list[tuple[str, str]]:
        """The headers but these."""
        dropped = {name.lower() for name in names}
        return [(key, value) for key, value in self.headers if key.lower() not in dropped]


def read_head(raw: bytes) -> HttpHead:
    """A head up to and with its blank line."""
    if not raw.endswith(END):
        raise BadHead("head: expected a blank line at its end")
    first, *lines = raw[: -len(END)].decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    # the target has neither blanks nor control characters, so no request can be split
    if len(parts) != 3 or not all(parts[:2]) or not _TARGET.fullmatch(parts[1]) or not _VALUE.fullmatch(parts[2]):
        raise BadHead("head: expected a first line of three parts")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadHead("head: expected lines of 'Name: value'")
        headers.append((name, value.strip(" \t")))
    return HttpHead((parts[0], parts[1], parts[2]), tuple(headers))


def write_head(start: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Bytes of a head."""
    return "".join((f"{start}\r\n", *(f"{name}: {value}\r\n" for name, value in headers), "\r\n")).encode("latin-1")


def write_reply(status: int, body: bytes, kind: str = "text/plain; charset=utf-8", **headers: str) -> bytes:
    """A whole reply after which the connection is closed."""
    more = [(name.replace("_", "-"), value) for name, value in headers.items()]
    length = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
    return write_head(f"HTTP/1.1 {status} {REASONS[status]}", [*length, *more]) + body
