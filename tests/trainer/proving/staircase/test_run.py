"""The whole staircase with a tiny model in a world without a browser: that it stands and goes on, never how high."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from itertools import islice
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from pipelines.store import Store
from trainer.presets import NANO_BASE
from trainer.proving.staircase.chart import staircase_svg
from trainer.proving.staircase.choice import ChosenTasks
from trainer.proving.staircase.config import SHORT_FAMILIES, StaircaseConfig, long_form, short_form
from trainer.proving.staircase.figures import COMPARED, course, joined
from trainer.proving.staircase.report import combine
from trainer.proving.staircase.run import run_staircase, seed_folder
from trainer.proving.staircase.stage import build_staircase, config_of
from trainer.proving.staircase.tasks import candidates, worlds_of
from trainer.proving.staircase.training import Trainings
from trainer.runtime.precision import native_bf16
from trainer.settings.measuring import StaircaseForm
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow

ALL = {"random", "base", "mid", "offline", "online", "linear", "ties", "more_supervised", "more_offline"}


def _until(out: Path, config: StaircaseConfig, kind: str, stage: str) -> None:
    def event(told: dict[str, Any]) -> None:
        if told.get("kind") == kind and told.get("stage") == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    run_staircase(out, config, event)


def _killed(out: Path, config: StaircaseConfig, kind: str, stage: str) -> None:
    process = multiprocessing.get_context("fork").Process(target=_until, args=(out, config, kind, stage))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def test_every_row_stands_and_a_killed_run_goes_on(tmp_path: Path, tiny: StaircaseConfig) -> None:
    _killed(tmp_path, tiny, "look", "offline_web")  # in the middle of a stage
    events: list[dict[str, Any]] = []
    report = run_staircase(tmp_path, tiny, events.append)
    begun = [event["stage"] for event in events if event.get("kind") == "stage"]
    assert begun[0] == "offline_web"  # base and mid lay there already
    assert not any(event.get("kind") in ("measured", "part") for event in events)

    assert set(report["rows"]) == ALL
    assert set(report["differences"]) == {f"{one} - {other}" for one, other in COMPARED}
    for row in report["rows"].values():
        assert row["greedy"]["n"] == 4 and row["sampled"]["n"] == 4 and row["k"] == 2 and row["not_counted"] == 0
    assert report["rows"]["random"]["grounding"] is None
    assert report["stages"]["offline"]["peak_criterion"] == "reward", "as few traces as so few episodes have"
    asked = report["rows"]["mid"]["grounding"]
    assert asked["hit"]["n"] > 0 and asked["swapped"]["n"] > 0 and asked["random_element"]["mean"] > 0

    seconds = {name: stage["seconds"] for name, stage in report["stages"].items()}
    for control in ("more_supervised", "more_offline"):  # as long as online RL, up to the update in which the time ends
        assert seconds["online"] <= seconds[control] + 0.1
        assert report["stages"][control]["budget_s"] == pytest.approx(seconds["online"], abs=0.1)

    again: list[dict[str, Any]] = []
    assert run_staircase(tmp_path, tiny, again.append) == report
    assert again == []
    folder = seed_folder(tmp_path, tiny)
    told = (folder / "report.md").read_text()
    assert (folder / "report.svg").read_text().startswith("<svg") and "| ties |" in told
    assert report["reference_steps"] == {"0": []} and "followed the policy never (seed 0)" in told
    assert json.loads((folder / "records.json").read_text())["online"]["reference_steps"] == []


def test_online_rl_that_was_killed_goes_on_in_the_time_that_is_left(tmp_path: Path, tiny: StaircaseConfig) -> None:
    tiny = tiny.changed(
        controls=False,
        ties=tiny.ties[:1],
        screen_each=1,
        screen_attempts=1,
        online={**tiny.online, "updates": 3, "budget_s": 600.0},
    )
    _killed(tmp_path, tiny, "saved", "online_web")
    events: list[dict[str, Any]] = []
    run_staircase(tmp_path, tiny, events.append)
    online = [event for event in events if event.get("stage") == "online_web"]
    assert [event["update"] for event in online if event["kind"] == "resumed"] == [1]
    assert [event["update"] for event in online if event["kind"] == "update"] == [2, 3]


def test_the_asset_holds_a_seeds_report(tmp_path: Path, tiny: StaircaseConfig) -> None:
    store, events = Store(tmp_path / "home"), list[dict[str, Any]]()
    made = build_staircase(store, tiny.changed(controls=False, ties=tiny.ties[:1]), events.append)
    assert made.checks_passed and made.counts["online greedy"] is not None
    assert {name.partition(" ")[0] for name in made.counts} == ALL - {"linear", "more_supervised", "more_offline"}
    assert "| online |" in made.file("report.md").read_text() and json.loads(made.file("records.json").read_text())
    assert not list((tmp_path / "home" / "cache" / "training").iterdir())  # the stages' weights are gone

    begun = len(events)
    assert build_staircase(store, tiny.changed(controls=False, ties=tiny.ties[:1]), events.append) == made
    assert len(events) == begun


def test_what_the_asset_is_told() -> None:
    assert config_of(StaircaseForm(seed=3, base="")) == short_form("web", 3)
    for platform, families in SHORT_FAMILIES.items():
        known = {family.name: family.held_out for family in candidates(worlds_of(platform))}
        assert [known[name] for name in families] == [False] * (len(families) - 1) + [True]
    assert config_of(StaircaseForm(form="long")) == long_form("web", 0, str(NANO_BASE))
    with pytest.raises(ValueError, match="form: expected short or long, found 'tall'"):
        StaircaseForm.parsed({"form": "tall"})
    with pytest.raises(ValueError, match="unknown 'colour'"):
        StaircaseForm.parsed({"colour": "red"})


def test_seeds_are_combined(tmp_path: Path) -> None:
    def seed(number: int, hits: list[float]) -> Path:
        folder = tmp_path / str(number)
        folder.mkdir()
        records = [
            {
                "task_id": f"t{n}",
                "cluster": f"family{n % 2}",
                "world": "boxes",
                "success": hit,
                "finished": hit,
                "steps": 2,
                "attempt": 0,
                "why": "",
                "ended": "finished",
                "unreadable": 0,
            }
            for n, hit in enumerate(hits)
        ]
        rows = {"offline": {"greedy": records, "sampled": records, "grounding": []}}
        rows["online"] = {**rows["offline"], "greedy": [{**record, "success": 1.0} for record in records]}
        if number:  # the other's records are of before they told it
            rows["online"]["reference_steps"] = [{"update": 40, "gain": 0.5}, {"update": 80, "gain": 0.2}]
        (folder / "records.json").write_text(json.dumps(rows))
        head = {
            "platform": "web",
            "seed": number,
            "tasks_digest": "d",
            "measured": [],
            "stages": {},
            "offline_course": {"looks": []},
        }
        (folder / "report.json").write_text(json.dumps(head))
        return folder

    folders = [seed(0, [0.0, 1.0, 0.0, 1.0]), seed(1, [0.0, 0.0, 0.0, 1.0])]
    report = combine(folders, tmp_path / "all")
    assert report["seeds"] == [0, 1]
    assert {seed: [step["update"] for step in steps] for seed, steps in report["reference_steps"].items()} == {
        "1": [40, 80]
    }
    assert "followed the policy at updates 40, 80 (seed 1)." in (tmp_path / "all" / "report.md").read_text()
    assert report["rows"]["offline"]["greedy"]["mean"] == pytest.approx(3 / 8)
    assert report["differences"]["online - offline"]["greedy"]["mean"] == pytest.approx(5 / 8)
    assert "2 training seeds" in report["rows"]["offline"]["greedy"]["method"]
    with pytest.raises(ValueError, match="every training seed once"):
        combine([folders[0], folders[0]], tmp_path / "twice")
    with pytest.raises(ValueError, match="expected a finished report"):
        combine([tmp_path], tmp_path / "none")


def test_the_course_of_offline_rl_goes_on_in_the_control_from_its_peak(tmp_path: Path) -> None:
    def look(update: int, step: float, trace: float) -> dict[str, float]:
        return {
            "update": update,
            "step_success": step,
            "trace_success": trace,
            "reward": step,
            "traces": 9,
            "peak_update": 10,
        }

    found = joined([look(0, 0.2, 0.0), look(10, 0.4, 0.3), look(20, 0.4, 0.2)], [look(0, 0.4, 0.3), look(10, 0.6, 0.1)])
    assert [one["update"] for one in found] == [0, 10, 20]
    told = course(found)
    assert (told["trace_peak"], told["step_peak"], told["traces_fell_steps_did_not"]) == (10, 20, True)
    assert not course(found[:2])["traces_fell_steps_did_not"] and course([])["trace_peak"] is None
    none = {"mean": None, "low": None, "high": None}
    half = {"mean": 0.5, "low": 0.25, "high": 0.75}
    drawn = staircase_svg("<b>&", {"random": {"greedy": half, "sampled": none, "pass_at_k": half}}, told["looks"])
    assert "&lt;b&gt;&amp;" in drawn and drawn.count("<polyline") == 2
    ElementTree.fromstring(drawn)


def test_a_base_that_sees_learns_from_episodes_mostly(tmp_path: Path) -> None:
    rows = [
        {"sample_id": f"{objective}-{number}", "split": "train", "objective": objective}
        for objective, count in (("navigation", 100), ("grounding", 300))
        for number in range(count)
    ]

    def share(base: str) -> float:
        config = long_form("web", 0, base)
        source = Trainings(tmp_path, config, cast("ChosenTasks", None), rows)._source(MidtrainConfig(**config.midtrain))
        kept = list(islice((row for row in source.rows(0) if row), 400))
        return sum(row["objective"] == "navigation" for row in kept) / len(kept)

    assert share("") == 0.25
    assert 0.7 < share("a folder") < 0.8


def test_the_long_form_rounds_where_the_processor_does() -> None:
    for base in ("", "a folder"):
        config = long_form("mobile", 0, base)
        halves = {part["bf16"] for part in (config.midtrain, config.offline, config.online)}
        assert halves == {native_bf16()}
        assert {part.get("freeze_vision", False) for part in (config.offline, config.online)} == {bool(base)}


def test_a_window_without_its_stop_is_refused(tiny: StaircaseConfig) -> None:
    with pytest.raises(ValueError, match="window"):
        tiny.changed(window=(0.6, 0.5))
