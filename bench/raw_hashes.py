"""Fingerprints of native files: by as many threads as there are cores, beside one file after the other."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.timing import alternately, result

FILES, FILE_BYTES = 200, 10 << 20


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """MB/s of wall time for 200 files of 10 MB that the system still holds in memory, nothing remembered."""
    from pipelines.raw.file_hashes import FileHashes

    with tempfile.TemporaryDirectory() as folder:
        block = os.urandom(FILE_BYTES - 8)
        paths = [Path(folder, f"{number:03}.parquet") for number in range(max(FILES // small, 4))]
        for number, path in enumerate(paths):
            path.write_bytes(number.to_bytes(8) + block)

        def vesper() -> list[str]:
            return FileHashes(Path(folder, "none.json")).all(paths)

        def plain() -> list[str]:
            found = []
            for path in paths:
                with path.open("rb", buffering=0) as stream:
                    found.append(hashlib.file_digest(stream, "sha256").hexdigest())
            return found

        assert vesper() == plain()
        megabytes = len(paths) * FILE_BYTES / 1e6
        ours, theirs = alternately(vesper, plain, 5, clock=time.perf_counter)
        yield result(
            "sha256 of native files, all cores", megabytes / ours, "MB/s", "a loop over files", megabytes / theirs
        )
