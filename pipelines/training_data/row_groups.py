"""Samples → row groups of a shard: with the bytes of their pictures, and with their chats as turns."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.store import Store, StoreError
from pipelines.store.pixels import rgb_pixels
from pipelines.training_data.chat_turns import TURNS, trained_turns


class PackedPicture(TypedDict):
    """A picture as a shard holds it: encoded bytes, and the file's name."""

    bytes: bytes
    path: str


def row_groups(store: Store, samples: pa.Table, rows: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """Samples, ordered by picture, → tables of at most `rows` rows with the columns of a shard's `schema`.

    A picture that several groups show is read once. Raises `StoreError` for one that is missing or damaged.
    """
    pictures: dict[str, PackedPicture] = {}
    for start in range(0, samples.num_rows, rows):
        group = samples.slice(start, rows)
        # One group's pictures are in memory at a time; samples are ordered by picture, so little is read
        # twice.
        shown = pc.unique(pc.list_flatten(group["images"])).to_pylist()
        # Those that the group before ended with may go on in this one; no others are kept.
        pictures = {sha: pictures.get(sha) or _picture(store, sha) for sha in shown}
        yield _filled(group, pictures, schema)


def _filled(samples: pa.Table, pictures: Mapping[str, PackedPicture], schema: pa.Schema) -> pa.Table:
    lists, kind = samples["images"].combine_chunks(), schema.field("images").type
    # Arrow copies a picture into each of its rows, which takes a tenth of the time that a list of Python values takes.
    places = pc.index_in(lists.flatten(), pa.array(pictures, pa.string()))
    held = pa.array(pictures.values(), kind.value_type).take(places)
    ends = pa.array(np.cumsum([0, *lists.value_lengths().to_pylist()]), pa.int32())
    chats = zip(samples["messages"].to_pylist(), samples["answer"].to_pylist(), strict=True)
    columns = {
        "images": pa.ListArray.from_arrays(ends, held, kind),
        "messages": pa.array([trained_turns(messages, answer) for messages, answer in chats], TURNS),
    }
    return pa.Table.from_arrays([columns.get(name, samples[name]) for name in schema.names], schema=schema)


def _picture(store: Store, sha256: str) -> PackedPicture:
    """The bytes of a screen, checked against its name and decoded once before they are packed."""
    path = store.screen_path(sha256)
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise StoreError(f"screen {sha256}: its bytes hash to {found}; the file is damaged, unify the source again")
    # Decoded here, so that a damaged picture ends the packing and not a night's training.
    rgb_pixels(data)
    return {"bytes": data, "path": path.name}
