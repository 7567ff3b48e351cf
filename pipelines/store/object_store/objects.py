"""Bytes by name behind an fsspec URL: read, put, create exclusively, replace conditionally, list, delete.

Whatever goes wrong is a `StoreError` of one line that names the URL, what was asked and what came back; a name that
isn't there is None. Each call ends within the time limit ($VESPER_STORE_TIMEOUT_S, default 60 s, and a second more for
each MB of a file) on protocols whose fsspec implementation is asynchronous (S3, GCS, Azure, HTTP); the others (SFTP,
...) end when their library gives up.

What `create` and `replace` promise depends on the store behind: see `Objects.exclusive`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pipelines.extras import install_line
from pipelines.store.files import StoreError

T = TypeVar("T")
TIMEOUT_S = 60.0
TRIES = 6
"""Of a request that fails; the waits between them double from 0.2 s, as a store that says "slow down" asks for."""
AT_ONCE = 16
"""Requests under way at a time."""
BYTES_PER_S = 1 << 20
"""The slowest line that a large file is given time for."""


MISSING = object()
"""What `Objects._ask` answers for an object that isn't there."""


@dataclass(frozen=True, slots=True)
class Found:
    """A small object's bytes, and the tag that a conditional read or write names them by ("" where there is none)."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it: bytes, and when it was written (seconds since 1970; now, if nobody says, for
    then it is too young to be collected)."""

    bytes: int
    made: float


def time_limit() -> float:
    """Seconds that a request may take. Raises `StoreError` if $VESPER_STORE_TIMEOUT_S isn't a number above 0."""
    said = os.environ.get("VESPER_STORE_TIMEOUT_S", "")
    try:
        seconds = float(said) if said else TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise StoreError(f"VESPER_STORE_TIMEOUT_S: expected seconds above 0, found {said[:40]!r}")
    return seconds


