"""The judge bench measured on a folder made by hand: figures worked out beside the numbers, honest judges and one that
cheats, reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from benchmaker import Maker, TableJudge, golden

from quality.evidence.episode import Habits
from quality.items.item import Item, Sample
from quality.items.screens import Screen
from quality.items.truth import Truth
from quality.judges.judge import Verdict
from quality.judges.rules import RulesJudge
from quality.model_client.errors import ModelError
from quality.model_client.prices import Prices
from quality.model_client.questions import VerdictCost
from quality.proving import bench_report
from quality.proving.figure_rows import PREVALENCE, DetectionRow, Scored
from quality.proving.figures import figures
from quality.proving.judge_bench import BenchResult, measure, risk_of
from schemas.actions import Click
from schemas.tables import Screens


@pytest.fixture
def made(world: Any) -> Maker:
    return golden(world)


@pytest.fixture
def bench(made: Maker, tmp_path: Path) -> Path:
    return made.write(tmp_path / "bench")


@pytest.fixture
def result(made: Maker, bench: Path) -> BenchResult:
    return measure(bench, TableJudge(made.said.__getitem__), rounds=50)


def row(result: BenchResult, name: str, unit: str) -> DetectionRow:
    listed = (*result.figures.defects, *result.figures.natural, *result.figures.held_out)
    [found] = [one for one in listed if (one.name, one.unit) == (name, unit)]
    return found


# --- golden figures
def test_cuts_come_from_the_seen_and_say_what_they_give_on_the_held_out(result: BenchResult) -> None:
    cuts = {(cut.rule, cut.unit): cut for cut in result.figures.cuts}
    step = cuts["alarms", "step"]  # seen risks: 19 × 0.1, 0.7. One of 20 is 5 %
    assert (step.cut, step.chosen_on, step.chosen) == (pytest.approx(0.1), 20, 0.05)
    assert (step.sound, step.actual) == (10, 0.1)  # held out: 9 × 0.1, one 0.5
    episode = cuts["alarms", "episode"]  # ten seen: 9 × 0.2, 0.7 (its worst step). 5 % of ten is none
    assert (episode.cut, episode.chosen, episode.actual) == (pytest.approx(0.7), 0.0, 0.0)
    assert cuts["alarms", "sample"].actual == 0.5  # seen all 0; held out 0 and 0.2
    assert ("f1", "step") in cuts and math.isnan(cuts["f1", "step"].cut)  # no seen defect to choose it on


def test_a_defect_of_one_unit(result: BenchResult) -> None:
    # risks 0.8, 0.1, 0.5, 0.9 against 9 × 0.1 and one 0.5: (10 + 4.5 + 9.5 + 10) / 40
    found = row(result, "wrong_element", "step")
    assert (found.n, found.recall, found.recall_own) == (4, 0.75, 0.5)
    assert found.auroc == pytest.approx(0.85)
    assert found.auroc_interval[0] <= 0.85 <= found.auroc_interval[1] <= 1


def test_a_defect_of_two_units_never_mixes_them(result: BenchResult) -> None:
    # samples: 0.6 and 0 against 0 and 0.2 → (2 + 0.5) / 4; step: 1 against all → 1
    assert row(result, "shifted_box", "sample").auroc == pytest.approx(0.625)
    assert row(result, "shifted_box", "step").auroc == 1
    both = row(result, "shifted_box", "all")
    assert (both.n, both.auroc, both.recall) == (3, pytest.approx(0.75), pytest.approx(2 / 3))


def test_an_episode_is_as_risky_as_its_worst_part(result: BenchResult) -> None:
    risks = {one.item_id: one.risk for one in result.scored}
    assert risks["episode:made/s0"] == pytest.approx(0.7)  # its step has 3, itself 8
    assert risks["episode:made/q0"] == pytest.approx(0.8)  # itself 2
    assert risks["step:made/p1/1"] == pytest.approx(0.1)  # a step has its own alignment, not its episode's 8
    other = row(result, "other_task", "episode")  # 0.8 and 0.1 against 0.5 and 4 × 0.2
    assert (other.auroc, other.recall) == (0.5, 0.5)
    assert row(result, "gave_up", "episode").auroc == 1 and row(result, "natural errors", "episode").recall == 1


def test_an_abstention_has_the_expected_share_as_its_risk(result: BenchResult) -> None:
    [abstained] = [one for one in result.scored if one.abstained]
    assert (abstained.item_id, abstained.risk, abstained.said) == ("episode:made/q2", PREVALENCE, None)
    near = row(result, "near_miss", "episode")  # 0.303 is above 4 × 0.2, below 0.5 and below the cut
    assert (near.auroc, near.recall, near.abstained) == (pytest.approx(0.8), 0.0, 1)
    assert result.figures.abstained == 1 and result.figures.agreement.abstained == 1


def test_macro_recall_leaves_out_what_needs_intent(result: BenchResult) -> None:
    assert result.figures.macro_recall == pytest.approx((0.75 + 2 / 3 + 0.5) / 3)
    assert result.figures.macro_auroc == pytest.approx((0.85 + 0.75 + 0.5) / 3)
    low, high = result.figures.macro_recall_interval
    assert low <= result.figures.macro_recall <= high


def test_false_alarms_by_kind_of_sound_item(result: BenchResult) -> None:
    alarms = {(one.kind, one.unit): (one.flagged, one.n) for one in result.figures.alarms}
    assert alarms == {("wait", "step"): (1, 4), ("", "step"): (0, 6), ("", "sample"): (1, 2), ("", "episode"): (0, 5)}


def test_points_at_three_prevalences(result: BenchResult) -> None:
    [point] = [one for one in result.figures.points if (one.rule, one.unit) == ("alarms", "all")]
    recall, alarms = (0.75 + 2 / 3 + 0.5) / 3, 2 / 17
    assert (point.recall, point.false_alarms) == (pytest.approx(recall), pytest.approx(alarms))
    assert [one.prevalence for one in point.at] == [0.10, 0.303, 0.50]
    assert point.at[0].precision == pytest.approx(0.1 * recall / (0.1 * recall + 0.9 * alarms))


def test_bands(result: BenchResult) -> None:
    # sound: 15 keep, two rewrite (5). other_task: 9 and 2. bad for good: 9 and 10 keep, 5 and 4 rewrite, 2 1 0 1 lowest
    assert result.figures.agreement.table == ((15, 2, 0), (1, 0, 1), (2, 2, 4))
    assert result.figures.agreement.n == 27


def test_rows_by_what_was_held_out(result: BenchResult) -> None:
    assert {one.name: one.n for one in result.figures.held_out} == {"family": 8, "operator": 1, "magnitude": 1}
    assert row(result, "operator", "step").auroc == pytest.approx(0.95)  # 0.5 against 9 × 0.1 and 0.5


def test_splits_share_the_cuts(made: Maker, bench: Path) -> None:
    judge = TableJudge(made.said.__getitem__)
    everything, seen = (measure(bench, judge, split=split, rounds=5).figures for split in ("all", "seen"))
    assert [cut.cut for cut in everything.cuts[:3]] == [cut.cut for cut in seen.cuts[:3]]
    assert (everything.sound, seen.sound, seen.bad) == (51, 34, 0)
    assert not seen.defects and seen.notes[0].startswith("no planted items of off_by_one")
    with pytest.raises(ValueError, match="split: expected one of all, seen, held_out"):
        measure(bench, judge, split="other")  # type: ignore[arg-type]


def test_a_frozen_f1_cut_is_chosen_at_the_prevalence(made: Maker, tmp_path: Path) -> None:
    for number, said in enumerate((1, 1, 1, 9)):
        made.episode(f"t{number}", 8, 9, said)
        made.label(f"step:made/t{number}/1", "planted", "wrong_text", "seen1")
    figures = measure(made.write(tmp_path / "bench"), TableJudge(made.said.__getitem__), rounds=5).figures
    [cut] = [one for one in figures.cuts if (one.rule, one.unit) == ("f1", "step")]
    # seen: sound 19 × 0.1, 0.7; bad 3 × 0.9, 0.1. Above 0.7: P 1, R ¾, F1 0.857; above 0.1: P 0.867; above −∞: 0.465
    assert cut.cut == pytest.approx(0.7)
    [point] = [one for one in figures.points if (one.rule, one.unit) == ("f1", "step")]
    assert point.false_alarms == 0 and point.at[1].precision == 1


# --- judges
def test_a_perfect_judge_and_a_constant_one(made: Maker, bench: Path) -> None:
    band = {row["item_id"]: row["band"] for row in made.truth}
    score = {"keep": 9, "rewrite": 5, "reconstruct": 1, "discard": 1}
    perfect = measure(bench, TableJudge(lambda one: score[band.get(one, "keep")]), split="held_out", rounds=5)
    assert all(found.auroc == found.recall == 1 for found in perfect.figures.defects)
    assert perfect.figures.macro_recall == perfect.figures.macro_auroc == 1
    assert perfect.figures.agreement.quadratic == pytest.approx(1) == perfect.figures.agreement.linear
    assert all(alarm.flagged == 0 for alarm in perfect.figures.alarms) and not bench_report.blind_spots(perfect)
    constant = measure(bench, TableJudge(lambda one: 7), rounds=5)
    assert all(found.auroc == 0.5 and found.recall == 0 for found in constant.figures.defects)
    assert constant.figures.agreement.quadratic == pytest.approx(0)
    assert len(bench_report.blind_spots(constant)) == 4
    # 0.3 for everything where 30.3 % are bad: as calibrated as saying the prevalence
    [overall] = [one for one in constant.figures.calibrated if one.unit == "all"]
    assert overall.error == pytest.approx(0.003) and overall.brier == pytest.approx(
        overall.brier_of_prevalence, abs=1e-4
    )


def test_a_risk_of_the_judges_own_goes_before_its_score(made: Maker, bench: Path) -> None:
    class Nano(TableJudge):
        def verdict(self, item_id: str, alignment: int | None, reachability: int | None) -> Verdict:
            return replace(super().verdict(item_id, alignment, reachability), risk=0.123)

    assert set(risks(measure(bench, Nano(made.said.__getitem__), rounds=5)).values()) == {0.123}
    for wrong in (1.2, -0.1, math.nan, "0.5", True):
        verdict: Any = SimpleNamespace(item_id="x", risk=wrong)
        with pytest.raises(ValueError, match=r"risk must be a number in 0\.\.1"):
            risk_of(verdict, 4)
    assert risk_of(TableJudge(lambda one: 0).verdict("x", 4, None), 4) == pytest.approx(0.6)


def test_what_is_pending_is_in_no_figure(made: Maker, bench: Path) -> None:
    class Tired(TableJudge):
        names: tuple[str, ...] = ("step:made/p0/1", "step:made/h4/0")

        def verdict(self, item_id: str, alignment: int | None, reachability: int | None) -> Verdict:
            verdict = super().verdict(item_id, alignment, reachability)
            waits = item_id.startswith(self.names)
            return replace(verdict, alignment=None, reachability=None, pending=True) if waits else verdict

    judge = Tired(made.said.__getitem__)
    result = measure(bench, judge, rounds=5)
    assert result.pending == 3  # two steps, and the episode h4 of which one is unknown
    assert row(result, "wrong_element", "step").n == 3 and result.figures.abstained == 1
    assert "3 labelled items are pending" in bench_report.text([result])
    judge.names = ("step:", "episode:", "sample:")
    with pytest.raises(ModelError, match="all 62 labelled items are pending"):
        measure(bench, judge, rounds=5)


def risks(result: BenchResult) -> dict[str, float]:
    return {one.item_id: one.risk for one in result.scored}


def test_the_truth_moves_no_risk(made: Maker, bench: Path) -> None:
    """Labels are turned around: an honest judge answers as before; one that reads the truth would not."""

    class Peeking(TableJudge):
        def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
            truth = {row["item_id"]: row["label"] for row in pq.read_table(bench / "truth.parquet").to_pylist()}
            self.said = lambda one: 9 if truth.get(one, "clean") in ("clean", "hard") else 1
            return super().judge(items, round_number, habits)

    judges = (RulesJudge(), TableJudge(made.said.__getitem__), Peeking(lambda one: 0))
    before = [risks(measure(bench, judge, rounds=5)) for judge in judges]
    for line in made.truth:
        line |= {"label": "clean", "kind": ""} if line["label"] == "planted" else {"label": "natural", "kind": "x"}
    pq.write_table(Truth.table(made.truth), bench / "truth.parquet")
    after = [risks(measure(bench, judge, rounds=5)) for judge in judges]
    assert [a == b for a, b in zip(before, after)] == [True, True, False]


def test_no_item_leads_to_the_folder(made: Maker, bench: Path) -> None:
    judge = TableJudge(made.said.__getitem__)
    measure(bench, judge, rounds=5)
    assert judge.asked
    for item in judge.asked:
        assert not hasattr(item.bank.source, "folder") and not hasattr(item.bank.source, "path")
        assert str(bench) not in repr(vars(item))


def test_without_elements_screens_list_none_and_all_else_stays(made: Maker, bench: Path) -> None:
    seen: dict[bool, list[Any]] = {}
    for elements in (True, False):
        judge = TableJudge(made.said.__getitem__)
        result = measure(bench, judge, elements, rounds=5)
        assert result.elements is elements and ("without" in result.title) is not elements
        shown = [s for item in judge.asked for s in _screens(item)]
        seen[elements] = [(s.sha256, s.data(), s._bank.size(s.sha256)) for s in shown]
        assert all(bool(screen.elements) is elements for screen in shown)
    assert seen[True] == seen[False] and len(seen[True]) > 50


def _screens(item: Item) -> list[Screen]:
    found = [item.screen] if isinstance(item, Sample) else [step.screen for step in item.steps]
    return [screen for screen in found if screen is not None]


@pytest.mark.slow
def test_the_rules_judge_end_to_end(world: Any, buttons: Any, tmp_path: Path) -> None:
    """Boxes that lie on the neighbour: told by the elements' names; the pixels alone can't tell."""
    made = Maker(world)
    for page in range(24):
        shown = world.page(buttons, note=f"screen {page}")
        for place, (box, label) in enumerate(buttons):
            bad = page >= 12 and place == 0
            moved = buttons[1][0] if bad else box
            made.samples.append(world.grounding(label, shown, moved, page * 10 + place))
            item = f"sample:{page * 10 + place:032x}"
            by = "family" if page % 2 else ""
            made.label(item, *(("planted", "shifted_box") if bad else ("clean", "")), family=f"f{page % 4}", by=by)
    made.steps = [world.row(index, Click((250, 190)), made.pages[index], episode_id="one") for index in range(2)]
    bench = made.write(tmp_path / "bench")
    seen, unseen = (measure(bench, RulesJudge(), elements, rounds=20) for elements in (True, False))
    assert seen.judge["judge"] == "rules" and seen.costs.items == 74 and seen.costs.requests == 0
    assert row(seen, "shifted_box", "sample").auroc > 0.95 > row(unseen, "shifted_box", "sample").auroc
    again = measure(bench, RulesJudge(), rounds=20)
    assert bench_report.report([again]) == bench_report.report([seen])


def test_the_judge_itself_is_asked_and_its_cost_is_counted(made: Maker, tmp_path: Path) -> None:
    """A key in an answer, which cleaning would take out of a corpus, is for the judge to see here."""
    made.samples[0] = made.samples[0] | {"answer": "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7" * 2}
    judge = TableJudge(made.said.__getitem__, VerdictCost(100, 20, 0.5))
    result = measure(made.write(tmp_path / "bench"), judge, rounds=5, prices=Prices(2.0, 10.0))
    costs = result.costs
    assert (costs.items, costs.cached) == (8 + 2 * 24, 0)
    asked = 8 + 3 * 24  # verdicts that cost: eight samples, 24 episodes and their 48 steps
    assert (costs.prompt_tokens, costs.completion_tokens) == (100 * asked, 20 * asked)
    assert costs.price == pytest.approx(asked * (100 * 2 + 20 * 10) / 1e6)
    assert costs.per_item()["tokens"] == pytest.approx(120 * asked / 56)
    cached = measure(
        tmp_path / "bench", TableJudge(made.said.__getitem__, VerdictCost(100, 20, 0.5, cached=True)), rounds=5
    )
    assert (cached.costs.prompt_tokens, cached.costs.cached) == (0, asked)


# --- bad input
def test_a_folder_that_is_no_bench(made: Maker, bench: Path, tmp_path: Path) -> None:
    judge = TableJudge(made.said.__getitem__)
    with pytest.raises(ValueError, match=r"expected steps\*\.parquet or samples"):
        measure(tmp_path, judge)

    def refuse(match: str, *truth: dict[str, Any]) -> None:
        pq.write_table(Truth.table(truth), bench / "truth.parquet")
        with pytest.raises(ValueError, match=match):
            measure(bench, judge)

    first = made.truth[0]
    refuse("names no episode", first | {"item_id": "step:made/s0/9"})
    refuse("is there twice", first, first)
    refuse("has the defect 'sabotage'", first | {"label": "planted", "kind": "sabotage"})
    refuse("has label 'odd'", first | {"label": "odd"})
    refuse("expected labelled items, found none")
    pq.write_table(Screens.table([]), bench / "truth.parquet")
    with pytest.raises(ValueError, match="isn't the truth of a judge bench"):
        measure(bench, judge)
    (bench / "truth.parquet").unlink()
    with pytest.raises(ValueError, match=r"expected truth\.parquet .*found none"):
        measure(bench, judge)


def test_a_judge_that_leaves_out_or_repeats_an_item(made: Maker, bench: Path) -> None:
    class Bad(TableJudge):
        change: Any = None

        def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
            return self.change(super().judge(items, round_number, habits))  # type: ignore[no-any-return]

    judge = Bad(made.said.__getitem__)
    for change, match in (
        (lambda found: found[1:], "no verdict on 'episode:made/"),
        (lambda found: [*found, found[0]], "a second verdict on"),
        (lambda found: [*found, replace(found[0], item_id="step:x/y/0")], "an item it wasn't given: 'step:x/y/0'"),
    ):
        judge.change = change
        with pytest.raises(ValueError, match=match):
            measure(bench, judge)


def test_a_judge_that_learned_the_seen_items_gets_its_cuts_from_other_held_out_families() -> None:
    """It knows the seen ones by heart (risk 0 and 1): a cut from there would flag every held-out item."""
    import numpy as np

    rng = np.random.default_rng(0)
    scored = []
    for number in range(800):
        held_out, bad = number % 2 == 1, number % 4 < 2
        risk = float(bad) if not held_out else float(np.clip(rng.normal(0.7 if bad else 0.4, 0.1), 0, 1))
        label, kind = ("planted", "off_by_one") if bad else ("clean", "")
        by = "family" if held_out else ""
        name, family = f"step:x/{number}/0", f"family {number % 40}"
        scored.append(Scored(name, "step", label, kind, family, held_out, by, None, 2 * bad, risk, 0, False))
    naive = figures(scored, "held_out", rounds=20)
    honest = figures(scored, "held_out", rounds=20, learned=True)
    assert naive.cuts[0].actual > 0.9 and naive.macro_recall == 1
    alarms = [cut for cut in honest.cuts if cut.rule == "alarms"]
    assert len(alarms) == 2 and all(cut.chosen <= 0.05 and cut.actual < 0.2 for cut in alarms)
    assert 0.75 < honest.macro_recall < 1
    assert figures(scored, "held_out", rounds=20, learned=True) == honest
