"""Where everything lies: pictures by content, assets as committed versions of parts, behind a URL or not.

`Store` is the way in; versions and parts, promotion, garbage and object stores have modules of their own.
"""

from pipelines.store.files import FileEntry, StoreError
from pipelines.store.manifest import Check, CheckSpec, Manifest
from pipelines.store.parts import (
    ROW_GROUP_ROWS,
    PartFunction,
    PartResult,
    PartSpec,
    PartWriter,
    find_part,
    put_text,
    run_part,
)
from pipelines.store.store import TOMBSTONE, Build, Store, has_store

__all__ = [
    "ROW_GROUP_ROWS",
    "TOMBSTONE",
    "Build",
    "Check",
    "CheckSpec",
    "FileEntry",
    "Manifest",
    "PartFunction",
    "PartResult",
    "PartSpec",
    "PartWriter",
    "Store",
    "StoreError",
    "find_part",
    "has_store",
    "put_text",
    "run_part",
]
