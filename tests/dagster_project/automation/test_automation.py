"""What starts by itself, and when."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from toy_stage import toy_stage

from dagster_project import definitions
from dagster_project.assets import checks
from dagster_project.assets.tail_condition import TAIL
from dagster_project.automation import feedback
from dagster_project.automation.requested_runs import AGAIN_S
from dagster_project.settings import deployment
from dagster_project.stages.stage import StageWork
from pipelines.store import Check, CheckSpec, PartSpec, PartWriter, Store
from pipelines.store.frozen import frozen_digest
from pipelines.store.manifest import Manifest


@pytest.fixture
def raw_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    (tmp_path / "incoming").mkdir()
    return tmp_path / "incoming"


@pytest.fixture
def loaded(raw_root: Path) -> dg.Definitions:
    return definitions.build(deployment.load())


def _tick(loaded: dg.Definitions, cursor: str | None) -> tuple[list[dg.RunRequest], str | None]:
    sensor = loaded.resolve_sensor_def("new_raw_files")
    context = dg.build_sensor_context(cursor=cursor, instance=dg.DagsterInstance.ephemeral())
    tick = sensor.evaluate_tick(context)
    return list(tick.run_requests or []), tick.cursor


def test_new_files_refresh_their_source_alone_and_once(loaded: dg.Definitions, raw_root: Path) -> None:
    requests, cursor = _tick(loaded, None)
    assert requests == []
    (raw_root / "aitw").mkdir()
    (raw_root / "aitw" / "a.tfrecord").write_bytes(b"x")
    requests, cursor = _tick(loaded, cursor)
    assert requests == [], "a copy may be under way: look twice"
    requests, cursor = _tick(loaded, cursor)
    assert [request.tags["source"] for request in requests] == ["aitw"]
    keys = {key.to_user_string() for key in requests[0].asset_selection or []}
    assert keys == {"upstream/aitw", "raw/aitw", "unified/aitw", "verdicts/aitw", "gold/aitw"}
    requests, cursor = _tick(loaded, cursor)
    assert requests == []


def test_a_growing_file_is_waited_for(loaded: dg.Definitions, raw_root: Path) -> None:
    file = raw_root / "mind2web" / "a.json"
    file.parent.mkdir()
    cursor = None
    for size in range(1, 4):
        file.write_bytes(b"x" * size)
        requests, cursor = _tick(loaded, cursor)
        assert requests == []
        assert json.loads(cursor or "")["mind2web"]["done"] == ""


def test_new_companion_files_refresh_the_sources_that_use_them(loaded: dg.Definitions, raw_root: Path) -> None:
    (raw_root / "rico").mkdir()
    (raw_root / "rico" / "1.jpg").write_bytes(b"x")
    _, cursor = _tick(loaded, None)
    requests, _ = _tick(loaded, cursor)
    keys = {key.to_user_string() for key in requests[0].asset_selection or []}
    assert {"raw/rico", "unified/screenqa", "gold/screenqa"} <= keys and "unified/aitw" not in keys


def test_the_requested_run_exists_in_the_job(loaded: dg.Definitions) -> None:
    """A sensor that asks for assets outside its job's selection would fail only at night."""
    keys = {k.to_user_string() for k in loaded.resolve_job_def("refresh_sources").asset_layer.executable_asset_keys}
    assert {"raw/aitw", "gold/aitw", "raw/rico"} <= keys
    assert not any(key.startswith(("mid_training/", "checkpoints/")) for key in keys)


def test_nightly_refresh_runs_at_the_hour_that_is_set(monkeypatch: pytest.MonkeyPatch, raw_root: Path) -> None:
    monkeypatch.setenv("VESPER_NIGHTLY_CRON", "30 4 * * *")
    schedule = definitions.build(deployment.load()).resolve_schedule_def("nightly_refresh")
    assert schedule.cron_schedule == "30 4 * * *"
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    context = dg.build_schedule_context(instance=dg.DagsterInstance.ephemeral())
    assert len(schedule.evaluate_tick(context).run_requests or []) == 1


def test_a_bad_cron_is_refused(monkeypatch: pytest.MonkeyPatch, raw_root: Path) -> None:
    monkeypatch.setenv("VESPER_NIGHTLY_CRON", "every night")
    with pytest.raises(dg.DagsterInvalidDefinitionError):
        definitions.build(deployment.load())


