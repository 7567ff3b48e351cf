"""An `ArgumentParser` whose errors name the nearest of what is known, and errors of the system as people read them."""

import argparse
import errno
from collections.abc import Sequence
from typing import Any

from schemas.settings import near, nearest

_WHY = {
    errno.ENOENT: "no such file or folder",
    errno.EACCES: "no permission; choose a place that you may read and write",
    errno.EPERM: "not permitted; choose a place that you may read and write",
    errno.EROFS: "can't be written: read-only file system",
    errno.ENOSPC: "no space left on the device",
    errno.ENOTDIR: "expected a folder, found a file on the way to it",
    errno.EISDIR: "expected a file, found a folder",
    errno.EEXIST: "expected a folder, found a file of that name",
}


class HelpfulParser(argparse.ArgumentParser):
    """Its subparsers are of the same kind."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"unknown {value!r}; {nearest(str(value), known)}")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the base does; what a command itself doesn't know ends here, where its options are known."""
        found, rest = super().parse_known_args(args, namespace)
        # Only a command has `run`; above it unknown words belong to commands that come later.
        if rest and "run" in self._defaults:
            meant = (near(word.partition("=")[0], self._option_string_actions) for word in rest if word[:1] == "-")
            self.error("; ".join([f"unrecognized arguments: {' '.join(rest)}", *filter(None, meant)]))
        return found, rest


def said(error: BaseException) -> str:
    """One line for people: an `OSError` by its path and what is wrong with it, anything else by its own words."""
    why: Any = _WHY.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and error.filename is not None and why:
        # A copy names what it reads, then what it writes, which is what had no room.
        return f"{(error.errno == errno.ENOSPC and error.filename2) or error.filename}: {why}"
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return " ".join(error.strerror.split())
    return " ".join(str(error).split()) or type(error).__name__
