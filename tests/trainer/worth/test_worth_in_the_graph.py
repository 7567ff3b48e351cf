"""Worth in the graph: measured by its job, shown on the sources' pages, and its proposal followed once promoted."""

from __future__ import annotations

import json
from pathlib import Path

import corpusmaker
import dagster as dg
import pytest

from dagster_project import cli, definitions
from dagster_project.assets.keys import asset_key
from dagster_project.settings import deployment
from dagster_project.stages import graph
from dagster_project.stages.worth import with_promoted
from pipelines.store import Store, choose_version
from pipelines.training_data.mixture_config import TARGET_SHARES, MixtureConfig
from pipelines.training_data.shards import build_shards
from trainer.settings.stages import HELDOUT
from trainer.worth.tables import MIXTURE, SOURCES

NAMES = ("aitz", "screenqa")
SMALL = {"tokens": 120, "batch_size": 2, "grounding": 4, "navigation": 1, "processes": 1}


@pytest.fixture
def home(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with the gold of two sources."""
    store = Store(tmp_path / "home")
    for number, name in enumerate(NAMES):
        corpusmaker.light_source(store, tmp_path / "raw", name, seed=number + 1)
    build_shards(store, NAMES, HELDOUT, ("test",))
    (store.home / "incoming").mkdir()
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"worth": {**SMALL, "base": str(base)}}))
    return store


@pytest.mark.slow
def test_the_job_measures_and_each_source_shows_its_worth_beside_its_cost(home: Store) -> None:
    settings = deployment.load()
    loaded = definitions.build(settings, here=graph.stages(settings))
    instance = dg.DagsterInstance.ephemeral()
    job = loaded.resolve_job_def("measure_worth")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {
        f"worth/{n}" for n in ("sources", "rules", "mixture")
    }
    done = job.execute_in_process(instance=instance, asset_selection=[asset_key(SOURCES)])
    assert done.success
    made = home.require(SOURCES)
    rows = {(row["kind"], row["subject"]): row for row in made.read("worth").to_pylist()}
    for name in NAMES:
        [seen] = instance.fetch_observations(asset_key(f"gold/{name}"), limit=5).records
        facts = {key: entry.value for key, entry in seen.asset_observation.metadata.items()}  # type: ignore[union-attr]
        of_the_source = [row for (_, subject), row in rows.items() if subject == name]
        assert [row["points"] for row in of_the_source] == [v for k, v in facts.items() if k.endswith("(points)")]
        assert facts["cost: rows"] == of_the_source[0]["rows"] and facts["cost: judge tokens"] == 0
        assert facts["version"] == made.version
    [shown] = instance.fetch_materializations(asset_key(SOURCES), limit=1).records
    metadata = shown.asset_materialization.metadata  # type: ignore[union-attr]
    assert "points" in str(metadata["worth"].value) and any("svg+xml" in str(one.value) for one in metadata.values())
    schedule = loaded.resolve_schedule_def("nightly_worth")
    assert schedule.job_name == "measure_worth" and schedule.default_status == dg.DefaultScheduleStatus.STOPPED


@pytest.mark.slow
def test_the_command_prints_the_table_and_leaves_page_and_proposal(
    home: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["worth", "--home", str(home.home), "--what", "mixture", "--out", str(tmp_path / "out"), "--tokens", "200"]
    assert cli.main(asked) == 0
    said = capsys.readouterr().out
    assert "points" in said and f"{MIXTURE} {home.require(MIXTURE).version}" in said
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"mixture-page.html", "mixture-worth.md", "mixture-proposal.json"}
    assert cli.main([*asked, "--seeds", "2"]) == 2, "fewer than three seeds say nothing of seeds"
    assert "seeds: expected" in capsys.readouterr().err


def test_the_mixture_follows_a_proposal_once_a_person_promotes_it(tmp_path: Path) -> None:
    store, usual = Store(tmp_path), MixtureConfig()
    proposed = {"perception": 0.1, "vqa": 0.1, "grounding": 0.5, "navigation": 0.3}
    made = corpusmaker.commit(store, MIXTURE, {}, files={"proposal.json": b"{}"}, counts={"shares": proposed})
    assert with_promoted(store, usual).shares == TARGET_SHARES, "a proposal alone changes nothing"
    choose_version.promote(store, MIXTURE, made.version, alias="production")
    assert with_promoted(store, usual).shares == proposed
    own = MixtureConfig(shares={"grounding": 1.0})
    assert with_promoted(store, own) == own, "what the deployment says stands"
    nothing = corpusmaker.commit(store, MIXTURE, {}, files={"proposal.json": b"null"}, counts={"shares": None})
    choose_version.promote(store, MIXTURE, nothing.version, alias="production")
    assert with_promoted(store, usual) == usual
