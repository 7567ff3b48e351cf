"""The graph is the one that was designed: keys, edges, checks, and what loading it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from stage_graph import all_above

from dagster_project import definitions
from dagster_project.settings import deployment
from dagster_project.stage_functions import sources as functions
from dagster_project.stages import experiments, graph, sources
from dagster_project.stages import task_pool as pool_stages
from dagster_project.stages.stage import GraphStage, NamedFunction, StageWork
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineChoice
from pipelines.sources import registry
from pipelines.store import Store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TEN = {
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


@pytest.fixture(scope="module")
def settings() -> deployment.Deployment:
    return deployment.Deployment(raw_root=Path("/nowhere"))


@pytest.fixture(scope="module")
def stages(settings: deployment.Deployment) -> dict[str, GraphStage]:
    return graph.stages(settings)


@pytest.fixture(scope="module")
def loaded(settings: deployment.Deployment) -> dg.Definitions:
    return definitions.build(settings)


def test_ten_sources_have_whole_chains(stages: dict[str, GraphStage]) -> None:
    assert set(registry()) >= TEN
    for name in TEN:
        assert stages[f"verdicts/{name}"].deps == (f"unified/{name}",)
        assert stages[f"gold/{name}"].deps == (f"unified/{name}", f"verdicts/{name}")
        assert f"raw/{name}" in stages[f"unified/{name}"].deps


def test_companions_feed_the_sources_that_name_them(stages: dict[str, GraphStage]) -> None:
    for name, adapter in ((name, registry()[name]) for name in TEN):
        wanted = {f"raw/{name}", *(f"raw/{companion}" for companion in adapter.descriptor.companions)}
        assert set(stages[f"unified/{name}"].deps) == wanted
    assert "raw/rico" in stages["unified/screenqa"].deps


def test_edges_after_the_fan_in(stages: dict[str, GraphStage]) -> None:
    gold = {key for key in stages if key.startswith("gold/")}
    specialists = {f"checkpoints/offline_{name}" for name in ("grounding", "mobile", "web")}
    prints = {f"fingerprints/{name}_test" for name in ("aitz", "android_control", "mind2web")}
    assert set(stages["hygiene/screens"].deps) == gold
    assert set(stages["hygiene/duplicates"].deps) == gold | {"hygiene/screens"}
    assert set(stages["hygiene/contamination"].deps) == gold | prints
    removals = {f"hygiene/{name}" for name in ("contamination", "safety", "human_verdicts")}
    assert set(stages["mid_training/shards"].deps) == gold | removals
    assert set(stages["hygiene/shard_scan"].deps) == {"mid_training/shards"} | prints
    hygiene = {"hygiene/duplicates", "hygiene/shard_scan", "hygiene/safety"}
    assert set(stages["mid_training/mixture"].deps) == {"mid_training/shards"} | hygiene
    assert "task_pool/static" in stages["task_pool/dynamic"].deps, "a new task must differ from the static ones"
    assert set(stages["task_pool/shards"].deps) == {f"task_pool/{name}" for name in ("static", "dynamic", "generated")}
    rounds = {key for key, stage in stages.items() if stage.by_round}
    assert rounds == {f"generation/{name}" for name in ("catalogue", "task_bank", "trajectories", "verified")}
    for key in ("gold/generated", "task_pool/generated"):
        assert stages[key].deps == ("generation/verified",)
    assert not [dep for key in rounds for dep in stages[key].deps if dep not in rounds], "loops are no edges"
    assert {"checkpoints/base", "mid_training/mixture"} <= set(stages["checkpoints/mid_trained"].deps)
    for name in specialists:
        assert "checkpoints/mid_trained" in stages[name].deps
    online = {f"checkpoints/online_{name}" for name in ("mobile", "web")}
    for name in online:
        assert set(stages[name].deps) == {name.replace("online", "offline"), "task_pool/shards"}
    merged = online | {"checkpoints/offline_grounding", "checkpoints/mid_trained"}
    assert set(stages["checkpoints/linear"].deps) == merged
    assert set(stages["checkpoints/unified"].deps) == merged | {"mid_training/shards"}, "it is chosen on validation"
    for name in ("base", "mid_trained", "linear", "unified", *(s.partition("/")[2] for s in specialists | online)):
        assert {f"checkpoints/{name}", "evaluations/heldout"} <= set(stages[f"evaluations/{name}"].deps)
    assert {"suites/fsm", "evaluations/unified"} <= set(stages["leaderboard/standings"].deps)


def test_a_merge_depends_on_the_specialists_that_the_trainer_is_told(
    settings: deployment.Deployment, stages: dict[str, GraphStage], monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = [f"offline_{name}" for name in ("grounding", "mobile", "web")]
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"merge": {"specialists": offline}}))
    told, checkpoints = graph.stages(settings), {f"checkpoints/{name}" for name in offline}
    assert set(told["checkpoints/linear"].deps) == checkpoints | {"checkpoints/mid_trained"}
    assert not [key for key in all_above(told, "checkpoints/unified") if key.startswith("checkpoints/online")]
    for text in ('{"merge": {"specialists": ["offline_phone"]}}', '{"merge": {"specialists": 3}}', "{", '{"x": 1}'):
        monkeypatch.setenv("VESPER_TRAINER", text)
        loaded = graph.stages(settings)
        assert loaded["checkpoints/unified"].deps == stages["checkpoints/unified"].deps, "it still loads"


def test_a_route_says_what_the_agent_is_made_of_and_what_only_its_own_job_starts(
    settings: deployment.Deployment, stages: dict[str, GraphStage], monkeypatch: pytest.MonkeyPatch
) -> None:
    def others(found: dict[str, GraphStage]) -> set[str]:
        return {key for key, stage in found.items() if stage.job == "train_others"}

    teachers = {"checkpoints/offline_grounding", "checkpoints/online_mobile", "checkpoints/online_web"}
    rows = {"mid_training/shards", "evaluations/heldout"}
    assert set(stages["checkpoints/distilled"].deps) == teachers | rows | {"checkpoints/mid_trained"}
    beside = {
        f"{group}/{name}"
        for group in ("checkpoints", "evaluations")
        for name in ("offline_computer", "online_computer")
    }
    assert others(stages) == beside | {"checkpoints/distilled", "evaluations/distilled"}
    assert "checkpoints/distilled" not in all_above(stages, "checkpoints/unified")
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"route": "successor"}))
    short = graph.stages(settings)
    assert short["checkpoints/unified"].deps == ("checkpoints/distilled",)
    made = {key for key in all_above(short, "checkpoints/unified") if key.startswith("checkpoints/")}
    offline = {f"checkpoints/offline_{name}" for name in ("grounding", "mobile", "web")}
    assert made == offline | {"checkpoints/base", "checkpoints/mid_trained", "checkpoints/distilled"}
    merged = {
        f"{group}/{name}"
        for group in ("checkpoints", "evaluations")
        for name in ("linear", "online_mobile", "online_web")
    }
    assert others(short) == beside | merged | {"evaluations/distilled"}, "it is evaluated as the agent"
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"domains": ["grounding", "mobile", "web", "computer"]}))
    four = graph.stages(settings)
    assert others(four) == {"checkpoints/distilled", "evaluations/distilled"}
    assert set(four["checkpoints/online_computer"].deps) == {"checkpoints/offline_computer", "task_pool/shards"}
    assert {"checkpoints/offline_computer", "checkpoints/online_computer"} <= all_above(four, "checkpoints/unified")
    assert "checkpoints/online_computer" in four["checkpoints/distilled"].deps
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"merge": {"specialists": ["offline_web", "online_computer"]}}))
    assert not others(graph.stages(settings)) & beside, "a merge reads them, whoever named them"


def test_upstream_of_the_unified_agent_is_every_raw_dataset(stages: dict[str, GraphStage]) -> None:
    raw = {key for key in stages if key.startswith("raw/")}
    assert raw >= {f"raw/{name}" for name in TEN}
    assert raw <= all_above(stages, "checkpoints/unified")


def test_no_judgement_or_training_reads_a_held_out_sample(stages: dict[str, GraphStage]) -> None:
    assert "evaluations/heldout" not in all_above(stages, "checkpoints/mid_trained")


def test_definitions_hold_exactly_the_stages(
    loaded: dg.Definitions, stages: dict[str, GraphStage], settings: deployment.Deployment
) -> None:
    assets = loaded.resolve_asset_graph()
    inside = {key.to_user_string() for key in assets.get_all_asset_keys() if not assets.get(key).is_external}
    assert inside == set(stages) | set(experiments.stages(settings))
    for key, stage in stages.items():
        node = assets.get(dg.AssetKey(key.split("/")))
        observed = {f"upstream/{key.partition('/')[2]}"} if stage.group == "raw" else set()
        assert {parent.to_user_string() for parent in node.parent_keys} == set(stage.deps) | observed
        assert node.group_name == key.partition("/")[0]
        assert node.owners and node.kinds and node.description


def _executable(loaded: dg.Definitions) -> list[dg.AssetsDefinition]:
    return [asset for asset in loaded.assets or [] if isinstance(asset, dg.AssetsDefinition)]


def test_a_suite_with_native_files_is_fingerprinted_and_never_unified(
    settings: deployment.Deployment, tmp_path: Path
) -> None:
    shown = {spec.key.to_user_string(): spec for spec in definitions.build(settings).resolve_all_asset_specs()}
    assert "Waiting for native files" in (shown["raw/screenspot"].description or "")
    (tmp_path / "screenspot").mkdir()
    stages = graph.stages(settings.changed(raw_root=tmp_path))
    assert stages["fingerprints/screenspot"].deps == ("raw/screenspot",)
    assert "fingerprints/screenspot" in stages["hygiene/contamination"].deps
    assert "fingerprints/screenspot" in stages["hygiene/shard_scan"].deps
    assert "unified/screenspot" not in stages


def test_every_asset_has_a_blocking_check(
    loaded: dg.Definitions, stages: dict[str, GraphStage], settings: deployment.Deployment
) -> None:
    specs = [spec for asset in _executable(loaded) for spec in asset.check_specs]
    wanted = set(stages) | set(experiments.stages(settings))
    assert {spec.asset_key.to_user_string() for spec in specs if spec.blocking} == wanted
    shown = {(spec.asset_key.to_user_string(), spec.name): spec for spec in specs}
    assert shown["unified/aitw", "nothing_lost"].blocking and not shown["unified/aitw", "vocabulary_known"].blocking
    assert "the adapter dropped something silently" in (shown["unified/aitw", "nothing_lost"].description or "")


def test_no_asset_has_both_a_schedule_and_a_condition(loaded: dg.Definitions) -> None:
    scheduled = loaded.resolve_job_def("refresh_sources").asset_layer.executable_asset_keys
    conditioned = {key for a in _executable(loaded) for key, c in a.automation_conditions_by_key.items() if c}
    assert conditioned and not (set(scheduled) & conditioned)


def test_a_switched_off_source_stays_visible_outside_the_fan_in() -> None:
    off = deployment.Deployment(raw_root=Path("/nowhere"), sources={"aitw": deployment.SourceSettings(enabled=False)})
    stages = graph.stages(off)
    assert not [key for key in stages if key.endswith("/aitw")]
    assert "gold/aitw" not in stages["mid_training/shards"].deps
    assets = definitions.build(off).resolve_asset_graph()
    assert assets.get(dg.AssetKey(["raw", "aitw"])).is_external


def test_a_licence_that_is_not_allowed_is_shown_and_not_ingested(settings: deployment.Deployment) -> None:
    licence = registry()["mind2web"].descriptor.licence
    strict = settings.changed(licences=deployment.LicencePolicy(deny=(licence.upper(),)))
    assert "raw/mind2web" not in graph.stages(strict) and "raw/mind2web" in graph.stages(settings)
    shown = {spec.key.path[-1]: spec for spec in definitions.build(strict).resolve_all_asset_specs()}["mind2web"]
    assert "denied by the deployment's policy" in (shown.description or "")
    only = settings.changed(licences=deployment.LicencePolicy(allow=("MIT",)))
    assert set(sources.enabled(only)) == {n for n in TEN if registry()[n].descriptor.licence == "MIT"}
    with pytest.raises(ValueError, match=r"^deployment.yaml: licences\.deny: expected a list, found 'MIT'"):
        deployment.Deployment.parsed({"licences": {"deny": "MIT"}}, "deployment.yaml")


def test_sources_wait_for_files_outside_the_fan_in(settings: deployment.Deployment, tmp_path: Path) -> None:
    from generators.proving.embedded.sizes import SOURCES

    assert {name for name in SOURCES if name in registry()} == set(deployment.EMBEDDED)
    assert set(sources.enabled(settings)) == set(deployment.EMBEDDED)
    waiting = [name for name in registry() if name not in deployment.EMBEDDED]
    assert all("Waiting for native files" in sources.outside(settings)[name] for name in waiting)
    bare = settings.changed(embedded={"enabled": False}, raw_root=tmp_path)
    assert sources.enabled(bare) == []
    (tmp_path / "aitw").mkdir()
    assert sources.enabled(bare) == ["aitw"]
    told = bare.changed(sources={"mind2web": deployment.SourceSettings(enabled=True)})
    assert sources.enabled(told) == ["aitw", "mind2web"]


def test_parts_are_run_by_the_deployments_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.yaml"
    said = "runner: beam, options: [--runner=DirectRunner, --direct_num_workers=2]"
    path.write_text(f"engine: {{workers: 3, stages: {{unified/aitw: {{{said}}}}}}}\n")
    settings = deployment.load(path)
    asked: list[Execution] = []
    monkeypatch.setattr(functions, "unify_source", lambda *_, execution, **__: asked.append(execution))
    monkeypatch.setattr(Store, "require", lambda self, key: SimpleNamespace(version="v"))
    graph.stages(settings)["unified/aitw"].run(StageWork(Store(tmp_path), settings))
    options = ("--runner=DirectRunner", "--direct_num_workers=2")
    assert asked[0].engine.of("unified/aitw") == EngineChoice(runner="beam", workers=3, options=options)
    assert asked[0].engine.of("unified/aitz") == EngineChoice(workers=3)
    for said in ("{runner: [beam]}", "{workers: 0}", "{options: beam}", "beam"):
        path.write_text(f"engine: {said}\n")
        deployment._load.cache_clear()
        with pytest.raises(deployment.DeploymentError, match="engine.*: expected (a list|a whole|a text|settings)"):
            deployment.load(path)
    deployment._load.cache_clear()


def test_definitions_load_without_the_heavy_libraries() -> None:
    """How long they take is a figure of `make bench`; what made them slow is here."""
    code = """
