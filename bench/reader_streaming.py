"""MosaicML streaming and LitData over given rows; runs in the peers' environment (`bench/reader.py` starts it).

    reader_streaming.py FOLDER    packs the rows of FOLDER/shard-*.parquet in both formats, then reads them

Prints {reader: {way of opening pictures: CPU seconds of an epoch}}.
"""

import json
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow.parquet as pq
import torch
from litdata import StreamingDataset as LitDataset
from litdata import optimize
from transformers.utils import is_torchvision_available

from bench.reader import OPENED, ROUNDS, whole
from bench.timing import cpu


def _without_torchvision() -> None:
    """MosaicML's package imports torchvision for its vision classes, which aren't used; its wheels need CUDA."""
    is_torchvision_available()  # remembers that it isn't, before what stands in for it is seen
    names = ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional")
    modules: dict[str, Any] = {name: types.ModuleType(name) for name in names}
    modules["torchvision.datasets"].VisionDataset = object
    modules["torchvision.transforms.functional"].to_tensor = None
    sys.modules.update(modules)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "sample_id": row["sample_id"],
        "messages": row["messages"],
        "answer": row["answer"],
        "objective": row["objective"],
        "image": row["images"][0]["bytes"],
    }


def same(row: dict[str, Any]) -> dict[str, Any]:
    """LitData's function from an input to a row."""
    return row


def read(folder: Path, data: Any, how: str) -> None:
    """One epoch."""
    seen, size = [], 0
    for row in data:
        seen.append(row["sample_id"])
        size += OPENED[how](row["image"])
    whole(folder, seen, size)


def main(folder: Path) -> None:
    """Pack, read, print."""
    _without_torchvision()
    from streaming import MDSWriter, StreamingDataset

    torch.set_num_threads(1)
    rows = [_plain(row) for path in sorted(folder.glob("shard-*.parquet")) for row in pq.read_table(path).to_pylist()]
    columns = {"sample_id": "str", "messages": "str", "answer": "str", "objective": "str", "image": "bytes"}
    with MDSWriter(out=str(folder / "mds"), columns=columns) as writer:
        for row in rows:
            writer.write(row)
    optimize(same, rows, str(folder / "lit"), chunk_bytes="64MB", num_workers=1, verbose=False)
    mosaic = StreamingDataset(local=str(folder / "mds"), shuffle=True, shuffle_seed=1, batch_size=25)
    lit = LitDataset(str(folder / "lit"), shuffle=True, seed=1)
    found = {
        peer: {how: cpu(lambda how=how, data=data: read(folder, data, how), ROUNDS[how]) for how in OPENED}  # type: ignore[misc]
        for peer, data in (("MosaicML streaming", mosaic), ("LitData", lit))
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
