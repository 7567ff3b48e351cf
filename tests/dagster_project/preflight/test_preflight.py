"""What a run needs is looked for before it costs anything, for the selected assets only."""

from __future__ import annotations

import http.server
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.assets.keys import asset_key
from dagster_project.preflight import probes, training_memory
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Deployment, JudgeOptions, SourceSettings
from dagster_project.stages import graph, sources
from dagster_project.stages.stage import GraphStage, JudgeSettings, StageWork
from pipelines.engines.settings import EngineChoice, EngineSettings
from pipelines.store import Check, PartSpec, Store
from trainer.proving.staircase.stage import ASSET as STAIRCASE

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def work(tmp_path: Path) -> StageWork:
    return StageWork(Store(tmp_path), Deployment(raw_root=tmp_path / "incoming", preflight={"free_gb": 0}))


def _stage(key: str, *needs: str, deps: tuple[str, ...] = ()) -> GraphStage:
    def run(work: StageWork):  # type: ignore[no-untyped-def]
        spec = PartSpec("a", key)
        with work.store.build(key, code_version="1", parts=[spec]) as build:
            build.run_part(spec, lambda out: out.bytes("a.txt", b"x"))
            return build.commit(checks=[Check("there", True, "1", "1")])

    return GraphStage(key, deps, "refresh_sources", run, "a toy", ("file",), "1", needs=needs)


