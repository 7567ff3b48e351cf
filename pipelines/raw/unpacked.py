"""Members of an archive in a raw folder: those of another state of it go before those of a new one come.

    <raw root>/<source>/.vesper/unpacked/<archive>/<state>/         where a state is unpacked, before it is moved in
    <raw root>/<source>/.vesper/unpacked/<archive>/<state>.whole    its members, once all of them are unpacked
    <raw root>/<source>/.vesper/unpacked/<archive>/<state>.gone     members of a state that must go

An archive's folder may be the raw folder itself, with plain files and other archives' members in it: so members are
known by their names, not by where they lie. A state stays as it is until all of the next is unpacked: an update that
breaks off costs nothing of what is there. Killed at any moment, a second run ends it, whichever state it asks for.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from pipelines.raw.names import BOOK_KEEPING, local_path
from pipelines.raw.remote_file import PullError
from pipelines.whole_files import whole_file
from schemas.ids import digest

FOLDER = f"{BOOK_KEEPING}/unpacked"


class Unpacked:
    """One archive, whose members belong below `place` in the raw folder `target`, in one state (plain data that differs
    wherever the archive's bytes do)."""

    def __init__(self, target: Path, place: Path, archive: str, state: Any) -> None:
        self._target, self._place = target.resolve(), place.resolve()
        self._home = target / FOLDER / digest(archive)[:16]
        # Where it goes and what the archive was: another of either is another state.
        name = digest([self._place.relative_to(self._target).as_posix(), state])[:16]
        self._fresh, self._whole = self._home / name, self._home / f"{name}.whole"

    @property
    def known(self) -> bool:
        """Whether it is known which members any state of it has left."""
        return any(self._home.glob("*.whole")) or any(self._home.glob("*.gone"))

    @property
    def stands(self) -> bool:
        """Whether the members of this state were moved in, and none of another since: before they are, `retire_others`
        takes this state's list away. Another's may lie unpacked beside it."""
        there = self._whole.exists() and not self._fresh.is_dir() and not any(self._home.glob("*.gone"))
        return there and self._place.is_dir()

    def unpack(self, into: Callable[[Path], int]) -> None:
        """Have `into` unpack the archive into a folder where only what a killed run unpacked of the same state lies.
        Nothing is done if all of it is unpacked already. Raises what `into` raises."""
        # What was unpacked of another state is of no use to this one.
        drop_unpacked(path for path in _folders(self._home) if path != self._fresh)
        if self._whole.exists() and (self._fresh.is_dir() or self._place.is_dir()):
            return
        if self._whole.exists():  # somebody removed the folder: until it is whole again, the list doesn't hold
            self._whole.replace(self._whole.with_suffix(".gone"))
        into(self._fresh)
        below = self._place.relative_to(self._target)
        files = (path for path in self._fresh.rglob("*") if path.is_file())
        names = sorted((below / path.relative_to(self._fresh)).as_posix() for path in files)
        # The list last, and lasting: it is what says that all of it is there.
        with whole_file(self._whole, lasting=True, alone=True) as part:
            part.write_text(json.dumps(names), encoding="utf-8")

    def members(self) -> set[str]:
        """Names, relative to the raw folder, of this state's members; empty if they were never listed."""
        return _listed(self._whole) if self._whole.exists() else set()

    def retire_others(self) -> None:
        """What other states have in place must go, now that this one is unpacked."""
        for path in self._home.glob("*.whole"):
            if path != self._whole:
                path.replace(path.with_suffix(".gone"))

    def remove_others(self, keep: Collection[str]) -> list[str]:
        """Remove members of other states but those whose names are in `keep`; what was there, in order.

        Raises `PullError`, before anything is removed, if a list holds a name that no member can have.
        """
        # All names are looked at before the first file goes.
        gone = {name for path in self._home.glob("*.gone") for name in _listed(path)}
        places = {name: local_path(self._target, name) for name in sorted(gone - set(keep))}
        removed = []
        for name, path in places.items():
            if path.is_file():
                path.unlink()
                removed.append(name)
                with contextlib.suppress(OSError):  # until a folder isn't empty
                    for parent in path.relative_to(self._target).parents[:-1]:
                        (self._target / parent).rmdir()
        return removed

    def move_in(self) -> None:
        """Give what `unpack` unpacked its names."""
        for path in sorted(self._fresh.rglob("*")):
            if path.is_file():
                named = local_path(self._place, path.relative_to(self._fresh).as_posix())
                named.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, named)
        shutil.rmtree(self._fresh, ignore_errors=True)

    def forget_others(self) -> None:
        """The last step: what other states left is removed."""
        for path in self._home.glob("*.gone"):
            path.unlink()


def unpacked_folders(target: Path) -> list[Path]:
    """Folders of a raw folder in which members lie that weren't moved in, as a pull leaves them that broke off."""
    return [path for home in sorted((target / FOLDER).glob("*")) for path in _folders(home)]


def drop_unpacked(folders: Iterable[Path]) -> None:
    """Remove what was unpacked and not moved in, or not all of it; the next pull fetches it again."""
    for path in folders:
        whole = path.with_suffix(".whole")
        if whole.exists():  # some of it may be in place
            whole.replace(path.with_suffix(".gone"))
        shutil.rmtree(path)


def _listed(path: Path) -> set[str]:
    """Names in one of our lists. Raises `PullError` if it isn't one."""
    try:
        names = json.loads(path.read_bytes())
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PullError(f"{path}: expected a list of names; move this folder away and pull anew")
    return set(names)


def _folders(home: Path) -> list[Path]:
    return sorted(path for path in home.glob("[!.]*") if path.is_dir())
