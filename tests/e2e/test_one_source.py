"""One source's chain as Dagster runs it, on real embedded data: native files in, gold out, then nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.settings import deployment
from pipelines.store import Store
from quality.cards.card import build_card, build_corpus_card
from quality.cards.pages import Section, markdown, page

pytestmark = pytest.mark.slow

SOURCE = "screenqa"
KEYS = ("raw/rico", *(f"{part}/{SOURCE}" for part in ("raw", "unified", "verdicts", "gold")))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VESPER_HOME", str(folder))
        patch.setenv("VESPER_EMBEDDED_SIZE", "tiny")
        yield folder


@pytest.fixture(scope="module")
def run(home: Path) -> dg.ExecuteInProcessResult:
    return _run(dg.DagsterInstance.ephemeral())


def _run(instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    loaded = definitions.build(deployment.load())
    selection = [dg.AssetKey(key.split("/")) for key in KEYS]
    return loaded.resolve_job_def("refresh_sources").execute_in_process(asset_selection=selection, instance=instance)


def _metadata(run: dg.ExecuteInProcessResult, key: str) -> dict[str, dg.MetadataValue]:  # type: ignore[type-arg]
    events = [e for e in run.get_asset_materialization_events() if e.asset_key == dg.AssetKey(key.split("/"))]
    assert len(events) == 1
    return dict(events[0].step_materialization_data.materialization.metadata)


def test_all_assets_are_made_and_their_checks_pass(run: dg.ExecuteInProcessResult) -> None:
    assert run.success
    checks = run.get_asset_check_evaluations()
    assert {check.asset_key.to_user_string() for check in checks} == set(KEYS)
    assert all(check.passed for check in checks)


def test_metadata_holds_rows_counts_and_a_picture(run: dg.ExecuteInProcessResult, home: Path) -> None:
    unified = Store(home).require(f"unified/{SOURCE}")
    found = _metadata(run, f"unified/{SOURCE}")
    assert found["dagster/row_count"].value == unified.rows("samples") > 0
    assert found["counts"].value["items_in"] == unified.counts["items_in"]
    assert "data:image/png;base64," in found["sample"].value
    assert "data:image/png;base64," in _metadata(run, f"verdicts/{SOURCE}")["scores"].value
    assert {field.name for field in found["dagster/column_schema"].value.columns} >= {"sample_id", "answer"}


def test_data_versions_are_the_manifests(run: dg.ExecuteInProcessResult, home: Path) -> None:
    for event in run.get_asset_materialization_events():
        made = event.step_materialization_data.materialization
        manifest = Store(home).require(made.asset_key.to_user_string())
        assert (made.tags or {})["dagster/data_version"] == manifest.data_version


def test_a_second_run_makes_nothing_again(run: dg.ExecuteInProcessResult, home: Path) -> None:
    def files() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in sorted((home / "assets").rglob("*.parquet"))}

    before = files()
    assert before
    assert _run(dg.DagsterInstance.ephemeral()).success
    assert files() == before


def test_a_card_shows_what_the_source_gave_and_what_became_of_it(run: dg.ExecuteInProcessResult, home: Path) -> None:
    loaded = definitions.build(deployment.load())
    selection = [dg.AssetKey(["cards", SOURCE])]
    job = loaded.resolve_job_def("build_corpus")
    result = job.execute_in_process(asset_selection=selection, instance=dg.DagsterInstance.ephemeral())
    assert result.success
    found = _metadata(result, f"cards/{SOURCE}")
    assert found["card"].value.startswith("# ScreenQA") and "data:image/png;base64," in found["sheet"].value
    store = Store(home)
    card, unified, gold = (store.require(f"{stage}/{SOURCE}") for stage in ("cards", "unified", "gold"))
    facts = json.loads(card.file("card.json").read_text())
    assert facts["items"] == unified.counts["items_in"] == facts["mapped"] + facts["quarantined"] > 0
    assert facts["reasons"] == unified.counts["reasons"] and facts["samples"] == gold.rows("samples")
    assert sum(facts["gold_objectives"].values()) == gold.rows("samples")
    names = [entry.path.rpartition("/")[2] for entry in card.files if "/pictures/" in entry.path]
    assert len(names) == min(12, unified.rows("samples"))
    page = card.file("card.html").read_text()
    assert page.count("<figure>") == len(names) and f"{unified.counts['items_in']:,}" in page
    corpus = build_corpus_card(store, [SOURCE, "aitw"])
    assert corpus.counts["sources"] == 1 and corpus.counts["items"] == facts["items"]
    again = build_card(store, SOURCE)
    assert again.data_version == card.data_version


def test_a_page_never_takes_data_for_markup() -> None:
    nasty = "<script>alert(1)</script>|`_*[x](javascript:1)"
    sections = [Section("T", nasty, ("a", "b"), [(nasty, 1)], {nasty: 2.0}, [("x.png", nasty)])]
    assert "<script>" not in page(nasty, sections) and "&lt;script&gt;" in page(nasty, sections)
    text = markdown(nasty, sections)
    assert "<script>" not in text and "\\[x\\](javascript" in text
    assert all(line.count("|") - line.count("\\|") in (0, 3) for line in text.splitlines())
