"""The first corpus of a house: a source that has no gold yet keeps it from nobody, and is named."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import corpusmaker
import dagster as dg
import pytest
import yaml
from dagster._core.definitions.events import AssetKey

from dagster_project import definitions
from dagster_project.automation import new_files
from dagster_project.lineage.corpus_versions import CorpusVersions
from dagster_project.lineage.explain import native_record
from dagster_project.lineage.manifests import Manifests
from dagster_project.preflight import probes
from dagster_project.settings import deployment
from dagster_project.stages import graph
from dagster_project.stages.stage import StageWork
from pipelines.mapping.adapter import Raw
from pipelines.sources import registry
from pipelines.store import Store

pytestmark = pytest.mark.slow

THERE, MISSING = "aitz", "screenqa"
CORPUS = (
    "hygiene/contamination",
    "hygiene/screens",
    "hygiene/duplicates",
    "hygiene/safety",
    "hygiene/human_verdicts",
    "mid_training/shards",
    "hygiene/shard_scan",
    "mid_training/mixture",
    "evaluations/heldout",
    "review/queue",
    f"cards/{THERE}",
    f"cards/{MISSING}",
    "cards/corpus",
)
"""Without what draws pages (bench, task pool)."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    """A house with two native sources, none refreshed."""
    raw, file = tmp_path / "raw", tmp_path / "deployment.yaml"
    corpusmaker.write_raw(raw)
    rico = str(raw / MISSING / "rico")
    sources = {
        THERE: {"raw": str(raw / THERE / "raw"), "changes": {"damaged_files": 1}},
        MISSING: {"raw": str(raw / MISSING / "raw"), "companions": {"rico": rico}},
    }
    file.write_text(yaml.safe_dump({"embedded": {"enabled": False}, "sources": sources}))
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(file))
    return definitions.build(deployment.load())


def _run(loaded: dg.Definitions, instance: dg.DagsterInstance, job: str, keys: list[str]) -> Any:
    return loaded.resolve_job_def(job).execute_in_process(
        asset_selection=[AssetKey(key.split("/")) for key in keys],
        instance=instance,
        raise_on_error=False,
        run_config=QUIET,
    )


def _chain(source: str) -> list[str]:
    return [f"{stage}/{source}" for stage in ("raw", "unified", "verdicts", "gold")]


def _metadata(result: Any, key: str) -> dict[str, Any]:
    [event] = [e for e in result.get_asset_materialization_events() if e.asset_key == AssetKey(key.split("/"))]
    return dict(event.step_materialization_data.materialization.metadata)


def test_a_source_that_was_never_built_keeps_the_corpus_from_nobody(
    loaded: dg.Definitions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path / "home")
    with dg.DagsterInstance.ephemeral() as instance:
        assert _run(loaded, instance, "refresh_sources", _chain(THERE)).success
        result = _run(loaded, instance, "build_corpus", list(CORPUS))
        failed = [e.step_key for e in result.all_events if e.is_step_failure or e.is_step_skipped]
        assert result.success and failed == []
        made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
        assert made == set(CORPUS)

        # the corpus holds what is there
        mixture = store.require("mid_training/mixture")
        assert mixture.counts["rows"] > 0 and set(store.require("mid_training/shards").inputs) >= {f"gold/{THERE}"}
        corpus = store.require("cards/corpus")
        assert corpus.counts["sources"] == 1 and corpus.counts["without_gold"] == [MISSING]
        assert corpus.counts["items"] == store.require(f"unified/{THERE}").counts["items_in"] > 0
        assert f"Without gold yet: {MISSING}." in corpus.file("card.html").read_text()

        # and says what isn't: in metadata, as a warning, in the log
        generated = ["gold/generated"]  # of the generation loop, which didn't run
        for key, others in (
            ("mid_training/shards", generated),
            ("hygiene/duplicates", generated),
            (f"cards/{MISSING}", []),
        ):
            metadata = _metadata(result, key)
            assert metadata["not fresh"].value == ", ".join([f"gold/{MISSING}", *others]), key
            assert metadata["sources without gold"].value == 1 + len(others), key
        warned = {
            (check.asset_key.to_user_string(), check.check_name): check.description or ""
            for check in result.get_asset_check_evaluations()
            if not check.passed and check.severity == dg.AssetCheckSeverity.WARN
        }
        assert f"gold/{MISSING}" in warned[f"cards/{MISSING}", "has_gold"]
        assert MISSING in warned["cards/corpus", "every_source_has_gold"]
        # nor is there a test split yet: nothing to evaluate on, which keeps the corpus from nobody either
        assert "found 0 of 0 samples of test" in warned["evaluations/heldout", "there_is_something_to_evaluate_on"]
        assert store.require("evaluations/heldout").counts["packed"] == 0
        card = store.require(f"cards/{MISSING}")
        assert card.counts["waiting_for"] == _chain(MISSING)
        assert json.loads(card.file("card.json").read_text())["waiting_for"] == _chain(MISSING)

        # once it is there, nothing of that is left
        assert _run(loaded, instance, "refresh_sources", ["raw/rico", *_chain(MISSING)]).success
        result = _run(loaded, instance, "build_corpus", list(CORPUS))
        assert result.success
    corpus = store.require("cards/corpus")
    assert corpus.counts["sources"] == 2 and "without_gold" not in corpus.counts
    assert "waiting_for" not in store.require(f"cards/{MISSING}").counts
    assert _metadata(result, "mid_training/shards")["not fresh"].value == "gold/generated"


def test_a_companion_lies_where_its_user_says_for_all_that_read_it(
    loaded: dg.Definitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`screenqa: {companions: {rico: …}}` alone, with a `~`; beside it pictures that nobody is to read."""
    monkeypatch.setenv("HOME", str(tmp_path / "raw" / MISSING))
    file = tmp_path / "deployment.yaml"
    file.write_text(file.read_text().replace(str(tmp_path / "raw" / MISSING / "rico"), "~/rico"))
    deployment._load.cache_clear()
    settings, rico = deployment.load(), tmp_path / "raw" / MISSING / "rico"
    (settings.raw_root / "rico").mkdir(parents=True)
    (settings.raw_root / "rico" / "other.jpg").write_bytes(b"x")
    assert settings.source(MISSING).companions == {"rico": "~/rico"} and settings.native_folder("rico") == rico
    with dg.DagsterInstance.ephemeral() as instance:
        assert _run(definitions.build(settings), instance, "refresh_sources", ["raw/rico", *_chain(MISSING)]).success
    store = Store(tmp_path / "home")
    listed = json.loads(store.require("raw/rico").file("files.json").read_text())
    assert {entry["path"] for entry in listed} == {
        path.relative_to(rico).as_posix() for path in rico.rglob("*") if path.is_file()
    }
    unified = store.require(f"unified/{MISSING}")
    assert unified.inputs["raw/rico"] == store.require("raw/rico").version
    assert unified.read("samples").num_rows and unified.read("screens").num_rows, "its pictures were found there"

    work, stages = StageWork(store, settings), graph.stages(settings)
    assert probes.files(stages["raw/rico"], work) == []
    seen = new_files.look(["rico"], {}, 0.0).now["rico"]["seen"]
    assert seen == new_files.folder_state(rico, 0.0).mark, "new files there start a refresh"
    read: list[Raw] = []
    adapter = registry()[MISSING]
    monkeypatch.setattr(type(adapter), "parts", lambda self, raw: read.append(raw) or ())
    with pytest.raises(ValueError, match="no record"):
        native_record(CorpusVersions.current(Manifests(store)), MISSING, "train.json", "0")
    assert read[0].companions == {"rico": rico}, "as `vesper explain --native` reads it"

    (rico / "combined").rename(tmp_path / "moved")
    [line] = probes.files(stages["raw/rico"], work)
    assert line == f"raw/rico: expected native files in {rico}, found none; put them there by hand"


def test_a_source_whose_refresh_fails_keeps_the_corpus_from_nobody(loaded: dg.Definitions, tmp_path: Path) -> None:
    """Its first refresh ever: records that can't be read, beside a source that is well, in one run."""
    (tmp_path / "raw" / MISSING / "raw" / "train.json").write_text("[{")
    store = Store(tmp_path / "home")
    with dg.DagsterInstance.ephemeral() as instance:
        keys = [*_chain(THERE), "raw/rico", *_chain(MISSING)]
        assert not _run(loaded, instance, "refresh_sources", keys).success
        result = _run(loaded, instance, "build_corpus", list(CORPUS))
        assert result.success
        logged = [event for event in instance.all_logs(result.run_id) if event.level == logging.WARNING]
    told = [event.user_message for event in logged if event.step_key == "mid_training__shards"]
    assert any(f"gold/{MISSING}" in line for line in told), "nobody reads metadata at night"
    assert store.require(f"cards/{MISSING}").counts["waiting_for"] == [
        f"{stage}/{MISSING}" for stage in ("unified", "verdicts", "gold")
    ]
    assert store.require("cards/corpus").counts["sources"] == 1
