"""`make bench`: Vesper's ways beside the plain ones, on this machine, into bench/results.json.

Each result: name, value, unit, peer, peer_value, ratio (how often faster than the peer), command. Both sides do
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
from collections.abc import Callable
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
    from schemas.actions import Click, Drag, Type, format, parse

    makers: list[Callable[[int], Any]] = [
        lambda i: Click((i % 1001, 7 * i % 1001)),
        lambda i: Type(f"item {i}"),
        lambda i: Drag((i % 1001, 3), (9, i % 1001)),
    ]
    texts = [format(makers[i % 3](i)) for i in range(rows)]
    column = pa.array(texts)

    def vectorised() -> Any:
        return action_columns.format_columns(action_columns.parse_columns(column))

    def row_wise() -> list[str]:
        return [format(parse(text)) for text in texts]

    assert vectorised().to_pylist() == row_wise() == texts
    return result("action text, parse and format", rows / best(vectorised), "rows/s", "one Python object a row",
                  rows / best(row_wise, 1))  # fmt: skip


def tfrecord(records: int) -> dict[str, Any]:
    """GZIP TFRecord of pictures: Vesper's reader, which checks both checksums, against a plain loop with protobuf's
    own compiled decoder, which checks neither."""
    import numpy as np

    from pipelines import tf_example
    from pipelines import tfrecord as ours

    example = _example_class()
    pixels = np.random.default_rng(0).integers(0, 255, 60_000, np.uint8).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tfrecord.gz")
        message = example()
        message.features.feature["image/encoded"].bytes_list.value.append(pixels)
        ours.write(path, [message.SerializeToString()] * records)

        def vesper() -> int:
            return sum(len(tf_example.parse(item)["image/encoded"][0]) for item in ours.read(path))

        def plain() -> int:
            total = 0
            with gzip.open(path, "rb") as stream:
                while header := stream.read(12):
                    found = example.FromString(stream.read(struct.unpack("<Q", header[:8])[0]))
                    total += len(found.features.feature["image/encoded"].bytes_list.value[0])
                    stream.read(4)
            return total

        assert vesper() == plain() == records * len(pixels)
        return result("TFRecord, GZIP, checksums checked", records / best(vesper), "records/s",
                      "plain loop with protobuf, nothing checked", records / best(plain))  # fmt: skip


def _example_class() -> Any:
    """`tf.train.Example`, as far as bytes go, in Google's protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, field: str, kind: Any, label: Any, of: str | None = None) -> Any:
        made = file.message_type.add(name=name)
        made.field.add(name=field, number=1, type=kind, label=label, type_name=of)
        return made

    message("BytesList", "value", kinds.TYPE_BYTES, kinds.LABEL_REPEATED)
    message("Feature", "bytes_list", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".bench.BytesList")
    features = message("Features", "feature", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".bench.Features.FeatureEntry")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(
        name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".bench.Feature"
    )
    message("Example", "features", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".bench.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Example"))


def definitions() -> dict[str, Any]:
    """Dagster definitions of all sources, assets and checks: seconds to load, beside importing Dagster alone."""
    import subprocess

    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True))

    ours = seconds("from dagster_project.definitions import defs; defs().get_repository_def()")
    peer = seconds("import dagster")
    found = result("start with all definitions", ours, "s", "import dagster alone", peer)
    return {**found, "value": round(ours, 2), "peer_value": round(peer, 2), "ratio": round(peer / ours, 2)}


def result(name: str, value: float, unit: str, peer: str, peer_value: float) -> dict[str, Any]:
    """One line of results.json."""
    return {"name": name, "value": round(value, 1), "unit": unit, "peer": peer, "peer_value": round(peer_value, 1),
            "ratio": round(value / peer_value, 2), "command": "make bench"}  # fmt: skip


def main() -> int:
    """Run all and write the list."""
    parser = argparse.ArgumentParser(description="Side-by-side figures.", epilog="example: python bench/run.py --quick")
    parser.add_argument("--quick", action="store_true", help="small data, for a look")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures go (bench/results.json)")
    options = parser.parse_args()
    small = 20 if options.quick else 1
    results = []
    for run in (lambda: action_text(200_000 // small), lambda: tfrecord(400 // small), definitions):
        results.append(found := run())
        print(f"{found['name']:36} {found['value']:>12,} {found['unit']:9} {found['peer']}: {found['peer_value']:,}"
              f"   x{found['ratio']}", flush=True)  # fmt: skip
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
