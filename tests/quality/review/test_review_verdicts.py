"""The file of answers: history, undo, overlap, SIGKILL, hostile values; and agreement against published examples."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.review.agreement import (
    agreement,
    cohen_kappa,
    consensus,
    disagreements,
    fleiss_kappa,
    krippendorff_alpha,
    percent_agreement,
)
from quality.review.verdict_store import DECISIONS, HOLD_S, HumanVerdict, ReviewError, VerdictStore
from schemas.ids import digest

ROOT = Path(__file__).parents[3]


def said(item: str, who: str, decision: str = "keep", request: str = "", **more: object) -> HumanVerdict:
    name = request or f"request:{digest([item, who, decision, str(more)])[:20]}"
    return HumanVerdict(item, who, str(more.pop("role", "annotator")), decision, request=name, **more)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> VerdictStore:
    return VerdictStore(tmp_path / "feedback" / "review.sqlite")


# --- the file ---------------------------------------------------------------------------------------------------------
def test_a_changed_mind_is_a_new_row_and_the_last_counts(store: VerdictStore) -> None:
    store.add(said("episode:a/1", "ann", "keep", seconds=2.5, note="fine"))
    store.add(said("episode:a/1", "ann", "discard", first_wrong_step=3))
    [last] = store.verdicts()
    assert (last.decision, last.first_wrong_step) == ("discard", 3)
    assert [(one.decision, undone) for one, undone in store.history("episode:a/1")] == [
        ("keep", False),
        ("discard", False),
    ]
    assert store.undo("ann", "undo:0001") == last
    assert [one.decision for one in store.verdicts()] == ["keep"]  # what was said before counts again
    assert store.undo("ann", "undo:0001") == last  # the same undo again undoes nothing more
    assert store.undo("ann", "undo:0002") is not None
    assert store.verdicts() == [] and store.undo("ann", "undo:0003") is None
    assert [undone for _, undone in store.history("episode:a/1")] == [True, True]


def test_an_answer_sent_twice_counts_once_and_its_name_is_not_used_again(store: VerdictStore) -> None:
    first = store.add(said("episode:a/1", "ann", request="same-request"))
    assert store.add(said("episode:a/1", "ann", request="same-request")) == first
    assert len(store.history("episode:a/1")) == 1
    with pytest.raises(ReviewError, match="names another answer"):
        store.add(said("episode:a/2", "ann", request="same-request"))
    assert [one.item_id for one in store.verdicts()] == ["episode:a/1"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"decision": "maybe"}, "decision: expected one of keep"),
        ({"annotator": "x'; DROP TABLE verdicts; --"}, "annotator: expected 1 to 80"),
        ({"annotator": ""}, "annotator"),
        ({"role": "boss"}, "role: expected"),
        ({"first_wrong_step": -1}, "first_wrong_step"),
        ({"first_wrong_step": True}, "first_wrong_step"),
        ({"note": "n" * 4001}, "note: expected at most 4000"),
        ({"seconds": math.nan}, "seconds"),
        ({"item_id": ""}, "item_id"),
        ({"request": "short"}, "request"),
        ({"content": "../x"}, "content"),
    ],
)
def test_what_is_not_allowed_is_refused_and_nothing_is_kept(
    store: VerdictStore, bad: dict[str, object], told: str
) -> None:
    plain: dict[str, object] = {
        "item_id": "episode:a/1",
        "annotator": "ann",
        "role": "annotator",
        "decision": "keep",
        "request": "request-1",
    }
    with pytest.raises(ReviewError, match=told):
        store.add(HumanVerdict(**{**plain, **bad}))  # type: ignore[arg-type]
    assert store.verdicts() == []


def test_hostile_text_is_kept_as_text(store: VerdictStore) -> None:
    item, note = "episode:a/'); DROP TABLE verdicts; --", "<script>alert(1)</script> ' \" \\ \u202e 中文"
    store.add(said(item, "ann", request="request-1", note=note))
    [kept] = store.verdicts()
    assert (kept.item_id, kept.note) == (item, note)


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("no database, but long enough to look like one\n" * 40)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    newer = tmp_path / "newer.sqlite"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    for path, told in ((text, "not a database"), (other, "version 1"), (newer, "found 99")):
        with pytest.raises(ReviewError, match=told):
            VerdictStore(path)
    assert text.read_text().startswith("no database")


def test_overlap_shares_items_out_and_gives_back_what_nobody_answered(tmp_path: Path) -> None:
    now = [1000.0]
    store = VerdictStore(tmp_path / "review.sqlite", clock=lambda: now[0])
    for name in ("ann", "bob", "eve"):
        store.join(name)
    items = [f"episode:a/{n}" for n in range(3)]
    queue = dict.fromkeys(items, "")
    assert store.upcoming("ann", queue, overlap=2, count=2) == items[:2]
    assert store.upcoming("bob", queue, overlap=2, count=2) == items[:2]
    assert store.upcoming("eve", queue, overlap=2) == items[2:]  # the first two are held for ann and bob
    assert store.upcoming("ann", queue, overlap=2, count=2) == items[:2]  # asking again changes nothing
    store.add(said(items[0], "ann"))
    now[0] += HOLD_S + 1
    assert store.upcoming("eve", queue, overlap=2, count=9) == items  # bob went home
    assert store.upcoming("ann", queue, overlap=2, count=9) == items[1:]
    changed = {**queue, items[0]: "ab"}  # another content of the same name wants a new answer
    assert store.upcoming("ann", changed, overlap=2, count=9) == items
    with pytest.raises(ReviewError, match="overlap"):
        store.upcoming("ann", queue, overlap=0)


def test_many_threads_lose_nothing(store: VerdictStore) -> None:
    def work(name: str) -> None:
        own = VerdictStore(store.path)
        for number in range(20):
            own.add(said(f"episode:a/{number}", name))
            own.upcoming(name, {"episode:a/0": ""}, overlap=9)
        own.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ann", "bob", "eve")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert Counter(one.annotator for one in store.verdicts()) == {"ann": 20, "bob": 20, "eve": 20}


def test_sigkill_loses_no_answer_that_was_accepted(tmp_path: Path) -> None:
    path = tmp_path / "review.sqlite"
    code = (
        "import sys\nfrom pathlib import Path\nfrom quality.review.verdict_store import *\n"
        "store = VerdictStore(Path(sys.argv[1]))\n"
        "for n in range(100000):\n"
        "    store.add(HumanVerdict(f'episode:a/{n}', 'ann', 'annotator', 'keep', request=f'request-{n}'))\n"
        "    print(n, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    told = [int(child.stdout.readline()) for _ in range(25)]
    child.send_signal(signal.SIGKILL)
    told += [int(line) for line in child.stdout.read().split()]
    child.wait(20)
    kept = {one.item_id for one in VerdictStore(path).verdicts()}
    assert kept >= {f"episode:a/{n}" for n in told} and len(kept) <= len(told) + 1


# --- agreement --------------------------------------------------------------------------------------------------------
def test_cohen_against_a_worked_example() -> None:
    # 50 grant proposals: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: p_o 0.7, p_e 0.5 (Wikipedia, "Cohen's kappa")
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)
    assert cohen_kappa([("a", "b"), ("b", "a")]) == pytest.approx(-1)
    assert math.isnan(cohen_kappa([("a", "a")] * 5)) and math.isnan(cohen_kappa([]))


def test_fleiss_against_a_worked_example() -> None:
    # 14 raters, 10 subjects, 5 categories (Wikipedia, "Fleiss' kappa"): 0.210
    counts = [
        (0, 0, 0, 0, 14),
        (0, 2, 6, 4, 2),
        (0, 0, 3, 5, 6),
        (0, 3, 9, 2, 0),
        (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0),
        (3, 2, 6, 3, 0),
        (2, 5, 3, 2, 2),
        (6, 5, 2, 1, 0),
        (0, 2, 2, 3, 7),
    ]
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)
    assert math.isnan(fleiss_kappa([(3, 0), (3, 0)])) and math.isnan(fleiss_kappa([]))
    with pytest.raises(ValueError, match="same n"):
        fleiss_kappa([(2, 1), (1, 1)])


@pytest.mark.parametrize(
    ("rows", "alpha"),
    [
        (["0100000010", "1110010000"], 0.095),  # Krippendorff 2011, section A: binary, two observers
        (["aabbdcccedda", "babbbccceddd"], 0.692),  # section B: nominal, two observers
    ],
)
def test_krippendorff_against_his_own_examples(rows: list[str], alpha: float) -> None:
    assert krippendorff_alpha(list(zip(*rows))) == pytest.approx(alpha, abs=5e-4)


def test_krippendorff_with_missing_answers() -> None:
    # section C: nominal, four observers, missing data
    rows = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    units = [[None if one == "." else one for one in unit] for unit in zip(*rows)]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)
    assert math.isnan(krippendorff_alpha([["a", "a"], ["a", None]])) and math.isnan(krippendorff_alpha([]))


LABELS = st.sampled_from(DECISIONS)


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40))
def test_properties_of_two_annotators(pairs: list[tuple[str, str]]) -> None:
    kappa, alpha = cohen_kappa(pairs), krippendorff_alpha(pairs)
    turned = cohen_kappa([(b, a) for a, b in pairs])
    assert (math.isnan(kappa) and math.isnan(turned)) or kappa == pytest.approx(turned)
    if not math.isnan(kappa):
        assert -1 - 1e-9 <= kappa <= 1 + 1e-9
    counts = [[pair.count(label) for label in DECISIONS] for pair in pairs]
    fleiss = fleiss_kappa(counts)
    if not math.isnan(alpha):  # with n = 2N answers, α = 1 − (1 − Fleiss' κ)(2N − 1)/2N (Krippendorff 2004)
        assert alpha == pytest.approx(1 - (1 - fleiss) * (2 * len(pairs) - 1) / (2 * len(pairs)))
    assert percent_agreement(pairs) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    if all(a == b for a, b in pairs) and len({a for a, _ in pairs}) > 1:
        assert kappa == pytest.approx(1) and alpha == pytest.approx(1) and fleiss == pytest.approx(1)


def test_figures_disagreements_and_consensus(store: VerdictStore) -> None:
    script = {
        "ann": ["keep", "keep", "discard", "unsure"],
        "bob": ["keep", "rewrite", "discard", "keep"],
        "eve": ["keep"],
    }
    for name, decisions in script.items():
        for place, decision in enumerate(decisions):
            store.add(said(f"episode:a/{place}", name, decision))
    figures = agreement(store.verdicts())
    both = list(zip(script["ann"], script["bob"]))
    assert figures.pairs["ann | bob"] == (cohen_kappa(both), 4)
    assert math.isnan(figures.pairs["ann | eve"][0]) and figures.pairs["ann | eve"][1] == 1
    assert figures.items == 4 and figures.plain()["pairs"]["ann | eve"] == [None, 1]
    waiting = disagreements(store.verdicts())
    assert [(one.item_id, one.decisions, one.adjudicated) for one in waiting] == [
        ("episode:a/1", {"ann": "keep", "bob": "rewrite"}, None),
        ("episode:a/3", {"ann": "unsure", "bob": "keep"}, None),
    ]
    assert consensus(store.verdicts()) == {"episode:a/0": "keep", "episode:a/2": "discard"}
    store.add(said("episode:a/1", "eve", "rewrite", role="adjudicator"))
    assert [one.item_id for one in disagreements(store.verdicts())] == ["episode:a/3", "episode:a/1"]
    assert consensus(store.verdicts())["episode:a/1"] == "rewrite"
    assert agreement(store.verdicts()) == figures or figures.plain() == agreement(store.verdicts()).plain()
