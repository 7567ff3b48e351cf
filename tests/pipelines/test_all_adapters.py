"""The law of the source adapters, held over every member of the registry on the real records at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines import sources
from pipelines.mapping.adapter import Adapter, Raw, RecordError
from pipelines.store import Store
from pipelines.unify.unify import unify_source
from schemas.actions import format, parse
from schemas.tables import OBJECTIVES, PLATFORMS, SPLITS

SAMPLES = Path(__file__).parents[2] / "../shared/sources/samples"
ALL = list(sources.registry().values())
SPINE = {
    "aitw",
    "android_control",
    "aitz",
    "mind2web",
    "miniwob_demos",
    "agentnet",
    "omniact",
    "ui_refexp",
    "screen_annotation",
    "screenqa",
}


def test_the_ten_sources_are_registered() -> None:
    assert set(sources.registry()) >= SPINE


@pytest.mark.parametrize("adapter", ALL, ids=lambda adapter: adapter.descriptor.id)
def test_the_descriptor_is_complete(adapter: Adapter) -> None:
    card = adapter.descriptor
    assert adapter.version >= 1
    assert all([card.title, card.origin, card.licence, card.language, card.size, card.citation, card.frame])
    assert set(card.platforms) <= set(PLATFORMS) and card.platforms
    assert set(card.objectives) <= set(OBJECTIVES) and card.objectives
    assert len({row.native for row in card.loss}) == len(card.loss) > 0
    for row in card.loss:
        assert row.status == "kept" or row.note, f"{row.native}: what is lost or dropped needs a reason"
    assert adapter.__module__.rpartition(".")[2] == card.id
    assert (__import__("sys").modules[adapter.__module__].__doc__ or "").strip(), (
        "the file opens with its mapping table"
    )


@pytest.mark.parametrize("adapter", ALL, ids=lambda adapter: adapter.descriptor.id)
def test_an_empty_folder_has_no_parts(adapter: Adapter, tmp_path: Path) -> None:
    assert adapter.parts(Raw(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", ["aitz", "agentnet", "miniwob_demos", "screen_annotation", "screenqa", "ui_refexp"])
def test_laws_on_real_records_that_are_in_native_form(source: str, tmp_path: Path) -> None:
    folder = SAMPLES / source
    if not folder.is_dir():
        pytest.skip(f"no real records of {source} beside this checkout")
    adapter = sources.get(source)
    first = unify_source(Store(tmp_path / "one"), source, Raw(folder))
    second = unify_source(Store(tmp_path / "two"), source, Raw(folder))
    assert [entry.sha256 for entry in first.files] == [entry.sha256 for entry in second.files]
    counts = first.counts
    assert counts["items_in"] == counts["items_mapped"] + counts["items_quarantined"] > 0
    known = {row.native for row in adapter.descriptor.loss}
    assert set(counts["losses"]) <= known, "every native word met stands in the loss table"
    for row in first.read("steps").to_pylist():
        _check_step(row)
    for row in first.read("samples").to_pylist():
        assert row["objective"] in adapter.descriptor.objectives
        assert row["split"] in SPLITS and row["source"] == source and row["answer"]


def _check_step(row: dict[str, Any]) -> None:
    if row["action_text"] is not None:
        action = parse(row["action_text"])
        assert format(action) == row["action_text"]
        assert type(action).__name__ == row["action_type"]
    assert row["split"] in SPLITS and row["platform"] in PLATFORMS
    json.loads(row["native_action"])
    assert json.loads(row["provenance"])["file"]


@pytest.mark.parametrize("name", ["../x.png", "/etc/passwd", "a/../../x", "a\0b"])
def test_a_name_from_a_record_never_leads_out_of_the_raw_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordError, match="unsafe_path"):
        Raw(tmp_path).read(name)
