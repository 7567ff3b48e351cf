"""Runs one app on a socket that the parent opened: `python -m …serve APP FILE_DESCRIPTOR FOLDER`.

Ends when its standard input does, so that it outlives no parent, not even one that was killed.
"""

import importlib
import os
import socket
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

APPS = {
    "datasette": "generators.worlds.webapps.datasette.application",
    "django_admin": "generators.worlds.webapps.django_admin.application",
}
"""App → module with `open_application(folder)`, a context manager that gives an ASGI app."""
END_S = 4.0


def _end_with(server: Any) -> None:
    """Wait for the end of standard input, then end the server, by force if need be."""
    while sys.stdin.buffer.read(1):
        pass
    # Also requests that still run: the world is gone.
    server.should_exit = server.force_exit = True
    threading.Event().wait(END_S)
    os._exit(0)


def main(app: str, descriptor: int, folder: Path) -> None:
    """Serve until standard input ends."""
    import uvicorn

    module = importlib.import_module(APPS[app])
    opened: AbstractContextManager[Any] = module.open_application(folder)
    # The socket was opened by the parent, so nobody could take the port meanwhile.
    with opened as application, socket.socket(fileno=descriptor) as listener:
        config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        threading.Thread(target=_end_with, args=(server,), daemon=True).start()
        server.run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
