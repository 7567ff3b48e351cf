"""A PostgreSQL of one's own: a new cluster in a temporary folder, reached by a Unix socket there, gone at the end."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USERS = ("postgres", "nobody")
"""Who may own the cluster where we are root: PostgreSQL refuses to be run by root."""
START_S = 60.0


class PostgresMissing(RuntimeError):
    """There is no PostgreSQL here, or nobody to run it as; says which."""


def programs() -> tuple[str, str]:
    """The paths of initdb and postgres, on PATH or where Debian puts them. Raises `PostgresMissing`."""
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    initdb, postgres = shutil.which("initdb", path=path), shutil.which("postgres", path=path)
    if not initdb or not postgres:
        raise PostgresMissing("no initdb and postgres on PATH or in /usr/lib/postgresql (Debian: postgresql)")
    return initdb, postgres


def _owner() -> dict[str, Any]:
    """Options of `subprocess` that make a process somebody else's, where we are root."""
    if os.getuid() != 0:
        return {}
    for name in USERS:
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise PostgresMissing(f"PostgreSQL refuses to be run by root, and none of the users {', '.join(USERS)} is here")


@dataclass
class Postgres:
    """A cluster with one server process; `url` is that of its database."""

    folder: Path
    program: str
    owner: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://vesper@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start the server and wait until it answers; one that was killed recovers first."""
        end = time.monotonic() + START_S
        while True:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [
                        self.program,
                        "-D",
                        str(self.folder / "data"),
                        "-k",
                        str(self.folder),
                        "-c",
                        "listen_addresses=",
                        "-c",
                        "fsync=off",
                        "-c",
                        "shared_buffers=32MB",
                        "-c",
                        "max_connections=200",
                    ],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    **self.owner,
                )
            while self.process.poll() is None:  # it ends at once while processes of a killed one are still there
                if self.answers():
                    return
                if time.monotonic() > end:
                    break
                time.sleep(0.05)
            if time.monotonic() > end:
                raise PostgresMissing(f"PostgreSQL didn't start: {(self.folder / 'log').read_text()[-600:]}")
            time.sleep(0.2)

    def answers(self) -> bool:
        import psycopg2

        try:
            psycopg2.connect(self.url.replace("+psycopg2", ""), connect_timeout=2).close()
        except psycopg2.Error:
            return False
        return True

    def kill(self) -> None:
        """`kill -9`, of the server and of all that work for it."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)

    def stop(self) -> None:
        """Ask it to end at once, in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server with an empty database. Raises `PostgresMissing`."""
    initdb, program = programs()
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path is short, and its folder others' too
    try:
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        made = subprocess.run(
            [initdb, "-D", str(folder / "data"), "-U", "vesper", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            **owner,
        )
        if made.returncode:
            raise PostgresMissing(f"initdb failed: {made.stderr.strip()[-400:]}")
        (folder / "log").touch()
        server = Postgres(folder, program, owner)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
