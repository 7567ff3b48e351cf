"""From people's answers to thresholds, the frozen human set and the gate."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from reviewing import judged_store

from pipelines.store import Check, PartSpec, Store
from pipelines.store.files import StoreError
from quality.items.item import Episode
from quality.judges.judge import Verdict
from quality.judges.rules import RulesJudge
from quality.model_client.errors import ModelError
from quality.model_client.spending import CeilingReached
from quality.refinement.gold import Rejects
from quality.refinement.repairs import marked
from quality.review import promote as feedback
from quality.review.calibrate import HumanSet, Pair, cuts, gate, judge_agreement, keep_cut, report
from quality.review.promote import admit, gate_judge, human_set, promote
from quality.review.queue import build_queue, open_queue
from quality.review.refusals import decisions_of
from quality.review.sampling import QueueConfig
from quality.review.verdict_store import HumanVerdict, ReviewError, VerdictStore, answers_path
from quality.statistics import score_interval, wilson
from schemas.tables import Samples, Steps, Verdicts


def pairs(*rows: tuple[int | None, str, int]) -> list[Pair]:
    """(score, decision, how many)."""
    listed = [(score, decision) for score, decision, count in rows for _ in range(count)]
    return [Pair(f"sample:{place}", score, decision) for place, (score, decision) in enumerate(listed)]


# --- thresholds -------------------------------------------------------------------------------------------------------
def test_the_cut_follows_the_people() -> None:
    # people keep 97 of 100 from score 8 on, but only half of the sevens: 7 isn't safe at 0.9, 8 is
    given = pairs(
        (9, "keep", 97),
        (9, "rewrite", 3),
        (8, "keep", 97),
        (8, "discard", 3),
        (7, "keep", 30),
        (7, "rewrite", 30),
        (3, "discard", 40),
        (None, "keep", 5),
        (9, "unsure", 7),
    )
    chosen = keep_cut(given, 0.9)
    assert chosen is not None and chosen.cut == 8
    assert chosen.precision == pytest.approx(194 / 200) and chosen.kept == 200
    assert (chosen.low, chosen.high) == pytest.approx(wilson(194, 200))
    assert chosen.recall == pytest.approx(194 / 229)  # the sevens and the abstentions that people keep are missed
    looser = keep_cut(given, 0.8)
    assert looser is not None and looser.cut == 4
    assert keep_cut(given, 0.99) is None
    told = report(given, 0.9)
    assert (told["keep_from"], told["keep_from_in_use"], told["unsure"]) == (8, 7, 7)
    json.dumps(told, allow_nan=False)


def test_few_answers_prove_nothing() -> None:
    assert keep_cut(pairs((9, "keep", 20)), 0.9) is None  # 20 of 20: the interval starts at 0.839
    assert keep_cut(pairs((9, "keep", 40)), 0.9) is not None
    assert keep_cut([], 0.9) is None
    with pytest.raises(ValueError, match="target precision"):
        keep_cut([], 1.0)


def test_a_rare_high_score_does_not_hide_a_safe_cut_but_a_bad_one_does() -> None:
    few = pairs((10, "keep", 3), (9, "keep", 200))
    chosen = keep_cut(few, 0.9)
    assert chosen is not None and chosen.cut == 1  # nothing below was seen to be wrong
    assert keep_cut(pairs((10, "discard", 30), (9, "keep", 2000)), 0.9) is None  # tens are the worst of all


def test_weights_move_the_share_and_widen_the_interval() -> None:
    light = [Pair(str(n), 9, "keep" if n < 90 else "discard") for n in range(100)]
    heavy = [Pair(p.item_id, p.score, p.decision, 10.0 if p.decision == "discard" else 1.0) for p in light]
    assert cuts(light)[6].precision == pytest.approx(0.9) and cuts(heavy)[6].precision == pytest.approx(90 / 190)
    effective = 190**2 / (90 + 10 * 100)
    assert (cuts(heavy)[6].low, cuts(heavy)[6].high) == pytest.approx(score_interval(90 / 190, effective))


def test_agreement_with_the_judge() -> None:
    perfect = pairs((9, "keep", 5), (5, "rewrite", 5), (1, "discard", 3), (0, "reconstruct", 2))
    assert judge_agreement(perfect).kappa == pytest.approx(1) == judge_agreement(perfect).keep_kappa
    found = judge_agreement(pairs((9, "keep", 5), (9, "discard", 5), (None, "keep", 10)))
    assert found.kappa == 0 and found.items == 10 and found.share == 0.5
    assert found.counts == ((0, 0, 5), (0, 0, 0), (0, 0, 5)), "from the worst band on, people by the line"
    assert math.isnan(judge_agreement(pairs((9, "keep", 5))).kappa) and math.isnan(judge_agreement([]).share)


# --- the gate ---------------------------------------------------------------------------------------------------------
def verdict(item: str, score: int | None, number: int = 0) -> Verdict:
    return Verdict(item, score, None, "r", 0.9, "j", "m", "1", number)


def human(kappa: float | None = None) -> HumanSet:
    decisions = {f"episode:a/{n}": ("keep", "rewrite", "discard")[n % 3] for n in range(30)}
    judged = {item: (item, item.replace("episode", "step") + "/0") for item in decisions}
    return HumanSet("0" * 64, decisions, judged, kappa, "rules")


def told_by(score: Callable[[int, str], int | None], leave_out: int = 0) -> list[Verdict]:
    made = []
    for place, (item, decision) in enumerate(list(human().decisions.items())[leave_out:]):
        value = score(place, decision)
        made += [verdict(item, 10), verdict(item.replace("episode", "step") + "/0@r1", value)]
    return made


RIGHT = {"keep": 9, "rewrite": 5, "discard": 1}


def test_the_gate_opens_and_shuts() -> None:
    assert gate(told_by(lambda n, d: RIGHT[d]), human()).passed
    assert not gate(told_by(lambda n, d: 9), human()).passed  # one answer to all: no agreement beyond chance
    assert not gate(told_by(lambda n, d: {"keep": 1, "rewrite": 5, "discard": 9}[d]), human()).passed
    assert not gate(told_by(lambda n, d: RIGHT[d] if n < 20 else None), human()).passed  # silent on what is hard
    assert not gate(told_by(lambda n, d: RIGHT[d], leave_out=10), human()).passed
    assert not gate([], human()).passed
    sloppy = told_by(lambda n, d: 9 if n % 10 == 1 else RIGHT[d])
    check = gate(sloppy, human())
    assert check.passed and check.blocking
    kappa = float(check.found.split()[1])
    assert gate(sloppy, human(kappa + 0.04)).passed and not gate(sloppy, human(kappa + 0.06)).passed
    assert not gate(sloppy, human(), floor=kappa + 0.01).passed and gate(sloppy, human(0.99), margin=0.9).passed


def test_the_lowest_of_an_episode_and_its_steps_counts() -> None:
    item = HumanSet("0" * 64, {"episode:a/1": "discard"}, {"episode:a/1": ("episode:a/1", "step:a/1/0")}, None, "")
    check = gate([verdict("episode:a/1", 10), verdict("step:a/1/0", 9, 0), verdict("step:a/1/0@r1", 2, 1)], item)
    assert "on 1 items, 100% answered" in check.found


# --- promotion --------------------------------------------------------------------------------------------------------
@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = judged_store(
        tmp_path / "home", {"e0003": 2, "e0007": 6}, [f"e{n:04d}" for n in range(10) if n not in (3, 7)], 10
    )
    build_queue(made, ["toy"])
    return made


def answer(store: Store, decisions: dict[str, str], stop: int = 10, number: int = 0) -> None:
    answers = VerdictStore(answers_path(store.home))
    for name, decision in decisions.items():
        for place, (item, shown) in enumerate(list(open_queue(store).trajectories.items())[:stop]):
            word = decision if place % 4 else "discard"
            request = f"request:{name}:{place}:{number}"
            answers.add(HumanVerdict(item, name, "annotator", word, request=request, content=shown.digest))
    answers.close()


def test_promotion_freezes_what_was_agreed(store: Store) -> None:
    with pytest.raises(ReviewError, match="nobody has answered yet"):
        promote(store)
    answer(store, {"ann": "keep"})
    with pytest.raises(ReviewError, match="no item has 2 equal answers"):
        promote(store)
    answer(store, {"bob": "keep"}, stop=8)
    made = promote(store, RulesJudge())
    assert (made["items"], made["agreed"]) == (10, 8) and made["agreement"]["kappa"] == pytest.approx(1)
    again = promote(store)
    assert again["digest"] == made["digest"] and len(list((store.home / feedback.KEY).iterdir())) == 2
    assert feedback.current(store) == made
    frozen = human_set(store, made["digest"])
    assert sorted(frozen.decisions.values()) == ["discard"] * 2 + ["keep"] * 6
    part = feedback.human_part(store, made["digest"])
    assert {item.item_id for item in part.items} == set(frozen.decisions)
    [episode] = [one for one in part.items if one.item_id == next(iter(frozen.decisions))]
    assert isinstance(episode, Episode) and episode.steps[0].screen is not None
    assert episode.steps[0].screen.elements and episode.steps[0].screen.data()[:4] == b"\x89PNG"

    answer(store, {"eve": "rewrite"}, stop=1)  # a third opinion on one item: another digest, the old one stays
    newer = promote(store)
    assert newer["digest"] != made["digest"] and feedback.current(store) == newer
    assert human_set(store, made["digest"]) == frozen


def test_the_gate_asks_the_judge_about_the_frozen_items(store: Store) -> None:
    with pytest.raises(StoreError, match="nothing promoted yet"):
        gate_judge(store, RulesJudge())
    answer(store, {"ann": "keep", "bob": "keep"})
    digest = promote(store, RulesJudge())["digest"]
    asked: list[str] = []

    class Scripted:
        name, model, rubric_version = "scripted", "none", "1"

        def judge(self, items: list, round_number: int = 0, habits: object = None) -> list[Verdict]:
            decisions = human_set(store, digest).decisions
            found = []
            for item in items:
                asked.append(item.item_id)
                score = RIGHT[decisions[item.item_id]]
                found += [verdict(name, score) for name in (item.item_id, *(step.item_id for step in item.actions))]
            return found

    check = gate_judge(store, Scripted())  # type: ignore[arg-type]
    assert check.passed and len(asked) == 10 and "kappa 1.000 on 10 items" in check.found
    rules = gate_judge(store, RulesJudge(), digest, floor=-1.0)
    assert rules.found.split()[1] == "nan" or rules.passed  # the recorded judge never falls below itself


def test_a_changed_set_is_refused(store: Store) -> None:
    answer(store, {"ann": "keep", "bob": "keep"})
    digest = promote(store)["digest"]
    folder = store.home / feedback.KEY / digest
    (folder / "decisions.parquet").write_bytes((folder / "verdicts.parquet").read_bytes())
    with pytest.raises(StoreError, match=r"decisions.parquet is missing or was changed"):
        human_set(store, digest)
    for bad in ("../../etc", "f" * 64, ""):
        with pytest.raises(StoreError, match="human_verdicts"):
            human_set(store, bad)


def test_answers_outlive_the_queue_and_not_the_content(store: Store) -> None:
    answer(store, {"ann": "keep", "bob": "keep"}, stop=6)
    answered = set(list(open_queue(store).items)[:6])
    made = promote(store)
    assert made["agreed"] == 6 and made["outdated"] == 0
    build_queue(store, ["toy"], QueueConfig(size=5, seed=3))  # drawn anew, and shorter
    kept = answered & set(open_queue(store).items)
    assert len(kept) < 6
    again = promote(store)
    assert again["agreed"] == 6 and again["items"] == 5
    assert {row["item_id"] for row in decisions(store, again) if row["weight"] > 0} == kept
    answers = VerdictStore(answers_path(store.home))
    for name in ("ann", "bob"):  # said of something else that bore the same name
        item, request = sorted(answered)[0], f"request:{name}:stale"
        answers.add(HumanVerdict(item, name, "annotator", "keep", request=request, content="0" * 64))
    answers.close()
    last = promote(store)
    assert last["agreed"] == 5 and last["outdated"] == 2


def test_of_two_versions_of_an_item_one_is_frozen(store: Store) -> None:
    """What people saw before and after a repair has the same keys: both together would be an episode nobody saw."""
    before, after = "episode:toy/e0003", "episode:toy/e0003@r1"
    assert before in open_queue(store).items
    answer(store, {"ann": "discard", "bob": "discard"})
    assert before in human_set(store, promote(store)["digest"]).decisions

    gold = store.require("gold/toy")
    steps = gold.read("steps").to_pylist()
    raw = [row for row in store.require("unified/toy").read("steps").to_pylist() if row["episode_id"] == "e0003"]
    repaired = [
        marked({**row, "instruction": "as repaired"}, f"step:toy/e0003/{row['step_index']}", "rewrite:proof", 1)
        for row in raw
    ]
    tables = {
        "steps": Steps.table([*steps, *repaired]),
        "samples": Samples.table([]),
        "verdicts": Verdicts.table([]),
        "rejects": Rejects.table([]),
    }
    with store.build("gold/toy", code_version="2", inputs=gold.inputs, parts=[PartSpec("0000", "2")]) as build:
        build.run_part(PartSpec("0000", "2"), lambda out: [out.table(n, t) for n, t in tables.items()] and {})
        build.commit(checks=[Check("made", True, "yes", "yes")])
    build_queue(store, ["toy"])
    seen = open_queue(store).trajectories
    assert after in seen and before not in seen
    assert before in human_set(store, promote(store)["digest"]).decisions, "nobody has said anything newer"
    answer(store, {"ann": "keep", "bob": "keep"}, number=1)
    for size in (10, 1):  # while the newer one is in the queue, and once neither is
        build_queue(store, ["toy"], QueueConfig(size=size))
        assert (after in open_queue(store).items) == (size == 10)
        made = promote(store)
        frozen = human_set(store, made["digest"]).decisions
        assert after in frozen and before not in frozen and len(frozen) == 10
        assert {item.item_id for item in feedback.human_part(store, made["digest"]).items} == set(frozen)
        assert decisions_of(store, made["digest"])[before] == (frozen[after], seen[after].digest)
        verdicts = pq.read_table(store.home / feedback.KEY / made["digest"] / "verdicts.parquet")
        assert before not in verdicts["item_id"].to_pylist() and made["outdated"] == 2


def decisions(store: Store, manifest: dict) -> list[dict]:
    return pq.read_table(store.home / feedback.KEY / manifest["digest"] / "decisions.parquet").to_pylist()


def test_what_a_killed_run_left_is_made_anew(store: Store) -> None:
    answer(store, {"ann": "keep", "bob": "keep"})
    digest = promote(store)["digest"]
    folder = store.home / feedback.KEY / digest
    (folder / "manifest.json").unlink()
    (folder / "steps.parquet").write_bytes(b"half")
    assert promote(store)["digest"] == digest and human_set(store, digest).decisions


def test_a_judge_that_people_contradict_isn_t_let_to_work(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once for each set; a small set, and one of a single band, let everybody through."""
    asked: list[str] = []

    class Scripted:
        model, rubric_version = "none", "1"

        def __init__(self, name: str, right: bool) -> None:
            self.name, self.right = name, right

        def judge(self, items: list, round_number: int = 0, habits: object = None) -> list[Verdict]:
            asked.append(self.name)
            decisions = human_set(store, digest).decisions
            found = []
            for item in items:
                score = RIGHT[decisions[item.item_id]]
                score = score if self.right else 10 - score
                found += [verdict(name, score) for name in (item.item_id, *(step.item_id for step in item.actions))]
            return found

    assert admit(store, RulesJudge()) is None, "nothing is promoted"
    answer(store, {"ann": "keep", "bob": "keep"})
    digest = promote(store)["digest"]
    wrong, right = Scripted("wrong", False), Scripted("right", True)
    assert admit(store, wrong) is None and not asked, "ten items are too few"  # type: ignore[arg-type]
    monkeypatch.setattr(feedback, "GATED_FROM", 5)
    for _ in range(2):
        check = admit(store, right)  # type: ignore[arg-type]
        assert check is not None and check.passed
        with pytest.raises(ModelError, match="judge wrong: the judge agrees with people fails: kappa -"):
            admit(store, wrong)  # type: ignore[arg-type]
    assert asked == ["right", "wrong"]