def _conditions(loaded: dg.Definitions) -> set[str]:
    made = [asset for asset in loaded.assets or [] if isinstance(asset, dg.AssetsDefinition)]
    return {k.to_user_string() for a in made for k, c in a.automation_conditions_by_key.items() if c}


def test_the_tail_is_automated_and_only_the_tail(loaded: dg.Definitions) -> None:
    found = _conditions(loaded)
    assert "checkpoints/unified" in found and "evaluations/unified" in found
    tail = ("checkpoints/", "episodes/", "evaluations/", "leaderboard/", "suites/")
    assert all(key.startswith(tail) and key != "evaluations/heldout" for key in found)


def test_the_tail_fires_on_new_data_and_not_on_the_same_again() -> None:
    """The shipped condition on a toy graph: re-materialising equal data asks for nothing."""

    @dg.asset
    def corpus() -> None: ...

    @dg.asset(deps=[corpus], automation_condition=TAIL)
    def checkpoint() -> None: ...

    instance = dg.DagsterInstance.ephemeral()
    toy = dg.Definitions([corpus, checkpoint])

    def look(cursor, version):  # type: ignore[no-untyped-def]
        if version:
            instance.report_runless_asset_event(
                dg.AssetMaterialization("corpus", tags={"dagster/data_version": version})
            )
        return dg.evaluate_automation_conditions(toy, instance=instance, cursor=cursor)

    first = look(None, "a")
    second = look(first.cursor, "b")
    assert second.total_requested == 1
    third = look(second.cursor, "b")
    assert third.total_requested == 0


def test_suites_are_run_by_their_job_or_by_a_sensor_that_is_off(loaded: dg.Definitions) -> None:
    def made_by(job: str) -> set[str]:
        return {key.to_user_string() for key in loaded.resolve_job_def(job).asset_layer.executable_asset_keys}

    suites = {"suites/miniwob", "suites/phone", "suites/fsm", "suites/care"}
    assert made_by("evaluate_suites") == suites and "leaderboard/standings" in made_by("train")
    assert not made_by("train") & suites
    graph_of = loaded.resolve_asset_graph()
    targets = {}
    for name in ("training_tail", "suites_after_training"):
        sensor = loaded.resolve_sensor_def(name)
        assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
        chosen = sensor.asset_selection.resolve(graph_of)
        targets[name] = {key.to_user_string() for key in chosen}, sensor.default_status
    assert targets["suites_after_training"] == (suites, dg.DefaultSensorStatus.STOPPED)
    assert not targets["training_tail"][0] & suites and "leaderboard/standings" in targets["training_tail"][0]
    seen = targets["training_tail"][0] | suites
    assert _conditions(loaded) <= seen, "Dagster would make a sensor of its own, and switch it on"


def test_the_standings_wait_for_no_suite_that_was_never_run() -> None:
    def made(key: list[str]) -> dg.AssetsDefinition:
        @dg.asset(key=key, group_name=key[0], check_specs=checks.specs(toy_stage("/".join(key))))
        def asset():  # type: ignore[no-untyped-def]
            return dg.MaterializeResult(
                data_version=dg.DataVersion("1"),
                check_results=[dg.AssetCheckResult(check_name=checks.ALL.name, passed=True)],
            )

        return asset

    keys = [["evaluations", "unified"], ["suites", "fsm"], ["suites", "phone"]]
    evaluation, fsm, phone = (made(key) for key in keys)

    @dg.asset(deps=[evaluation, fsm, phone], automation_condition=TAIL)
    def standings() -> None: ...

    instance, toy = dg.DagsterInstance.ephemeral(), dg.Definitions([evaluation, fsm, phone, standings])
    assert dg.materialize([evaluation], instance=instance).success
    first = dg.evaluate_automation_conditions(toy, instance=instance)
    assert dg.materialize([fsm], instance=instance).success
    assert dg.evaluate_automation_conditions(toy, instance=instance, cursor=first.cursor).total_requested == 1


