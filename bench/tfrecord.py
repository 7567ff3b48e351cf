"""TFRecord: GZIP files of Examples with pictures → columns, checksums verified, beside a plain protobuf loop."""

import gzip
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.timing import cpu, result


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """MB/s of uncompressed records: AITW steps with their raw pixels, as the adapter reads them into columns; the peer
    is a loop over Google's compiled protobuf that takes every feature and verifies nothing."""
    import pyarrow.compute as pc

    from pipelines import sources
    from pipelines.mapping.adapter import Raw
    from pipelines.native import aitw_native, tfrecord

    example = example_class()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "general-00000-of-00001")
        payloads = _payloads(max(40 // small, 4), example)
        size = sum(map(len, payloads)) / 1e6
        tfrecord.write(path, payloads)
        adapter, raw = sources.get("aitw"), Raw(Path(folder))

        def vesper() -> int:
            batches = adapter.batches(raw, (path.name,))  # type: ignore[attr-defined]
            return sum(pc.sum(pc.binary_length(batch.table[aitw_native.PIXELS])).as_py() for batch in batches)

        def plain() -> int:
            total = 0
            with gzip.open(path, "rb") as stream:
                while header := stream.read(12):
                    found = example.FromString(stream.read(struct.unpack("<Q", header[:8])[0]))
                    stream.read(4)
                    kinds = {name: feature.WhichOneof("kind") for name, feature in found.features.feature.items()}
                    step = {
                        name: list(getattr(found.features.feature[name], kind).value)
                        for name, kind in kinds.items()
                        if kind
                    }
                    total += len(step["image/encoded"][0])
            return total

        assert vesper() == plain() > 0
        yield result(
            "TFRecord, GZIP, both checksums verified",
            size / cpu(vesper),
            "MB/s per core",
            "plain loop with protobuf, nothing verified",
            size / cpu(plain),
        )


def _payloads(count: int, example: Any) -> list[bytes]:
    """Steps of 540 x 1080 px whose pixels compress about fivefold, written by protobuf."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        blocks = rng.integers(0, 255, (68, 34, 3), np.uint8).repeat(16, 0).repeat(16, 1)[:1080, :540]
        noise = np.where(rng.random((1080, 540, 1)) < 0.1, rng.integers(0, 255, (1080, 540, 3), np.uint8), blocks)
        message = example()

        def put(name: str, *values: Any, message: Any = message) -> None:
            kind = {bytes: "bytes_list", float: "float_list", int: "int64_list"}[type(values[0])]
            getattr(message.features.feature[name], kind).value.extend(values)

        put("episode_id", b"%d" % (number // 8))
        put("step_id", number % 8)
        put("episode_length", 8)
        put("goal_info", b"Open the settings")
        put("android_api_level", 31)
        put("current_activity", b"com.android.chrome/.Main")
        put("device_type", b"PIXEL_3")
        put("image/encoded", noise.tobytes())
        put("image/height", 1080)
        put("image/width", 540)
        put("image/channels", 3)
        put("image/ui_annotations_positions", *(rng.random(80) * 0.5).astype(np.float32).astype(float).tolist())
        put("image/ui_annotations_text", *[b"Settings"] * 20)
        put("image/ui_annotations_ui_types", *[b"TEXT"] * 20)
        put("results/action_type", 4)
        put("results/type_action", b"")
        put("results/yx_touch", 0.5, 0.25)
        put("results/yx_lift", 0.5, 0.25)
        made.append(message.SerializeToString())
    return made


def example_class() -> Any:
    """`tf.train.Example` in Google's protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, Any, Any, str | None]) -> Any:
        made = file.message_type.add(name=name)
        for number, (field, kind, label, of) in enumerate(fields, 1):
            made.field.add(name=field, number=number, type=kind, label=label, type_name=of)
        return made

    message("BytesList", ("value", kinds.TYPE_BYTES, kinds.LABEL_REPEATED, None))
    message("FloatList", ("value", kinds.TYPE_FLOAT, kinds.LABEL_REPEATED, None))
    message("Int64List", ("value", kinds.TYPE_INT64, kinds.LABEL_REPEATED, None))
    lists = [
        (f"{kind}_list", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, f".bench.{kind.capitalize()}List")
        for kind in ("bytes", "float", "int64")
    ]
    feature = message("Feature", *lists)
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message(
        "Features", ("feature", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".bench.Features.FeatureEntry")
    )
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(
        name="value", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".bench.Feature"
    )
    message("Example", ("features", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".bench.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Example"))