class Objects:
    """Objects of one URL through fsspec. Names are relative, joined by '/'."""

    exclusive = False
    """Whether `create` and `replace` are decided by the store in one step, whoever else writes. Here they are not: they
    look, write, and look again, so two writers within the same moment may both believe that they were first."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise StoreError(f"{url}: a store behind a URL needs fsspec; {install_line('s3')}") from None
        self.url = url.rstrip("/")
        self.timeout_s = time_limit()
        try:
            self.fs, self.base = fsspec.core.url_to_fs(self.url, **self.options())
        except (ImportError, ValueError) as error:
            raise StoreError(f"{url}: expected a URL that fsspec opens, found {_line(error)}") from None

    def options(self) -> dict[str, object]:
        """Of the file system: no listing is remembered, since other machines write too."""
        return {"use_listings_cache": False, "skip_instance_cache": True}

    def read(self, name: str, known: Found | None = None) -> Found | None:
        """An object's bytes; None if it isn't there; `known` itself where the store says that it is unchanged."""
        data = self._ask(f"reading {name}", "cat_file", self._at(name), missing=True)
        # No tag: this protocol has no conditional reads.
        return None if data is MISSING else Found(bytes(data), "")

    def put(self, name: str, data: bytes) -> None:
        """One PUT."""
        self._ask(f"writing {name}", "pipe_file", self._at(name), data, size=len(data))

    def create(self, name: str, data: bytes) -> bool:
        """Put an object that isn't there yet; False if it is."""
        if self.read(name) is not None:
            return False
        self.put(name, data)
        # Written and read back: of two writers in one moment the later one sees its own bytes.
        return self._is_ours(name, data)

    def replace(self, name: str, data: bytes, known: Found | None) -> bool:
        """Put an object in place of the one that was read (None: there was none); False if that has changed since."""
        if known is None:
            return self.create(name, data)
        now = self.read(name)
        if now is None or now.data != known.data:
            return False
        self.put(name, data)
        return self._is_ours(name, data)

    def _is_ours(self, name: str, data: bytes) -> bool:
        now = self.read(name)
        return now is not None and now.data == data

    def put_file(self, name: str, path: Path) -> None:
        """Write a file's bytes."""
        size = path.stat().st_size
        self._ask(f"writing {name} ({size} bytes)", "put_file", str(path), self._at(name), size=size)

    def get_file(self, name: str, path: Path, size: int) -> bool:
        """Write an object's bytes to a file; False if it isn't there. What arrived is for the caller to verify."""
        what = f"reading {name} ({size} bytes)"
        return self._ask(what, "get_file", self._at(name), str(path), missing=True, size=size) is not MISSING

    def size(self, name: str) -> int | None:
        """Bytes of an object; None if it isn't there."""
        found = self._ask(f"looking for {name}", "info", self._at(name), missing=True)
        return None if found is MISSING else int(found.get("size") or 0)

    def listing(self, folder: str) -> dict[str, Listed]:
        """All objects below a folder, by name."""
        found = self._ask(f"listing {folder or '/'}", "find", self._at(folder), missing=True, detail=True)
        # Names relative to the store, and nothing of a neighbour whose name begins alike.
        start = self.base.rstrip("/") + "/"
        listed = {} if found is MISSING else {p[len(start) :]: i for p, i in found.items() if p.startswith(start)}
        return {name: Listed(int(info.get("size") or 0), _made(info)) for name, info in listed.items()}

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, several at a time; one that is gone already is fine."""
        self.each(lambda name: self._ask(f"deleting {name}", "rm_file", self._at(name), missing=True), names)

    def each(self, function: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """Call a function for many names, several at a time; the first error is raised."""
        listed = list(names)
        if len(listed) < 2:
            return [function(name) for name in listed]
        with ThreadPoolExecutor(min(AT_ONCE, len(listed)), thread_name_prefix="vesper-store") as pool:
            return list(pool.map(function, listed))

    def _at(self, name: str) -> str:
        return f"{self.base.rstrip('/')}/{name}" if name else self.base

    def _ask(
        self,
        what: str,
        method: str | Callable[..., Any],
        *arguments: object,
        missing: bool = False,
        size: int = 0,
        **options: object,
    ) -> Any:
        """Call a method of the file system (or a coroutine function), again after an error that may pass, until the
        time is over; `MISSING` for what isn't there, if that is one of the answers. Raises `StoreError`."""
        # A large file has more time, by the slowest line that is worth waiting for.
        limit = self.timeout_s + size / BYTES_PER_S
        end = time.monotonic() + limit
        for attempt in range(1, TRIES + 1):
            try:
                return self._call(method, max(end - time.monotonic(), 0.1), *arguments, **options)
            except FileNotFoundError as error:
                # That an object isn't there is an answer; that its bucket isn't is none.
                if missing and not self._is_no_store(error):
                    return MISSING
                raise StoreError(f"{self.url}: {what} failed: {_line(error)}") from None
            except (PermissionError, FileExistsError) as error:
                # Rights don't come by waiting.
                raise StoreError(f"{self.url}: {what} failed: {_line(error)}") from None
            except Exception as error:
                left = end - time.monotonic()
                if _is_timeout(error) and (left <= 0.2 or attempt == TRIES):
                    raise StoreError(
                        f"{self.url}: {what} got no answer within {limit:.0f} s; is the store up and the URL right? "
                        "(VESPER_STORE_TIMEOUT_S sets the limit)"
                    ) from None
                if attempt == TRIES or left <= 0:
                    raise StoreError(f"{self.url}: {what} failed: {_line(error)}") from None
                # Doubled, as a store that says "slow down" wants it.
                time.sleep(min(0.1 * 2**attempt, left))
        raise AssertionError("the last try returns or raises")

    def _call(self, method: str | Callable[..., Any], limit: float, *arguments: object, **options: object) -> Any:
        # Synchronous file systems end when their own library gives up.
        if not getattr(self.fs, "async_impl", False):
            assert isinstance(method, str)
            return getattr(self.fs, method)(*arguments, **options)
        from fsspec.asyn import sync

        function = getattr(self.fs, f"_{method}") if isinstance(method, str) else method
        return sync(self.fs.loop, function, *arguments, timeout=limit, **options)

    def _is_no_store(self, error: BaseException) -> bool:
        """Whether it isn't the object that is missing but all that it would lie in."""
        return False


def _made(info: Mapping[str, object]) -> float:
    """When an object was written, whatever its protocol calls that."""
    for key in ("LastModified", "mtime", "updated", "last_modified", "created"):
        value = info.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
    # Too young to be collected: the safe answer where nobody knows.
    return time.time()


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, (TimeoutError, asyncio.TimeoutError)) or "Timeout" in type(error).__name__


def _line(error: BaseException) -> str:
    """An error on one line, without what a proxy may have put behind it."""
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
