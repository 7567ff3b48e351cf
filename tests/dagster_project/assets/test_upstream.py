"""New revisions of sources are seen, and make stale what is made of them and nothing else."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from hub import Hub, go_online, serve
from stage_graph import all_above

from dagster_project import definitions
from dagster_project.assets import factory, upstream
from dagster_project.assets.keys import asset_key
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Deployment, SourceSettings, Upstream
from dagster_project.stage_functions.sources import raw
from dagster_project.stages import graph
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.raw.pull import pull_source
from pipelines.sources import registry
from pipelines.store import PartSpec, Store
from pipelines.store.manifest import Manifest
from schemas.ids import digest

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SOURCES = ("aitw", "mind2web")


# --- stale is what a new revision touches ---------------------------------------------------------------------------
@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Two sources with native files and nothing embedded."""
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    said = tmp_path / "deployment.yaml"
    said.write_text("embedded: {enabled: false}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(said))
    for name in SOURCES:
        folder = tmp_path / "incoming" / name
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps([name]))
    return deployment.load()


def _toy(stage: GraphStage, work: StageWork) -> Manifest:
    """Instead of a stage's work: a file that says what its inputs hold. Raw is the real one."""
    found = {dep: work.store.require(dep).data_version for dep in stage.deps}
    spec = PartSpec("all", digest(found))
    with work.store.build(stage.key, code_version="1", inputs=found, parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.json", json.dumps([stage.key, found], sort_keys=True).encode()))
        return build.commit(checks=[spec.check(True, 1, 1) for spec in stage.checks])


TOYS = ("raw", "unified", "verdicts", "gold", "hygiene", "mid_training", "checkpoints")


def _toys(settings: Deployment) -> dict[str, GraphStage]:
    """The real graph from raw files to the checkpoints; what isn't raw does a toy's work."""
    real = {key: stage for key, stage in graph.stages(settings).items() if stage.group in TOYS and not stage.by_round}
    made = {}
    for key, stage in real.items():
        deps = tuple(dep for dep in stage.deps if dep in real)
        toy = replace(stage, deps=deps, external=False, table=None, columns=None)
        made[key] = stage if stage.group == "raw" else replace(toy, run=functools.partial(_toy, toy))
    return made


def test_a_new_revision_makes_exactly_its_descendants_stale(
    settings: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "describe", lambda *_: {})  # toys have no pictures and cards
    stages = _toys(settings)
    loaded = dg.Definitions(
        assets=[*upstream.assets(stages, settings), *factory.build(stages)],
        jobs=[
            dg.define_asset_job("everything", dg.AssetSelection.all(include_sources=True)),
            dg.define_asset_job("look", dg.AssetSelection.groups("upstream", include_sources=True)),
        ],
        resources={
            "store": definitions.StoreResource(home=str(deployment.home())),
            "judge": definitions.JudgeResource(),
        },
    )
    instance = dg.DagsterInstance.ephemeral()

    def run(job: str, only: list[str] | None = None) -> None:
        chosen = [asset_key(key) for key in only] if only else None
        done = loaded.resolve_job_def(job).execute_in_process(QUIET, instance, asset_selection=chosen)
        assert done.success

    def stale() -> set[str]:
        assets = loaded.resolve_asset_graph()
        found = CachingStaleStatusResolver(instance, assets, LoadingContextForTest(instance))
        return {key.to_user_string() for key in assets.get_all_asset_keys() if found.get_status(key).name == "STALE"}

    def versions() -> dict[str, str]:
        return {key: Store(deployment.home()).require(key).data_version for key in stages}

    run("everything")
    assert stale() == set()
    run("look")
    assert stale() == set(), "nothing new: what was made knows what it was made of"
    before = versions()
    (settings.raw_root / "aitw" / "b.json").write_text('["new"]')
    run("look")
    assert stale() == {"raw/aitw"}
    below = {key for key in stages if "raw/aitw" in all_above(stages, key)} | {"raw/aitw"}
    remade: set[str] = set()
    while wave := stale():
        assert wave <= below
        remade |= wave
        run("everything", sorted(wave))
    assert remade == below and "gold/aitw" in below and "checkpoints/unified" in below
    assert {key for key, version in versions().items() if version != before[key]} == below
    assert not any(key.endswith("/mind2web") for key in below)


def test_a_touched_file_is_no_new_revision(settings: Deployment) -> None:
    work = StageWork(Store(deployment.home()), settings)
    first = upstream.look(work, "aitw")
    file = settings.raw_root / "aitw" / "a.json"
    text = file.read_text()
    file.unlink()
    file.write_text(text)
    assert upstream.look(work, "aitw").version == first.version != ""
    file.rename(file.with_name("c.json"))
    assert upstream.look(work, "aitw").version != first.version, "adapters read names"


def test_embedded_data_is_what_its_settings_say(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = Deployment(raw_root=tmp_path / "incoming")
    seen = {upstream.look(StageWork(store, one.changed(embedded={"seed": seed})), "aitw").version for seed in (0, 1, 0)}
    assert len(seen) == 2
    nothing = upstream.look(StageWork(store, one.changed(embedded={"enabled": False})), "aitw")
    assert nothing.version == "" and "no native files" in nothing.problem


# --- the hub --------------------------------------------------------------------------------------------------------
REPO = registry()["mind2web"].descriptor.download.repo  # type: ignore[union-attr]
FILE = "data/train/train_0.json"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    go_online(monkeypatch)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    served = Hub()
    with serve(served):
        yield served


def _pulled(hub: Hub, tmp_path: Path, revision: str | None = None, ask: bool = True) -> StageWork:
    download = registry()["mind2web"].descriptor.download
    assert download is not None
    pull_source(download, tmp_path / "incoming" / "mind2web", revision=revision, endpoint=hub.url)
    said = {"mind2web": SourceSettings(revision=revision)}
    return StageWork(
        Store(tmp_path),
        Deployment(raw_root=tmp_path / "incoming", sources=said, upstream=Upstream(hub=ask, endpoint=hub.url)),
    )


def test_a_new_revision_on_the_hub_is_seen_and_pulled(hub: Hub, tmp_path: Path) -> None:
    old = hub.commit(REPO, {FILE: b"[1]"})
    work = _pulled(hub, tmp_path)
    assert upstream.look(work, "mind2web").version == f"commit {old}"
    first = raw("mind2web", work)
    new = hub.commit(REPO, {FILE: b"[1, 2]"})
    assert upstream.look(work, "mind2web").version == f"commit {new}"
    assert (tmp_path / "incoming" / "mind2web" / FILE).read_bytes() == b"[1]", "looking brings nothing"
    second = raw("mind2web", work)
    assert (tmp_path / "incoming" / "mind2web" / FILE).read_bytes() == b"[1, 2]"
    assert first.data_version != second.data_version


def test_a_pinned_source_stays_where_it_is(hub: Hub, tmp_path: Path) -> None:
    old = hub.commit(REPO, {FILE: b"[1]"})
    work = _pulled(hub, tmp_path, revision=old)
    hub.commit(REPO, {FILE: b"[1, 2]"})
    assert upstream.look(work, "mind2web").version == f"commit {old}"
    assert raw("mind2web", work).counts["revision"] == old
    assert (tmp_path / "incoming" / "mind2web" / FILE).read_bytes() == b"[1]"


def test_the_hub_is_asked_only_where_the_deployment_says_so(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {FILE: b"[1]"})
    work = _pulled(hub, tmp_path, ask=False)
    hub.requests.clear()
    assert upstream.look(work, "mind2web").version.startswith("files ")
    raw("mind2web", work)
    by_hand = tmp_path / "incoming" / "multimodal_mind2web"
    by_hand.mkdir()
    (by_hand / "a.parquet").write_bytes(b"x")
    asking = replace(work, deployment=work.deployment.changed(upstream=Upstream(hub=True, endpoint=hub.url)))
    assert upstream.look(asking, "multimodal_mind2web").version.startswith("files "), "put here by hand"
    assert upstream.look(asking, "aitw").version.startswith("embedded ")
    assert hub.requests == []


def test_a_hub_that_fails_changes_nothing_and_holds_up_nobody(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = hub.commit(REPO, {FILE: b"[1]"})
    work = _pulled(hub, tmp_path)
    monkeypatch.setattr(deployment, "load", lambda path=None: work.deployment)
    stages = graph.stages(work.deployment.changed(embedded={"enabled": True}))
    loaded = dg.Definitions(
        assets=upstream.assets(stages, work.deployment),
        jobs=[dg.define_asset_job("look", dg.AssetSelection.all(include_sources=True))],
        resources={"store": definitions.StoreResource(home=str(tmp_path))},
    )
    instance = dg.DagsterInstance.ephemeral()

    def seen() -> dict[str, str]:
        assert loaded.resolve_job_def("look").execute_in_process(QUIET, instance).success
        return {name: upstream._last(instance, upstream.key_of(name)) for name in ("mind2web", "aitw")}

    first = seen()
    assert first["mind2web"] == f"commit {known}" and first["aitw"].startswith("embedded ")
    hub.commit(REPO, {FILE: b"[1, 2]"})
    hub.faults["API"] = ["503"] * 50
    assert seen() == first
    [event] = instance.fetch_observations(upstream.key_of("mind2web"), limit=1).records
    problem = event.asset_observation.metadata["problem"].value  # type: ignore[union-attr]
    assert "HTTP 503" in str(problem)
