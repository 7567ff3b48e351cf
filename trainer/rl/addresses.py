"""When two addresses are one to a browser."""

import re
from urllib.parse import quote, urlsplit

_NO_SLASHES = re.compile(r"(?:about|blob|chrome|data|file|intent|javascript|mailto|sms|tel):", re.IGNORECASE)
"""Schemes whose addresses have no `//`; the `localhost:` of localhost:8000 is none."""
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_KEPT = "".join(chr(code) for code in range(33, 127))


def same_address(one: str, other: str) -> bool:
    """Whether a browser opens the same page for both: scheme and host in any case, `https` where no scheme is said or
    `http` is, with or without `www.`, the standard port and the `/` of a bare host, other letters than ASCII as they
    are or escaped."""
    return _parts(one) == _parts(other)


def _parts(text: str) -> tuple[str, ...]:
    text = text.strip()
    try:
        # `localhost:8000` would be read as a scheme: an address has one
        # only with `//` or if it is a known one
        split = urlsplit(text if "://" in text or _NO_SLASHES.match(text) else f"https://{text}")
        port = split.port
    except ValueError:  # a host or a port that none can have
        return (text,)
    if not split.hostname:
        return (text,)
    # browsers open http and https of a host as the same page, mostly by a redirect
    scheme = "https" if split.scheme == "http" else split.scheme
    host = _ascii_host(split.hostname).rstrip(".").removeprefix("www.")
    path = "" if split.path == "/" else split.path
    behind = (_encoded(part) for part in (path, split.query, split.fragment))
    return scheme, host, "" if port in (None, 80, 443) else str(port), *behind


def _ascii_host(host: str) -> str:
    """The name as it is looked up: bücher.example is xn--bcher-kva.example."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:  # a name that none can have
        return host


def _encoded(part: str) -> str:
    """With other letters than ASCII as a browser sends them, and the digits of `%2F` in capitals."""
    return _ESCAPED.sub(lambda found: found[0].upper(), quote(part, safe=_KEPT))
