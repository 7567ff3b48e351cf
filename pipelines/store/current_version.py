"""Which version of an asset others read, and the journal of how that changed.

    <asset>/current.json      the pointer: {"version", "data_version"}, and `change` where a person set it
    <asset>/promotions.jsonl  one line a change: what is current, what was, who, when, why
    <asset>/pointer.lock      held (flock) while both are changed; the kernel frees it when its holder dies

The pointer is the only truth: it is put whole, in one step, and carries its own line of the journal. A process killed
before that put leaves the old version current, one killed after it the new one; whoever comes next writes the line that
is missing. What a person replaced doesn't become current again by a rerun of equal inputs, only by a promotion.
"""

import contextlib
import fcntl
import getpass
import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pipelines.store.files import StoreError
from pipelines.store.object_store.binding import copies_of

Action = Literal["built", "promoted", "rolled back", "taken down"]
JOURNAL, POINTER, LOCK = "promotions.jsonl", "current.json", "pointer.lock"
Put = Callable[[Path, str], None]
"""Makes a small file appear whole or not at all."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VersionChange:
    """One change of the current version. `before` is None for the first; `forced` tells that its checks had failed."""

    version: str
    before: str | None
    action: Action
    who: str
    when: str
    """UTC, ISO 8601."""
    why: str
    forced: bool = False

    def line(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False) + "\n"


def now() -> str:
    """UTC to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def user() -> str:
    """Who runs this process: $USER, else the account's name, else its number."""
    try:
        return os.environ.get("USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def read_pointer(root: Path) -> dict[str, Any]:
    """The pointer of an asset's folder; empty if there is none. Raises `StoreError` if it isn't one."""
    try:
        text = read_small(root / POINTER)
        if text is None:
            return {}
        plain = json.loads(text)
    except ValueError as error:
        # It may be the local copy that is damaged: ask the store behind the URL again.
        forget(root / POINTER)
        raise StoreError(f"{root / POINTER}: expected a pointer to a version, found no JSON ({error})") from None
    if not isinstance(plain, dict) or not isinstance(plain.get("version"), str):
        forget(root / POINTER)
        raise StoreError(f"{root / POINTER}: expected an object with a `version`, found {str(plain)[:80]!r}")
    return plain


def read_history(root: Path) -> list[VersionChange]:
    """The journal, oldest first. A last line cut by a crash is passed over: the pointer knows it."""
    path = root / JOURNAL
    try:
        text = read_small(path)
        if text is None:
            return []
        # The last piece is what follows the last newline: empty, or cut by a crash.
        return [VersionChange(**json.loads(line)) for line in text.split("\n")[:-1]]
    except (TypeError, ValueError) as error:
        forget(path)
        raise StoreError(f"{path}: expected one change of the current version a line, found {error}") from None


def set_aside(history: list[VersionChange]) -> frozenset[str]:
    """Versions that a person replaced and nobody promoted since."""
    found: set[str] = set()
    for change in history:
        # Any decision of a person on a version takes it back from the shelf; a build of it doesn't.
        found.discard(change.version) if change.action != "built" else None
        if change.action in ("promoted", "rolled back") and change.before not in (None, change.version):
            found.add(str(change.before))
    return frozenset(found)


@contextlib.contextmanager
def holding(root: Path) -> Iterator[None]:
    """Nobody else changes the pointer meanwhile, in any process of this machine; it takes moments, so one waits.
    Another machine that does is noticed by the conditional PUT (see `pipelines.store.object_store`)."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def settle(root: Path) -> list[VersionChange]:
    """Write the line that a killed process left out; the whole journal. To be called `holding` the asset."""
    history, pointer = read_history(root), read_pointer(root)
    # A person's change stands whole in the pointer, so its line can be written however often it got lost.
    if pointer and (change := pointer.get("change")) is not None:
        last = VersionChange(**change)
        if not history or history[-1] != last:
            history = _append(root, history, last)
    elif pointer and (not history or history[-1].version != pointer["version"]):
        # A build's pointer says only the version; its line is made up here, by whoever comes next.
        before = history[-1].version if history else None
        history = _append(root, history, VersionChange(pointer["version"], before, "built", user(), now(), "a build"))
    return history


def point(root: Path, change: VersionChange, data_version: str, put: Put) -> None:
    """Make a version current as a person asked for. To be called `holding` the asset, after `settle`."""
    plain = {"version": change.version, "data_version": data_version, "change": asdict(change)}
    replace_small(root / POINTER, json.dumps(plain, sort_keys=True, ensure_ascii=False), put)
    settle(root)


def point_built(root: Path, version: str, data_version: str, put: Put) -> bool:
    """Make a version current whose build has just passed its checks; False if a person had set it aside."""
    with holding(root):
        history, pointer = settle(root), read_pointer(root)
        # A rerun of equal inputs is no change, and the journal shouldn't grow by one line a night.
        if (pointer.get("version"), pointer.get("data_version")) == (version, data_version):
            return True
        # Somebody went back from this version for a reason: the nightly rerun must not undo that.
        if version in set_aside(history):
            logger.warning(
                "%s: %s was replaced by somebody, so %s stays current; `vesper promote` takes it back",
                root.name,
                version,
                pointer.get("version"),
            )
            return False
        replace_small(
            root / POINTER, json.dumps({"version": version, "data_version": data_version}, sort_keys=True), put
        )
        settle(root)
        return True


def _append(root: Path, history: list[VersionChange], change: VersionChange) -> list[VersionChange]:
    """One whole line at the end, on disk when this returns. What a crash left of a line goes first."""
    path = root / JOURNAL
    if (copies := copies_of(root)) is not None:
        # Objects can't be appended to: the journal is put whole.
        text = "".join(one.line() for one in [*history, change])
        copies.replace_text(path, text)
        return [*history, change]
    # Up to the last newline all lines are whole; what follows was cut.
    whole = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
    with path.open("r+b" if path.exists() else "wb") as stream:
        stream.truncate(whole)
        stream.seek(whole)
        stream.write(change.line().encode())
        stream.flush()
        os.fsync(stream.fileno())
    return [*history, change]


def read_small(path: Path) -> str | None:
    """A pointer, alias or journal as it is now, in the store behind a URL if there is one; None if it isn't there."""
    if (copies := copies_of(path.parent)) is not None:
        return copies.read_text(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def forget(path: Path) -> None:
    """A small file that came from behind a URL is damaged: it is read anew the next time."""
    if (copies := copies_of(path.parent)) is not None:
        copies.forget(path)


def replace_small(path: Path, text: str, put: Put) -> None:
    """Put a pointer: behind a URL only in place of the one that was read. Raises `StoreError` if that has changed."""
    if (copies := copies_of(path.parent)) is not None:
        copies.replace_text(path, text)
    else:
        put(path, text)
