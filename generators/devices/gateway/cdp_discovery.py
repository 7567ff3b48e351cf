"""CDP's HTTP discovery through a gateway: the browser's answer, with its addresses changed to the gateway's."""

import json
import re
from typing import Any

HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_SOCKET = re.compile(r"wss?://[^/]*(/.*)", re.DOTALL)
_FRONTEND = re.compile(r"([?&])wss?=[^/&]*(/[^&]*)")


def rewrite(body: bytes, websocket: str, base: str) -> bytes:
    """JSON of `/json/version`, `/json/list`, `/json/new`: every `webSocketDebuggerUrl` becomes
    `websocket://base/devtools/…`, and `devtoolsFrontendUrl` points there too. `base` = host, port and path prefix.
    Raises `ValueError` for what is no JSON."""
    found = json.loads(body)
    for item in found if isinstance(found, list) else [found]:
        # a page is no object in some answers of old browsers
        if isinstance(item, dict):
            _rewrite_one(item, websocket, base)
    return json.dumps(found, indent=1).encode()


def _rewrite_one(item: dict[str, Any], websocket: str, base: str) -> None:
    url = item.get("webSocketDebuggerUrl")
    if isinstance(url, str) and (match := _SOCKET.fullmatch(url)):
        item["webSocketDebuggerUrl"] = f"{websocket}://{base}{match.group(1)}"
    front = item.get("devtoolsFrontendUrl")
    if isinstance(front, str):
        item["devtoolsFrontendUrl"] = _FRONTEND.sub(
            lambda match: f"{match.group(1)}{websocket}={base}{match.group(2)}", front
        )
