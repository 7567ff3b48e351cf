"""A port that can't be opened, told in one line: which, why, who holds it, and what to say instead."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_OF_THE_PORT = {errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL, errno.EPERM}


@contextmanager
def named_port(host: str, port: int, instead: str = "--port") -> Iterator[None]:
    """Around what listens on (host, port): an `OSError` of the port is raised again as one that names it; a number that
    no port has is a `ValueError`.

    `instead` is the flag or setting that chooses another port."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"port: expected 0 to 65535, found {port}; choose another by {instead}") from error
    except OSError as error:
        if error.errno not in _OF_THE_PORT:
            raise
        raise OSError(error.errno, f"{_why(error.errno, host, port)}; choose another by {instead}") from error


def _why(number: int, host: str, port: int) -> str:
    if number == errno.EADDRNOTAVAIL:
        return f"can't listen on {host}: this machine has no such address"
    if number != errno.EADDRINUSE:
        return f"can't listen on port {port} of {host}: not permitted (below 1024 a port needs rights)"
    holder = _holder(port)
    return f"can't listen on port {port} of {host}: it is taken" + (f" by {holder}" if holder else "")


def _holder(port: int) -> str:
    """The process that listens on a port, as far as this user may see it."""
    try:
        found = psutil.net_connections("tcp")
        pid = next(c.pid for c in found if c.status == psutil.CONN_LISTEN and c.laddr.port == port and c.pid)
        return f"process {pid} ({psutil.Process(pid).name()})"
    except (psutil.Error, OSError, StopIteration):
        return ""
