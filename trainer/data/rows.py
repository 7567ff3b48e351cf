"""Rows from committed shards: light columns of everything, pictures only of the rows that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.training_data.chat_turns import with_prompts
from schemas.ids import digest

if TYPE_CHECKING:
    from pipelines.store import Store
    from pipelines.store.manifest import Manifest

PICTURES = "images"


def sample_files(manifest: Manifest) -> list[Path]:
    """The parquet files of a shards manifest that hold samples. Raises `ValueError` if there are none."""
    found = []
    for entry in manifest.files:
        path = manifest.root / entry.path
        # by the schema alone: a shard's footer, not its rows
        if path.suffix == ".parquet" and {"messages", "answer", PICTURES} <= set(pq.read_schema(path).names):
            found.append(path)
    if not found:
        raise ValueError(
            f"{manifest.asset} {manifest.version}: expected parquet files with messages, answer and "
            f"images, found {len(manifest.files)} files without"
        )
    return found


def light_rows(manifest: Manifest, splits: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """All rows without their pictures, in the order of the files; `place` says where each lies. `messages` are JSON,
    whichever form the shards have."""
    rows: list[dict[str, Any]] = []
    for number, path in enumerate(sample_files(manifest)):
        columns = [name for name in pq.read_schema(path).names if name != PICTURES]
        for index, row in enumerate(with_prompts(pq.read_table(path, columns=columns)).to_pylist()):
            if splits is None or row["split"] in splits:
                rows.append({**row, "place": (number, index)})
    return rows


def with_pictures(manifest: Manifest, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Rows of `light_rows` with their pictures, in the order given; reads only the row groups that hold them."""
    files = sample_files(manifest)
    wanted: dict[int, set[int]] = {}
    for row in rows:
        wanted.setdefault(row["place"][0], set()).add(row["place"][1])
    pictures: dict[tuple[int, int], Any] = {}
    for number, indices in wanted.items():
        pictures.update({(number, index): value for index, value in _pictures(files[number], indices)})
    return [{**row, PICTURES: pictures[tuple(row["place"])]} for row in rows]


def _pictures(path: Path, indices: set[int]) -> Iterator[tuple[int, Any]]:
    file, start = pq.ParquetFile(path), 0
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        # a row group is read only for rows that are wanted: pictures are most of a shard
        here = [index for index in range(start, start + size) if index in indices]
        if here:
            column = file.read_row_group(group, columns=[PICTURES]).column(PICTURES)
            for index in here:
                yield index, column[index - start].as_py()
        start += size


def pick(rows: Sequence[Mapping[str, object]], limit: int, seed: int, key: Callable[[Any], str]) -> list[Any]:
    """At most `limit` rows of each group that `key` names, those of the smallest hash of (seed, sample_id)."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append((digest([seed, row["sample_id"]]), row))
    chosen = []
    for _, listed in sorted(groups.items()):
        chosen += [row for _, row in sorted(listed, key=lambda pair: pair[0])[:limit]]
    return chosen


def screen_elements(store: Store, sources: Sequence[str], pictures: set[str]) -> dict[str, list[list[float]]]:
    """sha256 of a screenshot → boxes of its known elements, for the pictures named."""
    found: dict[str, list[list[float]]] = {}
    for source in sources:
        manifest = store.screens_of(source)
        for path in manifest.paths("screens") if manifest else []:
            table = pq.read_table(path, columns=["screenshot_sha256", "elements"])
            table = table.filter(pc.is_in(table["screenshot_sha256"], pa.array(sorted(pictures), pa.string())))
            for row in table.to_pylist():
                boxes = [element["box"] for element in row["elements"] if element["box"]]
                # of several sources that know a screen, the one that knows most of it
                if len(boxes) > len(found.get(row["screenshot_sha256"], ())):
                    found[row["screenshot_sha256"]] = boxes
    return found
