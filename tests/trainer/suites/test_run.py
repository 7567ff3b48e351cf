"""A suite from the command line to the standings: checkpoints and served models, history, one-line refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import native_benchmarks as native
import pytest
from executing import fsm_contracts, pool
from reply_server import ReplyServer, text_of

from dagster_project.cli import main
from pipelines.prompts import navigation_text, reply_text
from pipelines.store import PartSpec, PartWriter, Store
from schemas.action_types import Click
from trainer.suites import leaderboard
from trainer.suites.answering import CheckpointAnswers, EndpointAnswers, trained_agents
from trainer.suites.options import EvaluationSubject, SuiteOptions
from trainer.suites.run import _kept, run_suite
from trainer.suites.steps import told_messages
from trainer.suites.worlds import world_success


@pytest.fixture(scope="module")
def folder(processor: Any, tiny_preset: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    made: Path = tmp_path_factory.mktemp("checkpoint") / "tiny"
    save_checkpoint(
        made, build_model(tiny_preset, processor.tokenizer, seed=1), processor, lineage("tiny", tiny_preset)
    )
    return made


def served(body: dict[str, Any]) -> str:
    """A model that finds what it is asked for on one benchmark, and acts on any screen."""
    text = text_of(body)
    return "[200,250]" if "Where is" in text else reply_text(Click((10, 20)), "web")


def test_a_checkpoint_on_a_benchmark_from_the_command_line_to_the_standings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native.screenspot_v2(tmp_path / "raw")
    (tmp_path / "home/assets").mkdir(parents=True)
    out = tmp_path / "report.json"
    given = [
        "eval",
        str(folder),
        "--suite",
        "screenspot_v2",
        "--raw",
        str(tmp_path / "raw"),
        "--home",
        str(tmp_path / "home"),
        "--out",
        str(out),
        "--limit",
        "4",
        "--record",
    ]
    assert main(given) == 0
    told = capsys.readouterr().out
    report = json.loads(out.read_text())
    assert len(report["records"]) == 4 and report["suite"] == "screenspot_v2"
    assert report["policy"].startswith("vesper-tiny") and report["read"]["not_asked"]["beyond_limit"] == 1
    for words in ("all questions", "swapped", "random_element", "blind_suite", "beyond_limit 1", "kept as leaderboard"):
        assert words in told
    store = Store(tmp_path / "home")
    manifest = leaderboard.build_standings(store)
    [row] = manifest.read("rows").to_pylist()
    assert manifest.checks_passed and row["current"] and row["suite"] == "screenspot_v2" and row["n"] == 4
    assert row["control"] in ("blind_suite", "random_element", "swapped") and row["version"] in told
    assert leaderboard.build_standings(store).version == manifest.version  # nothing new: the same


def test_history_outlives_versions_that_are_cleared_away(tmp_path: Path) -> None:
    import shutil

    def report(mean: float, policy: str = "a|b <i>", suite: str = "screenspot") -> dict[str, Any]:
        found = {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "n": 10, "clusters": 5}
        return {
            "suite": suite,
            "policy": policy,
            "config": {},
            "records": [{"id": 1}],
            "summary": {
                "headline": found,
                "headline_of": "all",
                "controls": {"blind": {"mean": 0.25}, "swapped": {"mean": 0.1}, "blind_type": {"mean": 0.9}},
            },
        }

    store = Store(tmp_path)
    first = leaderboard.record(store, report(0.4))
    old = leaderboard.build_standings(store)
    second = leaderboard.record(store, report(0.5))
    leaderboard.record(store, report(0.3, "A|B <i>"))  # another name, another asset
    shutil.rmtree(first.directory)
    new = leaderboard.build_standings(store)
    rows = {(row["policy"], row["mean"]): row for row in new.read("rows").to_pylist()}
    assert {key: row["current"] for key, row in rows.items()} == {
        ("a|b <i>", 0.4): False,
        ("a|b <i>", 0.5): True,
        ("A|B <i>", 0.3): True,
    }
    assert new.version != old.version and second.asset == first.asset and new.checks_passed
    assert rows["a|b <i>", 0.4]["control"] == "blind" and rows["a|b <i>", 0.4]["control_mean"] == 0.25
    text = new.file("standings.md").read_text()
    assert "### Before" in text and "<i>" not in text and "a\\|b &lt;i&gt;" in text
    dates = [row["committed"] for row in new.read("dates").to_pylist()]
    assert len(dates) == 3 and all(len(date) == 10 for date in dates)
    with pytest.raises(ValueError, match="not JSON compliant"):
        leaderboard.record(store, report(float("nan")))


def writes(name: str, text: str) -> Callable[[PartWriter], dict[str, Any]]:
    def write(out: PartWriter) -> dict[str, Any]:
        out.bytes(name, text.encode())
        return {}

    return write


def test_stage_evaluations_stand_beside_suites(tmp_path: Path) -> None:
    def interval(mean: float) -> dict[str, Any]:
        return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "n": 10, "clusters": 5}

    summary = {
        "grounding": {"hit": interval(0.6), "controls": {"blind": interval(0.2)}},
        "navigation/web": {"step": interval(0.3), "controls": {"blind": interval(0.1)}},
    }
    store, spec = Store(tmp_path), PartSpec("evaluation", "x")
    with store.build(
        "evaluations/unified", code_version="1", inputs={"checkpoints/unified": "v7"}, parts=[spec]
    ) as build:
        build.run_part(spec, writes("evaluation.json", json.dumps({"summary": summary})))
        build.commit(counts={}, checks=[])
    with store.build("evaluations/heldout", code_version="1", parts=[spec]) as build:  # shards: no evaluation
        build.run_part(spec, writes("part.txt", "x"))
        build.commit(counts={}, checks=[])
    rows = leaderboard.build_standings(store).read("rows").to_pylist()
    assert [(r["suite"], r["policy"], r["measure"], r["mean"], r["checkpoint_version"]) for r in rows] == [
        ("heldout/grounding", "unified", "hit", 0.6, "v7"),
        ("heldout/navigation/web", "unified", "step", 0.3, "v7"),
    ]


def test_the_standings_are_an_asset_with_its_table(tmp_path: Path) -> None:
    from dagster_project.assets import metadata
    from dagster_project.settings import deployment
    from dagster_project.stages import graph

    stage = graph.stages(deployment.Deployment(raw_root=Path("/nowhere")))[leaderboard.ASSET]
    assert "evaluations/unified" in stage.deps and stage.columns == leaderboard.Standings
    store = Store(tmp_path)
    shown = metadata.describe(stage, leaderboard.build_standings(store), store)
    assert "Nothing is evaluated yet" in shown["standings"].value and shown["dagster/row_count"] == 0


# --- served models ---


def test_a_served_model_is_told_what_is_wanted(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    with ReplyServer(served) as server:
        answers = EndpointAnswers(server.url, "venus")
        report = run_suite(
            "screenspot_v2", EvaluationSubject(base_url=server.url, model="venus"), SuiteOptions(raw=tmp_path)
        )
        answers.close()
        asked = [text_of(body) for body in server.bodies]
    assert report["policy"] == "venus" and report["summary"]["breakdown"]["platform"]["mobile"]["mean"] == 0.5
    assert all("[-1,-1]" in text and "0 to 1000" in text for text in asked)


def test_a_served_checkpoint_is_asked_as_it_was_trained(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    with ReplyServer(served) as server:
        trained = EvaluationSubject(base_url=server.url, model="unified", words="trained")
        run_suite("screenspot_v2", trained, SuiteOptions(raw=tmp_path))
        assert {text_of(body) for body in server.bodies} >= {"Where is go back?", "Where is search?"}
        server.bodies.clear()
        [contract] = fsm_contracts(1)
        found = world_success(trained_agents(server.url, "unified"), [contract], pool())
        texts = [text_of(body) for body in server.bodies]
    assert texts[0] == navigation_text(contract.instruction, [])
    assert "1. Click(box=(10,20))" in texts[1] and found["summary"]["success"]["mean"] == 0.0


def test_a_served_model_that_thinks_is_not_cut(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)

    def limits(suite: str, *, most: int | None = None, **asked: Any) -> set[int]:
        with ReplyServer(served) as server:
            subject = EvaluationSubject(base_url=server.url, model="m", **asked)
            run_suite(suite, subject, SuiteOptions(raw=tmp_path, limit=1, max_new_tokens=most))
            return {body["max_tokens"] for body in server.bodies}

    assert limits("screenspot_v2") == {512} and limits("screenspot_v2", most=2000) == {2000}
    assert limits("screenspot_v2", words="trained") == {16}
    assert limits("fsm", words="trained", thinking=True) == {1024} and limits("fsm", most=33) == {33}


def test_a_served_checkpoint_is_shown_its_thoughts_where_it_was_trained_so() -> None:
    def thinking(body: dict[str, Any]) -> str:
        return reply_text(Click((10, 20)), "web", "I see")

    with ReplyServer(thinking) as server:
        subject = EvaluationSubject(
            base_url=server.url, model="m", words="trained", history="think_action", thinking=True
        )
        config = run_suite("fsm", subject, SuiteOptions(limit=1))["config"]
        texts = [text_of(body) for body in server.bodies]
    assert (config["words"], config["history"], config["thinking"]) == ("trained", "think_action", True)
    assert config["max_new_tokens"] == 1024
    assert "\n1. Click(box=(10,20)) (I see)" in texts[1] and not any("Thinking: off" in text for text in texts)
    with pytest.raises(ValueError, match="--history-steps and --thinking are for served models"):
        EvaluationSubject(Path(__file__).parent, history="think_action")


def test_a_server_that_is_gone_is_one_line(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    with ReplyServer(served) as server:
        url = server.url
    answers = EndpointAnswers(url, "gone", attempts=1)
    with pytest.raises(RuntimeError, match=f"gone at {url}"):
        run_suite_with(answers, tmp_path)


def run_suite_with(answers: Any, root: Path) -> dict[str, Any]:
    from pipelines.mapping.adapter import Raw
    from trainer.suites.grounding import evaluate_grounding
    from trainer.suites.registry import benchmark

    return evaluate_grounding(benchmark("screenspot_v2"), Raw(root), answers)


def test_bad_requests_are_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path)
    monkeypatch.setenv("VESPER_HOME", home)  # that of the machine may hold native files
    cases = {
        "unknown suite 'nope'; known are aitz": [str(folder), "--suite", "nope"],
        "expected a checkpoint folder, or --base-url and --model": ["--suite", "screenspot"],
        "needs both --base-url and --model": ["--base-url", "http://127.0.0.1:1/v1"],
        "expected a checkpoint folder with config.json": [str(tmp_path), "--suite", "screenspot"],
        "found a served model": ["--suite", "latent", "--base-url", "http://x", "--model", "m", "--home", home],
        "expected native files of ScreenSpot in a folder": [str(folder), "--suite", "screenspot"],
        "expected unified/aitz in the store": [str(folder), "--suite", "aitz"],
        "expected a store": [str(folder), "--suite", "heldout", "--home", str(tmp_path / "none")],
        "AndroidWorld isn't installed": [str(folder), "--suite", "android_world"],
        "unknown 'nope'": [str(folder), "--suite", "fsm", "--only", "nope"],
    }
    (tmp_path / "assets").mkdir()
    for words, given in cases.items():
        assert main(["eval", *given]) == 2, words
        told = capsys.readouterr().err.strip()
        assert words in told and "\n" not in told, told


def test_a_navigation_row_for_others_has_its_past(folder: Path) -> None:
    from trainer.modeling.checkpoint import load_checkpoint

    row = {"goal": "Open it", "past": ["Click(box=(1,2))", None], "platform": "mobile", "images": [native.png(8, 8)]}
    text = told_messages(row)[1]["content"][0]["text"]
    assert "1. Click(box=(1,2))" in text and "2. (a reply that could not be read)" in text
    assert CheckpointAnswers(load_checkpoint(folder)).name.startswith("vesper-tiny")


def test_the_held_out_suite_of_a_store(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from goldmaker import gold

    from pipelines.training_data.shards import build_shards

    store = gold(tmp_path, count=20, parts=2)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    given = ["eval", str(folder), "--suite", "heldout", "--home", str(store.home), "--limit", "2", "--record"]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert "control: blind" in told and "control: swapped" in told and "kept as leaderboard/results/heldout/" in told
    rows = leaderboard.build_standings(store).read("rows").to_pylist()
    assert {row["suite"] for row in rows} >= {"heldout/grounding"} and all(row["n"] for row in rows)


def test_steps_from_native_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tfrecords import small_episode, write_examples

    episode = small_episode([{"action_type": "click", "x": 50, "y": 50}, {"action_type": "wait"}], episode_id=[1])
    write_examples(tmp_path / "raw/android_control-00000-of-00020", [episode])
    (tmp_path / "raw/splits.json").write_text(json.dumps({"train": [], "validation": [], "test": [1]}))
    out = tmp_path / "report.json"
    given = ["eval", str(folder), "--suite", "android_control_low", "--raw", str(tmp_path / "raw"), "--out", str(out)]
    assert main(given) == 0
    report = json.loads(out.read_text())
    assert report["config"]["max_new_tokens"] == 112  # as its preset says
    assert report["suite"] == "android_control_low" and len(report["records"]) == 2
    assert "commonest_type" in capsys.readouterr().out


def test_a_models_episodes_are_kept_apart_by_how_it_was_asked(tmp_path: Path) -> None:
    served = EvaluationSubject(base_url="http://127.0.0.1:9/v1", model="m")
    asked = [
        (served, {}),
        (replace(served, base_url="http://127.0.0.1:8/v1"), {}),
        (replace(served, model="n"), {}),
        (replace(served, words="trained", thinking=True), {}),
        (replace(served, history="think_action"), {}),
        (served, {"temperature": 0.5}),
        (served, {"seed": 1}),
        (served, {"max_new_tokens": 9}),
    ]
    folders = [_kept(subject, SuiteOptions(state=tmp_path, **more), "full") for subject, more in asked]
    assert len(set(folders)) == len(asked) and folders[0] != _kept(served, SuiteOptions(state=tmp_path), "nano")
    assert _kept(served, SuiteOptions(state=tmp_path), "full") == folders[0]
    assert _kept(served, SuiteOptions(), "full") is None
