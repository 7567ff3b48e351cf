"""When two addresses are one to a browser."""

import re
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

_NO_SLASHES = re.compile(r"(?:about|blob|chrome|data|file|intent|javascript|mailto|sms|tel):", re.IGNORECASE)
"""Schemes whose addresses have no `//`; the `localhost:` of localhost:8000 is none."""
_WEB = re.compile(r"(https?):[/\\]*|[/\\]{2}", re.IGNORECASE)
"""How an address of the web may begin in a browser's address bar: with any number of slashes, or without its scheme."""
_PORTS = {"http": 80, "https": 443}
_ESCAPED = re.compile(r"%[0-9a-fA-F]{2}")
_KEPT = "".join(chr(code) for code in range(33, 127))


def same_address(one: str, other: str) -> bool:
    """Whether a browser opens the same page for both: scheme and host in any case, `https` where no scheme is said or
    `http` is, with or without `www.`, the scheme's own port and the `/` of a bare host, with `..` in a path or where
    it leads, letters as they are or escaped."""
    return _parts(one) == _parts(other)


def _parts(text: str) -> tuple[str, ...]:
    text = text.strip()
    if web := _WEB.match(text):
        text = f"{web[1] or 'https'}://{text[web.end() :]}"
    try:
        # `localhost:8000` would be read as a scheme: an address has one
        # only with `//` or if it is a known one
        split = urlsplit(text if "://" in text or _NO_SLASHES.match(text) else f"https://{text}")
        port = split.port
    except ValueError:  # a host or a port that none can have
        return (text,)
    if not split.hostname:
        return (split.geturl(),)  # its scheme in small letters
    # browsers open http and https of a host as the same page, mostly by a redirect
    scheme = "https" if split.scheme == "http" else split.scheme
    host = _ascii_host(split.hostname).rstrip(".").removeprefix("www.")
    # As a browser does: resolved before it is asked for; two slashes at the start would name a host.
    path = split.path if split.path.startswith("//") else urlsplit(urljoin("https://h/", split.path)).path
    path = "" if path == "/" else path
    behind = (_encoded(part) for part in (path, split.query, split.fragment))
    return scheme, host, "" if port in (None, _PORTS.get(split.scheme)) else str(port), *behind


def _ascii_host(host: str) -> str:
    """The name as it is looked up: bücher.example is xn--bcher-kva.example."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # a name that none can have
        return host


def _encoded(part: str) -> str:
    """With other letters than ASCII as a browser sends them, `%7e` as `~`, and the digits of `%2F` in capitals."""
    return _ESCAPED.sub(lambda found: quote(unquote_to_bytes(found[0]), safe=""), quote(part, safe=_KEPT))
