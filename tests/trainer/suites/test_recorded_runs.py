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
