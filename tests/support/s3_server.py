"""An S3 server on loopback (moto), which can be told to fail: answer 500, hang, cut a body, lie, or be deaf."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

KEYS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Nobody's: the server takes any."""

Fault = Callable[[str, str], str]
"""(method, path) → "" (all is well), "500", "hang", "cut", "lie", "deaf" (to conditions), or "501" (to conditions)."""


class S3Server:
    """Runs in a thread of this process. `fault` decides what becomes of each request; `asked` lists them."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.fault: Fault = lambda method, path: ""
        self.asked: list[tuple[str, str]] = []
        self._over = threading.Event()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.asked.append((method, path))
        fault = self.fault(method, path)
        if fault == "hang":
            self._over.wait(30)
        if fault in ("500", "hang"):
            start("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        if fault == "501" and {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys() and method == "PUT":
            start("501 Not Implemented", [("Content-Length", "0")])
            return [b""]
        if fault == "deaf":
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ.pop("HTTP_IF_MATCH", None)
        if fault != "lie":
            body = self._app(environ, start)
            if fault != "cut":
                return body
        else:  # with no checksum beside it that would give it away

            def start_bare(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                return start(status, [one for one in headers if "checksum" not in one[0].lower()], *rest)

            body = self._app(environ, start_bare)
        data = b"".join(body)
        return [data[: len(data) // 2]] if fault == "cut" else [bytes(byte ^ 1 for byte in data)]

    def bucket(self) -> str:
        """A bucket of its own; its name."""
        name = f"store-{uuid.uuid4().hex[:12]}"
        with urlopen(Request(f"{self.url}/{name}", method="PUT"), timeout=60):
            return name

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    try:
        yield server
    finally:
        server.close()
