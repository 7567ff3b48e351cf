"""`mapped/<source>` → `unified/<source>`: the rows of all parts, regrouped into buckets.

What adapters wrote lies in parts of native files. Here each bucket (`pipelines.unify.buckets`) is read out
of all of them and becomes a part of `unified/<source>`, sorted by key: what later stages compare stands in one part,
and its bytes don't depend on where the native files were cut. Several buckets are read at once, as each reading opens
every mapped file.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import Manifest, PartResult, PartSpec, PartWriter, Store, run_part
from pipelines.unify.buckets import TABLES, MappedRows, bucket_count
from schemas.ids import digest

CODE_VERSION = "1"
BUCKETS_AT_ONCE = 16
"""Some 100,000 rows: a few hundred megabytes."""
ROWS_A_SECOND = 150_000
"""Rows that one core regroups in a second, roughly."""


@dataclass(frozen=True)
class BucketArguments:
    """All a worker needs to write a bucket; plain data."""

    home: str
    asset: str
    version: str
    mapped: str
    """Version of the mapped rows."""
    spec: PartSpec
    bucket: int
    count: int
    """Buckets of the source."""


def bucket_specs(mapped: Manifest) -> list[PartSpec]:
    """A part for each bucket of the mapped rows: their number, and so the names of parts, follow from the rows alone.
    What a part holds can depend on any mapped file, so its digest is that of them all."""
    count = bucket_count(mapped.rows("steps") + mapped.rows("samples"))
    return [
        PartSpec(f"{number:05d}-of-{count:05d}", digest([CODE_VERSION, number, count, mapped.data_version]))
        for number in range(count)
    ]


def regroup(
    store: Store, asset: str, version: str, mapped: Manifest, specs: Sequence[PartSpec], execution: Execution
) -> list[PartResult]:
    """Write the buckets of a version of `unified/<source>` that aren't there yet; `specs` as `bucket_specs`."""
    # On average: nobody has counted each bucket before it is read, and this is for the estimate alone.
    rows = (mapped.rows("steps") + mapped.rows("samples")) // len(specs)
    calls = [
        PartCall(
            BucketArguments(str(store.home), asset, version, mapped.version, spec, bucket, len(specs)),
            (spec,),
            rows / ROWS_A_SECOND,
            rows,
        )
        for bucket, spec in enumerate(specs)
    ]
    try:
        return run_parts(store, asset, write_bucket, calls, execution)
    finally:
        # The last buckets' rows take some hundred megabytes, which stay here where this process ran the parts
        # itself.
        _rows.cache_clear()


def write_bucket(item: BucketArguments) -> PartResult:
    """Write (or skip) one bucket; called by an engine's workers."""

    def write(out: PartWriter) -> dict[str, int]:
        # Buckets that lie side by side are read in one go, as each reading opens every mapped file.
        first = item.bucket - item.bucket % BUCKETS_AT_ONCE
        tables = _rows(item.home, item.asset, item.mapped, first, item.count).tables(item.bucket)
        if item.bucket == 0:  # readers look for a table of what was refused, be it empty
            tables.setdefault("quarantine", TABLES["quarantine"].schema.empty_table())
        for name, table in sorted(tables.items()):
            out.table(name, table)
        return {"images": tables["screens"].num_rows if "screens" in tables else 0}

    return run_part(Store(item.home).root(item.asset), item.version, item.spec, write)


@functools.lru_cache(maxsize=1)
def _rows(home: str, asset: str, version: str, first: int, count: int) -> MappedRows:
    """The mapped rows of `BUCKETS_AT_ONCE` buckets; a worker that is given these one after another reads them once."""
    mapped = Store(home).version(f"mapped/{asset.partition('/')[2]}", version)
    paths = {name: mapped.paths(name) for name in TABLES}
    return MappedRows(paths, first, min(first + BUCKETS_AT_ONCE, count), count)
