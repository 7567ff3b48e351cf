"""When two addresses are one to a browser."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_NO_SLASHES = re.compile(r"(?:about|blob|chrome|data|file|intent|javascript|mailto|sms|tel):", re.IGNORECASE)
"""Schemes whose addresses have no `//`; the `localhost:` of localhost:8000 is none."""


def same_address(one: str, other: str) -> bool:
    """Whether a browser opens the same page for both: scheme and host in any case, `https` where no scheme is said or
    `http` is, with or without `www.`, the standard port and the `/` of a bare host."""
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
    host = split.hostname.rstrip(".").removeprefix("www.")
    path = "" if split.path == "/" else split.path
    return scheme, host, "" if port in (None, 80, 443) else str(port), path, split.query, split.fragment
