"""The shard reader beside streaming readers: Hugging Face datasets over the same parquet files, MosaicML, LitData.

The same rows and picture bytes for all, packed by each in its own format as it comes; one epoch, shuffled, one thread,
no workers. Twice: `header` opens a picture's header as our reader does by default; `decoded` makes RGB arrays of all.
That each gave every row once is asserted. Figures are rows by CPU second of the process; files lie in the page cache.
Ours and datasets take turns in one process.
MosaicML streaming and LitData run in the peers' environment (`bench/peers_env.py`).
"""

import io
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.timing import alternately, one_core, result  # noqa: E402

ROWS, SHARDS, DRAWN, WINDOW = 1_000, 4, 100, 1_024
ROUNDS = {"header": 3, "decoded": 1}
"""Decoding takes far longer than all else, so one round is enough."""


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Lines for both ways of opening pictures, ours beside each peer. Raises `AssertionError` if rows were lost."""
    from bench import peers_env

    one_core()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = ROWS // (4 if small > 1 else 1)
        _write(folder, count)
        text = peers_env.run(Path(__file__).with_name("reader_streaming.py"), folder)
        theirs: dict[str, dict[str, float]] = json.loads(text.splitlines()[-1])
        for how in OPENED:
            ours, datasets = alternately(partial(_ours, folder, how), partial(_datasets, folder, how), ROUNDS[how])
            seconds = {"datasets, parquet streaming": datasets, **{peer: found[how] for peer, found in theirs.items()}}
            for peer, spent in seconds.items():
                yield result(f"reader, pictures {how}", count / ours, "rows/CPU s", peer, count / spent, digits=0)


# -- what every reader does with a row ---------------------------------------------------------------------------------


def header(data: bytes) -> int:
    """Open a picture's header → its size in bytes."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        assert min(image.size) > 0
    return len(data)


def decoded(data: bytes) -> int:
    """A picture → RGB array [H, W, 3]; its encoded size in bytes."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        assert np.asarray(image.convert("RGB")).shape[2] == 3
    return len(data)


OPENED: dict[str, Callable[[bytes], int]] = {"header": header, "decoded": decoded}


def whole(folder: Path, seen: list[str], size: int) -> None:
    """Every row once, and every picture's bytes. Raises `AssertionError`."""
    expected = json.loads((folder / "expected.json").read_text())
    assert sorted(seen) == expected["ids"], f"{len(seen)} rows, expected {len(expected['ids'])}, or others"
    assert seen != expected["ids"], "the rows came in order, not shuffled"
    assert size == expected["bytes"], f"{size} bytes of pictures, expected {expected['bytes']}"


# -- the data and the readers here -------------------------------------------------------------------------------------


def _write(folder: Path, count: int) -> None:
    """Shards as `pipelines.training_data.shards` writes them: pictures uncompressed, the rest by zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from bench.tiny import rows as screens
    from pipelines.training_data.shard_form import ROW_GROUP_ROWS

    drawn = screens(DRAWN, size=(448, 320))
    rng = random.Random(0)
    made = []
    for place in range(count):
        row = drawn[place % DRAWN]
        noise = rng.randbytes(24_000)  # after the end of the PNG: as long as a screenshot's file, decoded as before
        made.append(
            {
                **{key: row[key] for key in ("messages", "answer", "objective")},
                "sample_id": f"{place:032x}",
                "images": [{"bytes": row["images"][0] + noise, "path": None}],
            }
        )
    each = -(-count // SHARDS)
    for shard in range(SHARDS):
        table = pa.Table.from_pylist(made[shard * each : (shard + 1) * each])
        pictures = "images.list.element.bytes"
        leaves = ("sample_id", "messages", "answer", "objective", pictures, "images.list.element.path")
        pq.write_table(
            table,
            folder / f"shard-{shard:05d}.parquet",
            row_group_size=ROW_GROUP_ROWS,
            use_dictionary=False,
            compression={leaf: "NONE" if leaf == pictures else "ZSTD" for leaf in leaves},
        )
    size = sum(len(row["images"][0]["bytes"]) for row in made)
    (folder / "expected.json").write_text(json.dumps({"ids": sorted(row["sample_id"] for row in made), "bytes": size}))


def _ours(folder: Path, how: str) -> None:
    from pipelines.training_data.reader import ShardReader

    def opened(row: dict[str, Any]) -> tuple[str, int]:
        return row["sample_id"], sum(OPENED[how](data) for data in row["images"])

    paths = sorted(folder.glob("shard-*.parquet"))
    batch = 25  # divides the rows, so that an epoch has them all
    reader = ShardReader.from_paths(paths, seed=1, global_batch=batch, window=WINDOW, transform=opened)
    given = iter(reader)
    found = [one for _ in range(reader.batches_per_epoch) for one in next(given)]
    given.close()  # type: ignore[attr-defined]
    whole(folder, [name for name, _ in found], sum(size for _, size in found))


def _datasets(folder: Path, how: str) -> None:
    import datasets

    files = [str(path) for path in sorted(folder.glob("shard-*.parquet"))]
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    seen, size = [], 0
    for row in stream.shuffle(seed=1, buffer_size=WINDOW):
        seen.append(row["sample_id"])
        size += sum(OPENED[how](image["bytes"]) for image in row["images"])
    whole(folder, seen, size)
