"""Runs of others scored from their harnesses' folders: OSWorld's and macOSWorld's form, and what counts for nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dagster_project import cli
from trainer.suites.recorded_runs import report_of, runs_in


def osworld(folder: Path, task: str, result: str | None, *actions: object) -> None:
    place = folder / task
    place.mkdir(parents=True)
    if result is not None:
        (place / "result.txt").write_text(f"{result}\n")
    lines = [json.dumps({"step_num": n, "action": action, "response": ""}) for n, action in enumerate(actions)]
    (place / "traj.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_scores_are_the_harness_own_and_what_it_could_not_score_is_not_0(tmp_path: Path) -> None:
    osworld(tmp_path, "os/a", "1.0", "import pyautogui\npyautogui.click(5, 6)", "DONE")
    osworld(tmp_path, "os/b", "0.5", "pyautogui.press('a')", {"action_type": "FAIL"})
    osworld(tmp_path, "chrome/c", "0.0", "juggle()")
    osworld(tmp_path, "chrome/d", None, "WAIT")
    osworld(tmp_path, "chrome/e", "7")
    runs = list(runs_in(tmp_path))
    report = report_of(runs)
    assert report["score"]["mean"] == pytest.approx(0.5) and report["score"]["n"] == 3
    assert report["success"]["mean"] == pytest.approx(1 / 3)
    assert report["by_domain"]["chrome"]["mean"] == 0.0 and report["by_domain"]["os"]["mean"] == 0.75
    assert report["not_counted"] == {"a score outside of 0..1": 1, "no result: the run didn't end": 1}
    assert (report["steps"], report["refused"]) == (6, 1)
    assert report["unread_share"] == pytest.approx(1 / 6)


def test_one_task_in_several_languages_is_one_cluster(tmp_path: Path) -> None:
    for language, result in (("en_en", "100"), ("zh_zh", "0"), ("ar_en", "eval_failed\nls\n100\n")):
        place = tmp_path / "media" / f"00aa-11_{language}"
        place.mkdir(parents=True)
        (place / "eval_result.txt").write_text(result)
    report = report_of(list(runs_in(tmp_path)))
    assert (report["score"]["mean"], report["score"]["n"], report["score"]["clusters"]) == (0.5, 2, 1)
    assert report["not_counted"] == {"its harness could not score it": 1}


def test_androidlab_is_scored_by_the_points_that_its_evaluation_judged(tmp_path: Path) -> None:
    def evaluated(name: str, *rows: object) -> None:
        place = tmp_path / name
        place.mkdir(parents=True)
        (place / "results.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def row(task: str, result: object, **more: object) -> dict[str, object]:
        return {"task_id": task, "task": "Do it", "metric_type": "operation", "result": result, **more}

    half = {"judge_page": True, "1": True, "2": False, "complete": False}
    done = {"judge_page": True, "1": True, "complete": True}
    evaluated("runs_2024-05-10-12-00-00", row("clock_1", half), row("clock_2", {"complete": False}))
    again = [row("clock_1", done, RRR=0.5, reasonable_operation_ratio=1), row("map_1", {"1": True, "complete": False})]
    evaluated("runs_2024-05-11-12-00-00", *again, row("zoom_1", None), ["no row"])
    for name, steps in (("clock_1_2024-05-10_10-00-00", 3), ("pimusic_1_2024-05-10_11-00-00", 2)):
        trace = tmp_path / "runs" / name / "traces" / "trace.jsonl"
        trace.parent.mkdir(parents=True)
        trace.write_text('{"trace_id": "x"}\n' * steps)
    runs = {run.task: run for run in runs_in(tmp_path)}
    report = report_of(list(runs.values()))
    assert (runs["clock_1"].score, runs["clock_1"].steps, runs["clock_2"].score) == (1.0, 3, 0.0), "the last one counts"
    # all points held, and the harness says that it isn't complete
    assert (report["success"]["mean"], report["score"]["mean"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert report["by_domain"]["clock"]["mean"] == 0.5 and report["more"]["RRR"]["mean"] == 0.5
    assert report["not_counted"] == {"its harness could not score it": 2, "no result: not evaluated": 1}
    assert report["steps"] == 5 and len(runs) == 6


def test_venusbench_mobile_is_scored_by_its_table(tmp_path: Path) -> None:
    head = "task_template,num_complete_trials,mean_success_rate,mean_episode_length,difficulty,optimal_steps,tags"
    rows = ["GSAClock,1,1.0,12.0,easy,10,['GSA']", "Vague,2,0.5,9.5,hard,10,\"['multiround', 'vague']\""]
    rows += ["VagueCHS,1,0.0,10.0,,,[]", "Broken,0,,,easy,10,['GSA']"]
    (tmp_path / "result.csv").write_text("\n".join([head, *rows]))
    report = report_of(list(runs_in(tmp_path)))
    assert {name: found["mean"] for name, found in report["by_domain"].items()} == {
        "GSA": 1.0,
        "multiround": 0.5,
        "untagged": 0.0,
    }
    assert report["not_counted"] == {"its harness could not score it": 1} and report["steps"] == 31
    (tmp_path / "result.csv").write_text("a,b\n1,2\n")
    assert list(runs_in(tmp_path)) == [], "another table"


def test_the_command_prints_the_figures_and_says_what_it_expects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", "recorded", str(tmp_path)]) == 2
    assert "expected runs with result.txt" in capsys.readouterr().err
    osworld(tmp_path / "runs", "os/a", "1.0", "DONE")
    asked = [str(tmp_path / "runs"), "--out", str(tmp_path / "report.json")]
    assert cli.main(["eval", "recorded", *asked]) == 0
    assert "score                      100.0" in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["records"][0]["task"] == "a"
