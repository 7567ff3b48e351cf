"""Whatever stands in a leaf of a native record costs that record at most: never its source, never a count."""

from __future__ import annotations

import copy
import datetime
import decimal
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import native
import pytest

from pipelines import sources
from pipelines.mapping.adapter import BatchAdapter, Broken, Record, RecordBatch
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.known_pictures import using
from pipelines.unify.part import PartArguments, _Part
from pipelines.unify.tracked_raw import TrackedRaw

pytestmark = pytest.mark.slow

NESTED: Any = functools.reduce(lambda inner, _: [inner], range(400), "deep")
ODD: tuple[Any, ...] = (
    None,
    "",
    " ",
    "x" * 300,
    "../../x",
    "a\0b",
    "lone \ud800",
    "\udcff.png",
    True,
    -1,
    2**31,
    2**63,
    1e308,
    math.nan,
    math.inf,
    0.5,
    [],
    {},
    [[]],
    {"\ud800": 1},
    [None, "x", 2**40],
    b"\x89PNG",
    datetime.datetime(2024, 2, 29, 12),
    datetime.timedelta(1),
    decimal.Decimal("1.5"),
    decimal.Decimal("NaN"),
    datetime.date(9999, 12, 31),
    datetime.time(23, 59),
    datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    b"",
    -0.0,
    10**400,
    "9" * 5000,
    "١٢٣",
    "1e400",
    "[1, 2",
    '{"a": 1}',
    "file:///etc/passwd",
    "data:image/png;base64,iVBORw0KGgo=",
    "con.png\n",
    "\u202egnp.exe",
    "x" * 70_000,
    NESTED,
)
PER_SOURCE = 282
"""Some 16,000 of all sources together."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all leaves of dicts and lists, and of these themselves."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from leaves(one, (*path, key))
    if path:
        yield path


def changed(payload: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a path."""
    whole = copy.deepcopy(payload)
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return whole


def records(source: str, raw: TrackedRaw) -> list[Record]:
    adapter = sources.get(source)
    found: list[Record] = []
    for files in adapter.parts(raw):
        if isinstance(adapter, BatchAdapter):
            for one in adapter.batches(raw, files):
                if isinstance(one, RecordBatch):
                    found += [adapter.record(one, index) for index in range(len(one))]
                elif isinstance(one, Record):
                    found.append(one)
        else:
            found += [one for one in adapter.records(raw, files) if isinstance(one, Record)]
    return found


def odd_records(found: list[Record], rng: Random) -> Iterator[Record]:
    """`PER_SOURCE` of all pairs of a leaf and an odd value."""
    places = [(record, path) for record in found for path in leaves(record.payload)]
    pairs = [(place, value) for place in places for value in range(len(ODD))]
    for place, value in rng.sample(pairs, min(PER_SOURCE, len(pairs))):
        record, path = place
        yield Record(record.file, record.locator, changed(record.payload, path, ODD[value]), record.native_id)


@pytest.mark.parametrize("source", sorted(set(sources.registry()) & set(native.names())))
def test_an_odd_value_costs_its_record_at_most(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    plain = native.raw_of(source, tmp_path)
    raw = TrackedRaw(plain.root, plain.companions)
    found = records(source, raw)
    if not any(isinstance(record.payload, dict | list) for record in found):
        pytest.skip("its records are no JSON values")
    store = Store(tmp_path / "home")
    spec = PartSpec("odd", "1")
    arguments = PartArguments(source, str(store.home), f"unified/{source}", "v", spec, str(raw.root), {}, (("f",),))
    out = PartWriter(tmp_path / "out", "v", "odd")
    with using(store.known_pictures()):
        part = _Part(arguments, sources.get(source), raw, store, out)
        tried = list(odd_records(found, Random(source)))
        for record in tried:
            part.one(record)
        part.one(Broken("f", "end", "bad_json", "lone \ud800", 3, {"\ud800": object()}))
        counts = part.finish(arguments)
    raw.reads()
    assert counts.records_in == counts.records_mapped + counts.records_quarantined == len(tried) + 1
    assert counts.items_in == counts.items_mapped + counts.items_quarantined