def test_the_tail_waits_where_a_check_that_mostly_blocks_warns(tmp_path: Path) -> None:
    """Held-out shards without a row, say: the corpus is whole, and nothing is trained to be compared on nothing."""

    something = CheckSpec("there is something", "There is nothing")
    stage = toy_stage("corpus", something)

    def made(manifest: Manifest) -> dg.AssetsDefinition:
        @dg.asset(check_specs=checks.specs(stage))
        def corpus():  # type: ignore[no-untyped-def]
            version = dg.DataVersion(manifest.data_version)
            return dg.MaterializeResult(data_version=version, check_results=checks.results(stage, manifest))

        return corpus

    @dg.asset(deps=["corpus"], automation_condition=TAIL)
    def checkpoint() -> None: ...

    store, instance, cursor, asked = Store(tmp_path), dg.DagsterInstance.ephemeral(), None, []
    for rows in (3, 0, 5):
        spec = PartSpec("a", str(rows))
        with store.build("evaluations/heldout", code_version="1", parts=[spec]) as build:
            build.run_part(spec, lambda out, rows=rows: out.bytes("a.txt", b"x" * rows))  # type: ignore[misc]
            found = build.commit(checks=[something.check(rows > 0, rows, 1, blocking=False)])
        corpus = made(found)
        assert found.checks_passed and dg.materialize([corpus], instance=instance).success
        toy = dg.Definitions([corpus, checkpoint])
        seen = dg.evaluate_automation_conditions(toy, instance=instance, cursor=cursor)
        cursor = seen.cursor
        asked.append(seen.total_requested)
    assert asked == [0, 0, 1]


