"""`make bench`: Vesper's ways beside the plain ones, on this machine, into bench/results.json.

Each result: name, value, unit, peer, peer_value, ratio (value ÷ peer_value; above 1 is faster), command. Both sides do
the same work on the same data in this process, best of several rounds; that they agree is asserted before they count.
"""

from __future__ import annotations

import argparse
import gzip
import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OUT = Path(__file__).parent / "results.json"


def best(function: Callable[[], Any], rounds: int = 3) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def action_text(rows: int) -> dict[str, Any]:
    """Rows of actions → canonical text: Arrow columns against one Python object a row."""
    import pyarrow as pa

    from schemas import action_columns
    from schemas.actions import format, parse

    texts = [("Click(box=({},{}))", "Type(content='item {} {}')", "Drag(start=({0},{1}), end=({1},{0}))")[i % 3]
             .format(i % 1001, (7 * i) % 1001) for i in range(rows)]  # fmt: skip
    column = pa.array(texts)
    fields = action_columns.parse_columns(column)

    def vectorised() -> Any:
        return action_columns.format_columns(action_columns.parse_columns(column))

    def row_wise() -> list[str]:
        return [format(parse(text)) for text in texts]

    assert vectorised().to_pylist() == row_wise() == texts, fields
    return result("action text, parse and format", rows / best(vectorised), "rows/s", "one Python object a row",
                  rows / best(row_wise, 1))  # fmt: skip


def tfrecord(records: int) -> dict[str, Any]:
    """GZIP TFRecord of pictures: Vesper's reader, which checks both checksums, against the plainest loop, which doesn't."""
    import numpy as np

    from pipelines import tf_example
    from pipelines import tfrecord as ours

    pixels = np.random.default_rng(0).integers(0, 255, 60_000, np.uint8).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tfrecord.gz")
        payload = _example({"image/encoded": pixels})
        with gzip.open(path, "wb", compresslevel=1) as stream:
            for _ in range(records):
                stream.write(_frame(payload))

        def vesper() -> int:
            return sum(len(tf_example.parse(item)) for item in ours.read(path))

        def plain() -> int:
            return sum(1 for item in _plain(path) if item)

        assert vesper() == plain() == records
        return result("TFRecord, GZIP, decoded and checked", records / best(vesper), "records/s",
                      "plain loop, nothing decoded or checked", records / best(plain))  # fmt: skip


def _plain(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as stream:
        while header := stream.read(12):
            yield stream.read(struct.unpack("<Q", header[:8])[0])
            stream.read(4)


def result(name: str, value: float, unit: str, peer: str, peer_value: float) -> dict[str, Any]:
    """One line of results.json."""
    return {"name": name, "value": round(value, 1), "unit": unit, "peer": peer, "peer_value": round(peer_value, 1),
            "ratio": round(value / peer_value, 2), "command": "make bench"}  # fmt: skip
