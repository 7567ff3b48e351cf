"""What is made of the judge bench's figures: text, JSON, pictures, the comparison with native scores, the command."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import pytest
from benchmaker import Maker, TableJudge, golden

from pipelines.mapping.adapter import Raw
from pipelines.sources import get
from quality.proving import bench_report
from quality.proving.judge_bench import BenchResult, measure
from quality.proving.native_scores import _RULE, compare_native


@pytest.fixture
def made(world: Any) -> Maker:
    return golden(world)


@pytest.fixture
def bench(made: Maker, tmp_path: Path) -> Path:
    return made.write(tmp_path / "bench")


@pytest.fixture
def result(made: Maker, bench: Path) -> BenchResult:
    return measure(bench, TableJudge(made.said.__getitem__), rounds=50)


# --- reports
@pytest.mark.slow
def test_reports(result: BenchResult, made: Maker, bench: Path, tmp_path: Path) -> None:
    without = measure(bench, TableJudge(made.said.__getitem__), False, rounds=50)
    written = bench_report.write([result, without], tmp_path / "out", {"native": {"left_out": "none given"}})
    assert {path.name for path in written} == {
        "report.json",
        "costs.json",
        "report.txt",
        "reliability.png",
        "recall.png",
    }
    shown = (tmp_path / "out" / "report.txt").read_text()
    for told in (
        "wrong_element",
        "0.850",
        "near_miss*",
        "[b] table, without elements",
        "macro recall",
        "at 30.3%",
        "blind spots (AUROC below 0.6): other_task",
        "no planted items of off_by_one",
    ):
        assert told in shown
    loaded = json.loads((tmp_path / "out" / "report.json").read_text())
    assert loaded["results"][0]["macro_recall"] == pytest.approx((0.75 + 2 / 3 + 0.5) / 3)
    assert loaded["native"] == {"left_out": "none given"} and "seconds" not in json.dumps(loaded)
    assert json.loads((tmp_path / "out" / "costs.json").read_text())[1]["elements"] is False
    bench_report.write([result, without], tmp_path / "again", {"native": {"left_out": "none given"}})
    for name in ("report.json", "report.txt", "reliability.png", "recall.png"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert (tmp_path / "out" / "recall.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_and_text_of_a_split_without_defects(made: Maker, bench: Path) -> None:
    seen = measure(bench, TableJudge(made.said.__getitem__), split="seen", rounds=5)
    assert "none in this split" in bench_report.text([seen])
    assert bench_report.recall_png([seen]) and bench_report.reliability_png([seen])
    with pytest.raises(ValueError, match="at least one result"):
        bench_report.text([])


def test_columns_are_aligned_and_names_cannot_move_the_cursor() -> None:
    told = bench_report.table(["name", "n"], [["a\x1b[2Jb\nc", "1"], ["long name", "100"]])
    assert told.splitlines() == ["name         n", "---------  ---", "a [2Jb c     1", "long name  100"]


# --- scores that sources ship
def native(made: Maker, tmp_path: Path, *scores: tuple[str, str] | None) -> Path:
    for number, pair in enumerate(scores):
        rules = [f"alignment_score={pair[0]}", f"efficiency_score={pair[1]}"] if pair else ["other=1"]
        for step in made.steps[2 * number : 2 * number + 2]:
            step["provenance"] = json.dumps({"rules": rules})
    del made.steps[2 * len(scores) :]
    made.truth.clear()
    return made.write(tmp_path / "native")


def test_native_scores_beside_a_judges(made: Maker, tmp_path: Path) -> None:
    folder = native(made, tmp_path, ("2", "9"), ("8", "9"), ("9.5", "x"), ("10", "11"), None)
    # the judge's episodes: s0 3 (its worst step), then 8, 8, 8. Ranks 1, 3, 3, 3 against 1, 2, 3, 4
    found = compare_native(folder, TableJudge(made.said.__getitem__), rounds=20)
    alignment, efficiency = found.agreements
    assert (alignment.native, alignment.episodes, alignment.same_band) == ("alignment_score", 4, 1.0)
    assert alignment.correlation == pytest.approx(3 / math.sqrt(3 * 5))
    assert alignment.apart == pytest.approx((1 + 0 + 1.5 + 2) / 4) and alignment.kappa == pytest.approx(1)
    assert (efficiency.episodes, efficiency.same_band) == (2, 0.5)
    assert found.skipped == {
        "alignment_score: none, or not a number in 0..10": 1,
        "efficiency_score: none, or not a number in 0..10": 3,
    }


def test_no_native_scores_ask_the_judge_nothing(made: Maker, tmp_path: Path) -> None:
    judge = TableJudge(made.said.__getitem__)
    found = compare_native(native(made, tmp_path, None, None), judge)
    assert not judge.asked and not found.agreements
    assert found.left_out.startswith("none of 2 episodes carries alignment_score")
    silent = compare_native(native(made, tmp_path, ("2", "9")), TableJudge(lambda one: None))
    assert silent.left_out.startswith("the judge abstained") and silent.skipped


def test_the_agentnet_adapter_keeps_its_scores(tmp_path: Path) -> None:
    from native import write_lines

    step = {"index": 0, "image": None, "value": {"code": "pyautogui.click(x=0.5, y=0.25)"}}
    line = {"task_id": "a", "instruction": "Do it", "traj": [step], "alignment_score": 7, "efficiency_score": 6}
    write_lines(tmp_path / "agentnet_ubuntu_5k.jsonl", [line])
    adapter, raw = get("agentnet"), Raw(tmp_path)
    [record] = adapter.records(raw, ("agentnet_ubuntu_5k.jsonl",))
    provenance = json.loads(adapter.map(record, raw).steps[0]["provenance"])
    kept = {match[1]: match[2] for rule in provenance["rules"] if (match := _RULE.fullmatch(rule))}
    assert kept == {"alignment_score": "7", "efficiency_score": "6"}


# --- the command
def run(*words: str) -> int:
    from dagster_project.commands import judge_bench

    parser = argparse.ArgumentParser()
    judge_bench.configure("judge-bench", parser)
    options = parser.parse_args(words)
    return int(options.run(options))


@pytest.mark.slow
def test_the_command_measures_the_rules_with_and_without_elements(
    bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("--bench", str(bench), "--out", str(out), "--native", str(bench)) == 0
    told = capsys.readouterr().out
    assert "[a] rules, with elements" in told and "[b] rules, without elements" in told
    report = json.loads((out / "report.json").read_text())
    assert [one["elements"] for one in report["results"]] == [True, False]
    assert report["native_scores"][0]["left_out"].startswith("none of 24 episodes")
    assert run("--bench", str(bench), "--elements", "no", "--split", "all") == 0
    assert "[b]" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_names_weights_for_an_ensemble_of_its_judges(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = ("--bench", str(bench), "--elements", "yes")
    several = (*alone, "--judge", "rules", "--judge", "ensemble", "--member", "rules", "--member", "rules")
    assert run(*several, "--weight", "2", "--weight", "1") == 0
    lines = capsys.readouterr().out.split("Weights in an ensemble (--weight)\n")[1].splitlines()
    weights = {line.split()[1].rstrip(","): float(line.split()[0]) for line in lines}
    assert weights.keys() == {"rules", "ensemble"} and min(weights.values()) >= 0
    assert weights["rules"] == weights["ensemble"]  # its members say the same
    assert run(*alone) == 0 and "Weights" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="expected 2 weights, found 1"):
        run(*several, "--weight", "2")


def test_the_command_says_what_it_expected(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected another folder than the bench"):
        run("--bench", str(bench), "--out", str(bench))
    with pytest.raises(ValueError, match="--size is for building a bench"):
        run("--bench", str(bench), "--size", "5")
    with pytest.raises(ValueError, match="needs --base-url"):
        run("--bench", str(bench), "--judge", "openai")
    with pytest.raises(ValueError, match=r"expected steps\*\.parquet"):
        run("--bench", str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_a_bench_is_built_once_and_reused(
    made: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The builder is stood in for: what is tested is when it is asked, and for what."""
    from dataclasses import asdict

    from generators.proving.judge_bench import build

    asked: list[Any] = []

    def fake(folder: Path, config: Any, pages: Path | None = None) -> dict[str, Any]:
        asked.append((config.traces, config.copies, config.seed))
        folder.mkdir(parents=True, exist_ok=True)
        made.write(folder)
        losses = {"fsm": {"dropped": {"fsm/shop": {"the oracle failed": 2}}}}
        report = {
            "version": build.BUILD_VERSION,
            "config": asdict(config),
            "pages": pages is not None,
            "losses": losses,
            "dry": ["fsm/shop"],
        }
        (folder / "bench.json").write_text(json.dumps(report))
        return report

    monkeypatch.setattr("dagster_project.commands.judge_bench.build", fake)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    for words in ((), (), ("--size", "300"), ("--size", "30"), ("--size", "30"), (), ("--size", "30", "--seed", "2")):
        assert run("--elements", "no", *words) == 0
    assert asked == [(300, 60, 0), (30, 6, 0), (30, 6, 2)]
    told = capsys.readouterr().out
    assert told.count("  dropped 2, fsm/shop: the oracle failed\nnothing at all of fsm/shop\n") == len(asked)
    with pytest.raises(ValueError, match="--size: expected at least 1"):
        run("--size", "0")