# --- what people say comes back ---------------------------------------------------------------------------------------
def test_settled_answers_are_promoted_once_they_rest(
    raw_root: Path, loaded: dg.Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reviewing import judged_store

    from quality.review.queue import build_queue, open_queue
    from quality.review.verdict_store import HumanVerdict, VerdictStore, answers_path

    home = raw_root.parent
    store: Store = judged_store(home, {"e0003": 2}, [f"e{n:04d}" for n in range(4) if n != 3], 4)
    build_queue(store, ["toy"])
    sensor = loaded.resolve_sensor_def("new_human_verdicts")

    history = dg.DagsterInstance.ephemeral()
    keys: list[str] = []

    def tick(cursor: str | None) -> tuple[int, str | None]:
        found = sensor.evaluate_tick(dg.build_sensor_context(cursor=cursor, instance=history))
        keys.extend(str(request.run_key) for request in found.run_requests or [])
        return len(found.run_requests or []), found.cursor

    assert tick(None)[0] == 0, "nobody has answered"
    answers = VerdictStore(answers_path(home))
    for name in ("ann", "bob"):
        for place, (item, shown) in enumerate(open_queue(store).trajectories.items()):
            request = f"request:{name}:{place}"
            answers.add(HumanVerdict(item, name, "annotator", "keep", request=request, content=shown.digest))
    answers.close()
    asked, cursor = tick(None)
    assert asked == 0, "people may still be answering: look twice"
    asked, cursor = tick(cursor)
    assert asked == 1
    assert tick(cursor)[0] == 0

    def answer(decision: str) -> None:
        answers = VerdictStore(answers_path(home))
        for name in ("ann", "bob"):
            item, shown = next(iter(open_queue(store).trajectories.items()))
            request = f"request:{name}:{decision}:{len(keys)}"
            answers.add(HumanVerdict(item, name, "annotator", decision, request=request, content=shown.digest))
        answers.close()

    for decision in ("discard", "keep"):  # people change an answer, and change it back
        answer(decision)
        asked, cursor = tick(cursor)
        assert asked == 0
        asked, cursor = tick(cursor)
        assert asked == 1
    assert len(set(keys)) == 3 and keys[0].rpartition("-")[0] == keys[2].rpartition("-")[0], "a run for the same state"
    at_work = history.create_run_for_job(loaded.resolve_job_def("promote_human_verdicts"))
    history.report_run_failed(at_work)
    asked, cursor = tick(cursor)
    assert asked == 0, "at once it would fail again"
    monkeypatch.setattr(feedback, "time", SimpleNamespace(time=lambda: time.time() + AGAIN_S))
    asked, cursor = tick(cursor)
    assert asked == 1
    for hours in (2, 3, 4):  # three times a night, and the next night anew: the judge's ceiling is a night's
        monkeypatch.setattr(feedback, "time", SimpleNamespace(time=lambda h=hours: time.time() + h * AGAIN_S))
        asked, cursor = tick(cursor)
        assert asked == (hours == 2)
    monkeypatch.setattr(feedback, "today", lambda: "2100-01-01")
    asked, cursor = tick(cursor)
    assert asked == 1

    with dg.DagsterInstance.ephemeral() as instance:
        job = loaded.resolve_job_def("promote_human_verdicts")
        assert job.execute_in_process(instance=instance).success
        [event] = instance.get_event_records(
            dg.EventRecordsFilter(dg.DagsterEventType.ASSET_OBSERVATION, dg.AssetKey(["feedback", "human_verdicts"]))
        )
    version = frozen_digest(store.home, "feedback/human_verdicts")
    assert version and event.event_log_entry.asset_observation.tags["dagster/data_version"] == version  # type: ignore[union-attr]


# --- what the trainer says comes back ---------------------------------------------------------------------------------
def _evaluated(store: Store, name: str, step: float) -> None:
    def commit(asset: str, files: dict[str, str], inputs: dict[str, str], counts: dict[str, float]) -> str:
        def write(out: PartWriter) -> None:
            for file, text in files.items():
                out.bytes(file, text.encode())

        spec = PartSpec("a", name)
        with store.build(asset, code_version="1", inputs=inputs, parts=[spec]) as build:
            build.run_part(spec, write)
            return build.commit(counts=counts, checks=[Check("there", True, "1", "1")]).version

    agent = commit("checkpoints/unified", {"lineage.json": json.dumps([name]), "config.json": "{}"}, {}, {})
    commit("evaluations/unified", {"a.json": name}, {"checkpoints/unified": agent}, {"navigation step": step})


@pytest.mark.parametrize("what", ["evaluations", "policy"])
def test_what_the_trainer_says_is_promoted_when_it_is_new(what: str, raw_root: Path, loaded: dg.Definitions) -> None:
    store, key = Store(raw_root.parent), dg.AssetKey(["feedback", what])
    sensor = loaded.resolve_sensor_def(f"new_{what}")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    with dg.DagsterInstance.ephemeral() as instance:

        def asked() -> list[str]:
            context = dg.build_sensor_context(
                instance=instance, resources={"store": definitions.StoreResource(home=str(store.home))}
            )
            return [str(request.run_key) for request in sensor.evaluate_tick(context).run_requests or []]

        def run() -> str:
            assert loaded.resolve_job_def(f"promote_{what}").execute_in_process(instance=instance).success
            found = instance.fetch_observations(key, limit=1).records[0].asset_observation
            assert found is not None and found.tags is not None
            return found.tags["dagster/data_version"]

        assert asked() == [], "nothing is evaluated yet"
        _evaluated(store, "a", 0.5)
        first = asked()
        assert len(first) == 1
        assert run() == frozen_digest(store.home, f"feedback/{what}")
        assert asked() == []
        _evaluated(store, "b", 0.6)
        assert asked() and asked() != first
        run()
        _evaluated(store, "c", 0.1)
        assert bool(asked()) == (what == "evaluations"), "an agent that does worse doesn't act"


def test_what_the_trainer_said_before_is_promoted_again_when_it_comes_back(
    raw_root: Path, loaded: dg.Definitions
) -> None:
    store, sensor, keys = Store(raw_root.parent), loaded.resolve_sensor_def("new_evaluations"), []
    resources, cursor = {"store": definitions.StoreResource(home=str(store.home))}, None
    with dg.DagsterInstance.ephemeral() as instance:
        for name, step in (("a", 0.5), ("b", 0.6)) * 2:
            _evaluated(store, name, step)
            for _ in range(2):
                with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
                    tick = sensor.evaluate_tick(context)
                cursor = tick.cursor
                keys += [request.run_key for request in tick.run_requests or []]
                assert loaded.resolve_job_def("promote_evaluations").execute_in_process(instance=instance).success
    assert len(keys) == len(set(keys)) == 4, "Dagster starts one run a key"


def test_a_round_is_steered_only_if_the_deployment_says_so(tmp_path: Path) -> None:
    from dagster_project.stage_functions import generation
    from generators.generation import steering

    store = Store(tmp_path)
    _evaluated(store, "a", 0.97)
    made = steering.promote_evaluations(store)
    plain = deployment.Deployment(raw_root=tmp_path, generation={"tasks": 20})
    asked = StageWork(store, plain, partition="round_001")
    assert generation.config_of(asked).evaluations == ""
    config = generation.config_of(replace(asked, deployment=plain.changed(generation={"tasks": 20, "steer": True})))
    assert config.evaluations == made["digest"] and config.mix[2] > generation.config_of(asked).mix[2]
    for said in ({"evaluations": "x"}, {"agent": "x"}):
        with pytest.raises(ValueError, match="generation: unknown"):
            generation.loop_config(said)
