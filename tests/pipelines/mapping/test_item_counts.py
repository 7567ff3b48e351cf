"""What a refused record counts: as many native items as it would have given had it been accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import native
import pytest

from pipelines import sources
from pipelines.mapping.adapter import Broken, Raw, Record, RecordError
from pipelines.store import Store
from pipelines.unify import refused
from pipelines.unify.unify import unify_source


@pytest.mark.slow
@pytest.mark.parametrize("source", native.names())
def test_a_record_holds_as_many_items_as_mapping_it_says(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path / "raw")
    raw, adapter = native.raw_of(source, tmp_path / "raw"), sources.get(source)
    told = []
    for files in adapter.parts(raw):
        for record in adapter.records(raw, files):
            if isinstance(record, Record):
                try:
                    told.append((adapter.map(record, raw).items, adapter.items_held(record, raw), record.locator))
                except RecordError:
                    continue
    assert told and [one for one in told if one[0] != one[1]] == []


@pytest.mark.slow
@pytest.mark.parametrize("source", ["amex", "showui_web", "rico_icon", "ugif", "omniact", "meta_gui"])
def test_a_record_that_is_refused_whole_counts_its_items(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.fixture(source).write(tmp_path / "raw")
    raw, adapter = native.raw_of(source, tmp_path / "raw"), sources.get(source)
    accepted = unify_source(Store(tmp_path / "accepted"), source, raw).counts

    def refuse(self: object, record: Record, raw: Raw) -> Any:
        raise RecordError("bad_value", "refused by the test")

    monkeypatch.setattr(type(adapter), "map", refuse)
    refused = unify_source(Store(tmp_path / "refused"), source, raw).counts
    assert refused["items_mapped"] == 0 and refused["items_in"] >= accepted["items_in"] > 1
    assert refused["items_in"] - accepted["items_in"] <= accepted["records_quarantined"] * 12


def test_no_single_record_counts_more_than_any_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native.fixture("amex").write(tmp_path / "raw")
    raw = native.raw_of("amex", tmp_path / "raw")

    def forged(self: object, raw: Raw, files: tuple[str, ...]) -> Any:
        yield Broken(files[0], "row 1", "truncated_record", "a forged header", 21_000_000)

    monkeypatch.setattr(type(sources.get("amex")), "records", forged)
    counts = unify_source(Store(tmp_path / "home"), "amex", raw).counts
    assert counts["items_in"] == refused.MOST_ITEMS * counts["records_in"] == counts["items_quarantined"]


def test_a_record_that_can_not_even_be_counted_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.fixture("uground").write(tmp_path / "raw")
    raw, adapter = native.raw_of("uground", tmp_path / "raw"), type(sources.get("uground"))

    def refuse(self: object, record: Record, *_: Raw) -> Any:
        raise TypeError("a shape that nobody foresaw")

    monkeypatch.setattr(adapter, "map", refuse)
    monkeypatch.setattr(adapter, "count_items", refuse)
    counts = unify_source(Store(tmp_path / "home"), "uground", raw).counts
    assert counts["records_in"] == counts["records_quarantined"] > 1
    assert counts["items_in"] >= counts["records_in"] - 1
