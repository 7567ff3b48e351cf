"""The card of a folder of shards: what `datasets.load_dataset(FOLDER)` reads, and what the samples are, for people.

Without the front matter `datasets` would take every parquet and JSON file of the folder for data, the index and the
report included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from pipelines.markdown_text import markdown_text
from pipelines.training_data.shards import MEANINGS, SHARD
from pipelines.whole_files import whole_file

DATA = "data"
"""Folder of the shards below that of the card."""
CARD = "README.md"


def write_card(folder: Path, samples: pa.Table, splits: Sequence[str]) -> None:
    """Write `README.md` for the shards in `folder/data`: `samples` are the packed ones (columns of `Samples`).

    Several splits packed together are read as one, named by the last."""
    counted = {name: Counter(samples[name].to_pylist()) for name in ("source", "objective", "platform", "licence")}
    with whole_file(folder / CARD) as part:
        part.write_text(_card(splits[-1], samples.num_rows, counted), encoding="utf-8")


def _card(split: str, rows: int, counted: Mapping[str, Counter[str]]) -> str:
    head = (
        f"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: {split}\n    path: {DATA}/*.parquet\n---\n"
    )
    shares = "".join(
        f"| {name} | {', '.join(f'{markdown_text(value)} {count}' for value, count in sorted(values.items()))} |\n"
        for name, values in counted.items()
    )
    columns = "".join(f"| `{f.name}` | {MEANINGS[f.name]} |\n" for f in SHARD)
    return (
        f"{head}\n# Training samples for GUI agents\n\n{rows} samples, packed by Vesper (`vesper shard`). Load them "
        f'with their pictures by `datasets.load_dataset("THIS FOLDER", split="{split}")`.\n\n'
        f"| of | samples |\n|---|---|\n{shares}\n| column | holds |\n|---|---|\n{columns}"
        "\n`index.parquet` says where each sample lies, `report.json` what was packed and what was left out.\n"
    )
