"""The licence report: terms are read strictly, unknown stays unknown, figures come from the manifests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from goldmaker import commit_gold, episodes

from pipelines.sources import registry
from pipelines.store import PartSpec, Store, StoreError
from pipelines.training_data.mixture import SHARES
from quality.safety.licence_report import as_json, inputs_digest, licence_report, markdown, summary, terms
from schemas.tables import Samples


@pytest.mark.parametrize(
    ("licence", "family", "redistribute", "commercial"),
    [
        ("CC-BY-4.0", "CC-BY", "yes", "yes"),
        ("CC-BY-SA-4.0", "CC-BY-SA", "conditions", "yes"),
        ("CC-BY-NC-SA-4.0", "CC-BY-NC-SA", "conditions", "no"),
        ("Apache-2.0 (hub tag)", "Apache-2.0", "yes", "yes"),
        ("MIT", "MIT", "yes", "yes"),
        ("openrail", "OpenRAIL", "conditions", "conditions"),
        ("Rico's terms (research use)", "research use", "unknown", "no"),
        ("unknown", "unknown", "unknown", "unknown"),
        ("none stated (main project MIT)", "unknown", "unknown", "unknown"),
        ("", "unknown", "unknown", "unknown"),
        ("not stated for the data (UNCONFIRMED; code AGPL-3.0)", "unknown", "unknown", "unknown"),
        ("CC-BY-NC-4.0 or MIT", "CC-BY-NC", "yes", "no"),
        ("a licence of our own", "unknown", "unknown", "unknown"),
    ],
)
def test_terms(licence: str, family: str, redistribute: str, commercial: str) -> None:
    found = terms(licence)
    assert (found.family, found.redistribute, found.commercial) == (family, redistribute, commercial)


def test_every_descriptor_is_read_without_a_guess() -> None:
    for adapter in registry().values():
        licence = adapter.descriptor.licence
        if "UNCONFIRMED" in licence or "not stated" in licence or "none" in licence:
            assert terms(licence).family == "unknown", licence


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "home")
    for source in ("aitw", "miniwob_demos"):
        steps, _ = episodes(store, source, 2)
        commit_gold(store, source, steps, Samples.table([]))
    return store


def test_figures_by_source(store: Store) -> None:
    lines = licence_report(store, ["miniwob_demos", "aitw"], lambda text: "not allowed" if "none" in text else "")
    assert [line.source for line in lines] == ["aitw", "miniwob_demos"]
    assert [line.gold_steps for line in lines] == [6, 6] and lines[0].mixture_share is None
    told = summary(lines)
    assert told["unknown"] == told["refused_but_used"] == told["not_redistributable"] == ["miniwob_demos"]
    assert told["to_attribute"] == ["aitw", "miniwob_demos"]
    page = markdown(lines)
    assert "Rawles et al." in page and "Unknown licences: miniwob_demos." in page and "not allowed" in page
    assert as_json(lines)["sources"][0]["unknown"] is False


def test_what_is_packed_is_listed_even_if_nobody_named_it(store: Store) -> None:
    before = inputs_digest(store, ["aitw"], lambda text: "")
    index = pa.table({"source": ["aitw", "aitw", "stranger", "generated"]})
    with store.build("mid_training/shards", code_version="1", parts=[PartSpec("a", "a")]) as build:
        build.run_part(PartSpec("a", "a"), lambda out: out.table("index", index))
        build.commit()
    row = {"group": "source", "available_tokens": 1, "target_share": None, "reached_share": None, "rate": None}
    rows = [
        {**row, "name": "aitw", "chosen_tokens": 30, "chosen_rows": 3},
        {**row, "name": "stranger", "chosen_tokens": 10, "chosen_rows": 1},
    ]
    with store.build("mid_training/mixture", code_version="1", parts=[PartSpec("a", "a")]) as build:
        build.run_part(PartSpec("a", "a"), lambda out: out.table("shares", pa.Table.from_pylist(rows, schema=SHARES)))
        build.commit()
    lines = {line.source: line for line in licence_report(store, ["aitw"])}
    assert (lines["aitw"].shards, lines["aitw"].mixture_rows, lines["aitw"].mixture_share) == (2, 3, 0.75)
    assert lines["stranger"].unknown and lines["stranger"].shards == 1
    assert not lines["generated"].unknown and lines["generated"].licence == "own"  # trajectories of our own devices
    assert inputs_digest(store, ["aitw"], lambda text: "") != before


def test_text_of_strangers_is_no_markup(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    adapter = registry()["aitw"]
    bad = replace(adapter.descriptor, citation="<script>|x\n## head [a](b)")
    monkeypatch.setattr(type(adapter), "descriptor", bad)
    page = markdown(licence_report(store, ["aitw"]))
    assert "<script>" not in page and "\n## head" not in page and "[a](b)" not in page


def test_nothing_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no source is enabled and nothing is packed"):
        licence_report(Store(tmp_path), [])