import sys
from dagster_project.definitions import defs
defs().get_repository_def()
heavy = ("torch", "transformers", "faiss", "matplotlib", "apache_beam", "playwright")
heavy += ("generators.execution.execute", "generators.policies")  # what stages run
heavy += ("generators.proving.judge_bench.build",)
print(*[name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_functions_that_stages_name_are_there() -> None:
    stages = graph.stages(deployment.Deployment(raw_root=Path("/nowhere")))
    named = [stage.run for stage in stages.values() if isinstance(stage.run, NamedFunction)]
    assert len(named) >= 4 * len(deployment.EMBEDDED)
    assert all(callable(one.function) for one in named)


def test_dg_check_defs_passes(tmp_path: Path) -> None:
    dg_command = Path(sys.executable).with_name("dg")
    done = subprocess.run([str(dg_command), "check", "defs"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_code_versions_are_the_stages_own(stages: dict[str, GraphStage]) -> None:
    from generators.generation import dynamic_task_pool
    from generators.tasks import task_pool
    from pipelines.training_data import mixture, shards
    from pipelines.unify import unify
    from quality.duplicates import dedup
    from quality.judges import verdicts
    from quality.refinement import gold
    from trainer.stages.assets import CODE_VERSION

    said = {key: stage.code_version for key, stage in stages.items()}
    assert said["unified/aitw"] == f"{unify.CODE_VERSION}.{registry()['aitw'].version}"
    assert (said["verdicts/aitw"], said["gold/aitw"]) == (verdicts.CODE_VERSION, gold.CODE_VERSION)
    assert said["hygiene/duplicates"] == dedup.CODE_VERSION and said["mid_training/mixture"] == mixture.CODE_VERSION
    assert said["mid_training/shards"] == said["evaluations/heldout"] == shards.CODE_VERSION
    assert {said[f"task_pool/{name}"] for name in ("static", "shards")} == {task_pool.CODE_VERSION}
    assert said["task_pool/dynamic"] == dynamic_task_pool.CODE_VERSION
    assert said["checkpoints/unified"] == CODE_VERSION


def test_the_shipped_strata_fit_the_embedded_worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from generators.generation import dynamic_task_pool, static_task_pool
    from generators.tasks.strata import METHOD_EDGES, NANO_EDGES

    monkeypatch.delenv("VESPER_DEPLOYMENT", raising=False)
    shipped = deployment.load()
    assert pool_stages.pool_config(shipped).edges == NANO_EDGES
    assert pool_stages.pool_config(deployment.Deployment(raw_root=tmp_path)).edges == METHOD_EDGES
    asked: list[object] = []
    for module, name in ((static_task_pool, "build_static"), (dynamic_task_pool, "build_dynamic")):
        monkeypatch.setattr(module, name, lambda *_, config, **more: asked.append(config.edges))
    work = StageWork(Store(tmp_path), shipped)
    pool_stages._static_tasks(work)
    pool_stages._dynamic_tasks(work, ["aitw"])
    assert asked == [NANO_EDGES, NANO_EDGES]
    for said in ("[4, 2]", "[0, 3]", "[2]", "5", "[2.5, 4]"):
        (tmp_path / "d.yaml").write_text(f"strata_edges: {said}\n")
        with pytest.raises(deployment.DeploymentError, match="strata_edges.*: expected"):
            deployment.load(tmp_path / "d.yaml")
        deployment._load.cache_clear()


def test_every_column_of_a_table_says_what_stands_in_it(stages: dict[str, GraphStage], loaded: dg.Definitions) -> None:
    shown = {spec.key.to_user_string(): spec.metadata for spec in loaded.resolve_all_asset_specs()}
    tabled = {key: stage.columns for key, stage in stages.items() if stage.columns is not None}
    assert {
        "unified/aitw",
        "gold/aitw",
        "verdicts/aitw",
        "evaluations/unified",
        "hygiene/contamination",
        "mid_training/mixture",
    } <= tabled.keys()
    for key, table in tabled.items():
        columns = shown[key]["dagster/column_schema"].columns
        assert [column.name for column in columns] == table.schema.names
        assert not [column.name for column in columns if not column.description]
        assert stages[key].table
    assert not [key for key, stage in stages.items() if stage.table and stage.columns is None]
