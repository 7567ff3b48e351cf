"""Fences that a node knows, on its disk: started anew while the authority is down, it refuses what it refused before.

One line `<fence> <device>` each time one rises, the last of a device counts. A line is written without waiting for the
disk: it outlives the process, not a power cut, after which the authority is asked anew. The file is written afresh at
each start, and when it holds many more lines than devices.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pipelines.whole_files import whole_file

LINES_A_DEVICE, LEAST_LINES = 20, 10_000
"""The file is written afresh with so many lines, and at least so many."""


class FenceFile:
    """See the module; `floors` are those of the last run. Raises `OSError` where the file can't be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.floors: dict[str, int] = {}
        if path.exists():
            for line in path.read_text("utf-8", "replace").splitlines():
                fence, _, device = line.partition(" ")
                if fence.isascii() and fence.isdigit() and device:  # a line that a killed process cut short isn't
                    # the highest, in whatever order lines were written
                    self.floors[device] = max(int(fence), self.floors.get(device, 0))
        self._write_afresh()

    def add(self, device: str, fence: int) -> None:
        """A floor has risen."""
        self.floors[device] = fence
        # one write, so that a kill leaves a line whole or cut, never mixed
        os.write(self._handle, f"{fence} {device}\n".encode())
        self._lines += 1
        if self._lines > max(LEAST_LINES, LINES_A_DEVICE * len(self.floors)):
            os.close(self._handle)
            self._write_afresh()

    def replace(self, floors: Mapping[str, int]) -> None:
        """Only these floors hold from now on."""
        self.floors = dict(floors)
        os.close(self._handle)
        self._write_afresh()

    def _write_afresh(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path) as part:
            part.write_text("".join(f"{fence} {device}\n" for device, fence in self.floors.items()), "utf-8")
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lines = len(self.floors)
