"""Split lists of a source as one mapping, for adapters that map by column."""

from collections.abc import Mapping

from pipelines.mapping.adapter import Raw
from pipelines.mapping.items import read_splits


def split_lists(raw: Raw, name: str) -> Mapping[str, str]:
    """{episode id: split} of file `name` of the raw folder; empty if there is none (see `mapping.split_of`)."""
    path = raw.path(name)
    if not path.is_file():
        return {}
    return read_splits(path)