@contextmanager
def _endpoint(
    status: int = 200, models: tuple[str, ...] = ("small",), key: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """A server with a list of models; (URL, paths that were asked for)."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            refused = key and self.headers.get("Authorization") != f"Bearer {key}"
            body = json.dumps({"data": [{"id": name} for name in ("small",)]}).encode()
            self.send_response(401 if refused else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _asking(work: StageWork, url: str | None, model: str | None = "small") -> StageWork:
    return replace(work, judge=JudgeSettings("openai", url, model))


# --- the judge --------------------------------------------------------------------------------------------------------
def test_a_judge_is_asked_whether_it_is_there(work: StageWork, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VESPER_JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    stage = _stage("verdicts/aitw", "judge")
    with _endpoint(key="secret") as (url, asked):
        assert ["isn't set" in line for line in probes.judge(stage, _asking(work, url))] == [True]
        monkeypatch.setenv("VESPER_JUDGE_API_KEY", "wrong")
        [line] = probes.judge(stage, _asking(work, url))
        assert "is refused" in line and "wrong" not in line
        monkeypatch.setenv("VESPER_JUDGE_API_KEY", "secret")
        assert probes.judge(stage, _asking(work, url)) == []
        [line] = probes.judge(stage, _asking(work, url, "large"))
        assert "serves small, not 'large'" in line
        assert set(asked) == {"/v1/models"}, "a list costs nothing"
    [line] = probes.judge(stage, _asking(work, url))
    assert "doesn't answer" in line and url in line
    with _endpoint(503) as (url, _):
        assert "HTTP 503" in probes.judge(stage, _asking(work, url))[0]
    with _endpoint(404) as (url, _):
        assert probes.judge(stage, _asking(work, url)) == [], "a server without a list has answered"


def test_a_judge_that_asks_nobody_needs_no_endpoint(work: StageWork) -> None:
    stage = _stage("verdicts/aitw", "judge")
    assert probes.judge(stage, work) == []
    assert "isn't trained yet" in probes.judge(stage, replace(work, judge=JudgeSettings("nano")))[0]
    assert "expected one of rules" in probes.judge(stage, replace(work, judge=JudgeSettings("oracle")))[0]
    assert "VESPER_JUDGE_BASE_URL" in probes.judge(stage, _asking(work, None))[0]
    assert "http(s)" in probes.judge(stage, _asking(work, "file:///etc/passwd"))[0]


def test_a_judge_that_is_to_read_needs_the_program(work: StageWork, monkeypatch: pytest.MonkeyPatch) -> None:
    from quality.evidence import rapid_ocr, tesseract

    reads = replace(work, deployment=work.deployment.changed(judge=JudgeOptions(read=True)))
    tesseract.version.cache_clear()
    monkeypatch.setattr(tesseract, "PROGRAM", "no-such-tesseract")
    assert probes.judge(_stage("verdicts/aitw", "judge"), work) == []
    [line] = probes.judge(_stage("verdicts/aitw", "judge"), reads)
    assert "apt-get install tesseract-ocr" in line and "judge.read" in line
    tesseract.version.cache_clear()
    other = work.deployment.changed(judge=JudgeOptions(read=True, reader="rapidocr"))
    rapid_ocr._engine.cache_clear()
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    [line] = probes.judge(_stage("verdicts/aitw", "judge"), replace(work, deployment=other))
    assert "pip install rapidocr" in line and "judge.read" in line
    rapid_ocr._engine.cache_clear()


# --- files, disk, browser, trainer ------------------------------------------------------------------------------------
def test_the_engine_of_the_deployment_is_looked_for(work: StageWork) -> None:
    stage = _stage("unified/x", "engine")
    assert probes.engine(stage, work) == []
    unknown = replace(work, deployment=work.deployment.changed(engine=EngineSettings(runner="dask")))
    assert "engine: expected one of in-process, processes, beam" in probes.engine(stage, unknown)[0]
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        place = f"127.0.0.1:{scheduler.getsockname()[1]}"
        flags = ("--runner=DaskRunner", f"--dask_client_address=tcp://{place}")
        stages = {"unified": EngineChoice(runner="beam", options=flags)}
        on_dask = replace(work, deployment=work.deployment.changed(engine=EngineSettings(stages=stages)))
        assert probes.engine(stage, on_dask) == []
    [line] = probes.engine(stage, on_dask)
    assert line.startswith(f"engine: no Dask scheduler answers at tcp://{place} (")
    assert probes.engine(_stage("verdicts/x", "engine"), on_dask) == []
    nonsense = EngineSettings(runner="beam", options=("--dask_client_address=nowhere:port",))
    assert len(probes.engine(stage, replace(work, deployment=work.deployment.changed(engine=nonsense)))) == 1
    on_ray = EngineSettings(runner="ray", options=(f"--address={place}",))
    [line] = probes.engine(stage, replace(work, deployment=work.deployment.changed(engine=on_ray)))
    assert line.startswith((f"engine ray: no cluster answers at {place} (", "this needs the extra 'ray'"))


def test_native_files_are_looked_for(work: StageWork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = _stage("raw/aitw", "files")
    native = replace(work, deployment=work.deployment.changed(embedded={"enabled": False}))
    assert "expected native files" in probes.files(stage, native)[0]
    (tmp_path / "incoming" / "aitw").mkdir(parents=True)
    assert "vesper sources pull aitw" in probes.files(stage, native)[0]
    (tmp_path / "incoming" / "screenspot").mkdir()
    assert "put them there by hand" in probes.files(_stage("raw/screenspot", "files"), native)[0]
    (tmp_path / "incoming" / "aitw" / "a").write_text("x")
    assert probes.files(stage, native) == []
    monkeypatch.setenv("VESPER_BROWSER", str(tmp_path / "nothing"))
    [line] = probes.files(_stage("raw/mind2web", "files"), work)
    assert line.startswith("browser: "), "embedded data is drawn"
    receipt = tmp_path / "raw" / "_receipts" / "mind2web.json"
    receipt.parent.mkdir(parents=True)
    receipt.write_text("{}")
    assert probes.files(_stage("raw/mind2web", "files"), work) == []


def test_disk_and_ground(work: StageWork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = _stage("raw/aitw")
    assert probes.disk(stage, work) == []
    [line] = probes.disk(stage, replace(work, deployment=work.deployment.changed(preflight={"free_gb": 1e8})))
    assert line.startswith("disk: expected 100000.0 TB free")
    monkeypatch.setenv("VESPER_BROWSER", str(tmp_path / "nothing"))
    assert "browser: " in probes.ground(stage, work)[0]
    wrong = replace(work, deployment=work.deployment.changed(generation={"ground": "moon"}))
    assert "task world: expected " in probes.ground(stage, wrong)[0]


def test_a_preset_that_does_not_fit_is_told(work: StageWork, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, merged = _stage("checkpoints/mid_trained"), _stage("checkpoints/linear")
    monkeypatch.setattr(training_memory, "_memory", lambda: 64_000_000_000)
    monkeypatch.setattr(training_memory, "_gpus", lambda: [])

    def said(text: str, stage: GraphStage = trained) -> list[str]:
        monkeypatch.setenv("VESPER_TRAINER", text)
        return probes.trainer(stage, work)

    assert said("{}") == said('{"preset": "2b"}') == []
    wrong = '{"merge": {"specialists": ["offline_phone"]}}'
    told = "trainer: VESPER_TRAINER: merge.specialists.0: expected offline_grounding, offline_mobile"
    assert all(said(wrong, stage)[0].startswith(told) for stage in (trained, merged)), "before anything trains"
    [line] = said('{"preset": "8b"}')
    assert line.startswith("trainer: checkpoints/mid_trained: preset 8b with device cpu and ranks 1 takes 137.6 GB")
    assert said('{"preset": "8b"}', merged) == []
    spec = PartSpec("a", "b")
    with work.store.build("checkpoints/base", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("model/preset.json", b'{"name": "8b"}'))
        build.commit(checks=[Check("there", True, "1", "1")])
    assert "preset 8b" in said("{}")[0], "that of the base which was made"
    assert "need 2 visible GPUs, found 0" in said('{"device": "cuda", "ranks": 2}')[0], "nano, too"
    assert "expected a whole number, 1 or more, found 0" in said('{"ranks": 0}')[0]
    assert "expected cpu or cuda with ranks 2" in said('{"device": "cuda:1", "ranks": 2}')[0]
    assert "preset: expected nano, 2b" in said('{"preset": "9b"}')[0]
    assert "unknown 'presett'" in said('{"presett": "8b"}')[0]
    assert "with config.json" in said('{"weights": "/nowhere"}')[0]


# --- in a run ---------------------------------------------------------------------------------------------------------
def _run(stages: dict[str, GraphStage], only: list[str], tmp_path: Path, judge: dict[str, str]) -> dict[str, str]:
    """Asset → why it failed ("" if it was made)."""
    loaded = dg.Definitions(
        assets=factory.build(stages),
        jobs=[dg.define_asset_job("refresh", dg.AssetSelection.all())],
        resources={"store": definitions.StoreResource(home=str(tmp_path)), "judge": definitions.JudgeResource(**judge)},
    )
    instance = dg.DagsterInstance.ephemeral()
    done = loaded.resolve_job_def("refresh").execute_in_process(
        QUIET, instance, raise_on_error=False, asset_selection=[asset_key(key) for key in only]
    )
    told = {}
    for event in done.all_node_events:
        if event.event_type == dg.DagsterEventType.STEP_FAILURE:
            cause = event.step_failure_data.user_failure_data
            told[str(event.step_key)] = str(cause.description) if cause else str(event.step_failure_data.error)
        elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            told[str(event.step_key)] = ""
    return told


def test_a_run_fails_before_it_costs_anything_and_only_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    (tmp_path / "d.yaml").write_text("embedded: {enabled: false}\npreflight: {free_gb: 0}\n")
    (tmp_path / "incoming" / "aitw").mkdir(parents=True)
    (tmp_path / "incoming" / "aitw" / "a").write_text("x")
    listed = [
        _stage("raw/aitw", "files"),
        _stage("verdicts/aitw", "judge", deps=("raw/aitw",)),
        _stage("raw/mind2web", "files"),
        _stage("verdicts/mind2web", "judge", deps=("raw/mind2web",)),
    ]
    stages = {stage.key: stage for stage in listed}
    with _endpoint() as (url, asked):
        judge = {"name": "openai", "base_url": url, "model": "small"}
        told = _run(stages, list(stages), tmp_path, judge)
        assert told["raw__aitw"] == told["verdicts__aitw"] == "", "one broken source starves nobody"
        assert told["raw__mind2web"].startswith("raw/mind2web: expected native files in")
        assert "verdicts__mind2web" not in told
        assert len(asked) == 1, "a run asks once"
    told = _run(stages, list(stages), tmp_path, judge)
    assert "doesn't answer" in told["raw__aitw"] and "verdicts__aitw" not in told
    assert _run(stages, ["raw/aitw"], tmp_path, judge) == {"raw__aitw": ""}, "nobody is judged in this run"


def test_needs_are_told_where_they_arise() -> None:
    stages = graph.stages(Deployment(raw_root=Path("/nowhere"), sources={"aitw": SourceSettings(owners=("team:x",))}))
    for key, stage in stages.items():
        assert set(stage.needs) <= set(probes.PROBES), key
        assert ("judge" in stage.needs) == (stage.group in ("verdicts", "gold") and key != "gold/generated"), key
        assert ("files" in stage.needs) == (stage.group == "raw"), key
        assert ("trainer" in stage.needs) == (stage.pool == "trainer" or key == STAIRCASE), key
    assert "ground" in stages["generation/trajectories"].needs and "devices" in stages["checkpoints/online_web"].needs
    assert sources.follow(Deployment(raw_root=Path("/nowhere")), "aitw") is None
    assert deployment.load().preflight.free_gb > 0
