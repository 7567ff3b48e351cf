"""Lists that wait on disk, so that more can be sorted into them than memory holds."""

import os
import pickle
import tempfile
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
HELD = 100
"""Items of a list that wait in memory."""


class SpilledLists(Generic[T]):
    """Lists by number: any of them grows at any time, and each is taken once, whole.

    They share a file in `folder` that has no name, so nothing stays behind where the process is killed. Only this
    process can write to it, which is why its pickles may be read."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self._waiting: list[list[T]] = [[] for _ in range(count)]
        self._starts: list[list[int]] = [[] for _ in range(count)]
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - goes with the lists

    def add(self, number: int, item: T) -> None:
        """Put an item at the end of a list."""
        waiting = self._waiting[number]
        waiting.append(item)
        if len(waiting) >= HELD:
            self._starts[number].append(self._file.seek(0, os.SEEK_END))
            pickle.dump(waiting, self._file, pickle.HIGHEST_PROTOCOL)
            waiting.clear()

    def take(self, number: int) -> list[T]:
        """A list, in the order of its items; it is empty from then on."""
        found: list[T] = []
        for start in self._starts[number]:
            self._file.seek(start)
            found += pickle.load(self._file)
        found += self._waiting[number]
        self._starts[number], self._waiting[number] = [], []
        return found
