"""Serves the page of FSM sites on loopback, for browsers that are devices.

The page has the two functions that a device's driver calls (`reset_function`, `state_function`), and the browser's own
Back leads within the site. `vesper devices sites` serves it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pipelines.ports import named_port

FSM = Path(__file__).parent / "fsm"
HOST = "127.0.0.1"
SITE_PATH = "/fsm/device.html"
HARNESS = """<script>
'use strict';
let deviceSite = null;
function deviceReset(given) {
  deviceSite = given.site;
  fsmOpen(given.site, given.start);
  history.pushState(null, '');  // so that Back stays in the page and is the site's
}
function deviceState() { return deviceSite ? { state: fsmState(), places: fsmPlaces() } : { state: null, places: [] }; }
addEventListener('popstate', () => { if (deviceSite) { fsmBack(); history.pushState(null, ''); } });
</script>
"""
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


def _files() -> dict[str, tuple[str, bytes]]:
    """Everything there is to serve: path → (type, bytes). No path is ever made from a request."""
    # The harness is added here, so that the page of the world itself stays without it.
    page = (FSM / "site.html").read_text("utf-8").replace("</body>", f"{HARNESS}</body>")
    found = {SITE_PATH: ("text/html; charset=utf-8", page.encode())}
    for name in ("style.css", "layout.js", "runtime.js"):
        kind = _TYPES[Path(name).suffix]
        found[f"/fsm/{name}"] = (f"{kind}; charset=utf-8", (FSM / name).read_bytes())
    return found


class _SiteHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes: the second would wait some 40 ms until the browser has told of the first.
    disable_nagle_algorithm = True
    timeout = 30
    files: dict[str, tuple[str, bytes]] = {}

    def do_GET(self) -> None:
        # Looked up and never opened: a path in a request names one of these or nothing.
        kind, body = self.files.get(self.path.partition("?")[0], ("", b""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: these are the devices' own requests."""


class _SiteServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away in the middle is no error of the server's; anything else is reported."""
        # OSError: the peer went away.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serve_sites(port: int = 0) -> Iterator[str]:
    """Address of the page of FSM sites while the block lasts. Raises `OSError` for a port that is taken."""
    # Files belong to this server's own handler class: two servers share nothing.
    handler = type("Handler", (_SiteHandler,), {"files": _files()})
    with named_port(HOST, port):
        server = _SiteServer((HOST, port), handler)
    thread = threading.Thread(target=server.serve_forever, name="sites", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}{SITE_PATH}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