def test_what_a_ceiling_left_unasked_says_nothing_of_a_judge(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither refuses it for good, nor is kept as how far it agrees."""

    class Capped:
        name, model, rubric_version = "capped", "none", "1"

        def __init__(self, most: int) -> None:
            self.most = most

        def judge(self, items: list, round_number: int = 0, habits: object = None) -> list[Verdict]:
            found = []
            for place, item in enumerate(items):
                score = RIGHT[wanted[item.item_id]]
                names = (item.item_id, *(step.item_id for step in item.actions))
                found += [verdict(n, score) if place < self.most else waiting(n) for n in names]
            return found

    def waiting(name: str) -> Verdict:
        return Verdict(name, None, None, "ceiling", 0.0, "capped", "none", "1", pending=True)

    monkeypatch.setattr(feedback, "GATED_FROM", 5)
    answer(store, {"ann": "keep", "bob": "keep"})
    wanted = {item: "keep" if place % 4 else "discard" for place, item in enumerate(open_queue(store).items)}
    with pytest.raises(CeilingReached, match=r"judge capped: .* unasked; asked another night"):
        promote(store, Capped(8))  # type: ignore[arg-type]
    assert feedback.current(store) is None and not list((store.home / feedback.KEY).glob("*/gate.json"))
    made = promote(store, Capped(10))  # type: ignore[arg-type]
    assert human_set(store, made["digest"]).kappa == pytest.approx(1)
    with pytest.raises(CeilingReached):
        admit(store, Capped(8))  # type: ignore[arg-type]
    check = admit(store, Capped(10))  # type: ignore[arg-type]
    assert check is not None and check.passed, "the next night"
