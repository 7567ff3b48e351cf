"""What an engine is: it calls a function by name, once for each argument, wherever it likes.

Nothing comes back from a call but its end or its error: what a part made is told by its receipt in the store, which
`run_parts` looks for afterwards.
"""

import contextlib
import gc
import socket
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pipelines.extensions import find_part

ANSWERS_S = 5.0
COLLECT_FROM = 100_000
"""Containers that a part makes, less those it lets go, before Python looks for cycles among them; usually 700."""


class EngineError(RuntimeError):
    """An engine can't run parts, or what they made isn't to be seen from here."""


class PartsEngine(Protocol):
    """Built from an `EngineChoice`."""

    def require(self) -> None:
        """Ask, before anything is run, for what it runs on. Raises `MissingExtra` without its package, `EngineError`
        where its cluster doesn't answer."""

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        """Call `function` (`module:name`, see `call`) with each of `arguments`, which can be pickled; return when all
        calls have ended.

        `ended` is told the place of each call that ended well, in this process, as soon as that is known. After a
        call's first error no further one is begun; the error is raised when those under way have ended.
        """


def connect_to(address: str) -> None:
    """Raises `OSError` or `ValueError` where nobody listens at `HOST:PORT`, or at a URL of it."""
    where = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
    socket.create_connection((where.hostname or "", where.port or 0), ANSWERS_S).close()


def name_of(function: Callable[..., object]) -> str:
    """`module:name`, by which a worker finds the function. Raises `ValueError` for one that nobody can import."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise ValueError(f"expected a function at the top of a module that workers can import, found {module}:{name}")
    return f"{module}:{name}"


def call(function: str, argument: object) -> None:
    """Call a function by its name: what each engine runs for each part. The name of the part's function leads to it in
    any process that has the same code."""
    with _seldom_collecting():
        find_part("part function", function, {})(argument)


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """A part's rows are plain trees, freed by reference counts: looking for cycles among millions of their pieces takes
    up to a third of the time and finds nothing. Not never, as a judge or deriver of somebody else may make some."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_FROM, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
