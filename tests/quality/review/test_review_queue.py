"""Sampling (order, strata, weights, stability), the asset review/queue, and what a reviewer is shown."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import goldmaker
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviewing import judged_store

from pipelines.store import Store
from pipelines.store.files import StoreError
from quality.judges.verdicts import last_verdicts
from quality.review import queue as queues
from quality.review.queue import Queue, build_queue, open_folder, open_queue
from quality.review.sampling import QUEUE_BANDS, QueueConfig, ReviewCandidate, band, cell, draw, first_of_cells
from schemas.actions import Click, Type
from schemas.tables import Samples, Screens, Steps


def candidate(
    number: int, source: str = "a", score: int | None = 9, confidence: float | None = 0.9, **more: str
) -> ReviewCandidate:
    given = {"platform": "web", "kind": "grounding", "origin": "gold", **more}
    return ReviewCandidate(f"sample:{source}{number:06d}", source, score=score, confidence=confidence, **given)  # type: ignore[arg-type]


# --- drawing ----------------------------------------------------------------------------------------------------------
def test_bands() -> None:
    config = QueueConfig()
    found = [
        band(candidate(0, score=score, confidence=sure, origin=origin), config)
        for score, sure, origin in (
            (None, 0.9, "gold"),
            (3, 0.9, "gold"),
            (4, 0.1, "gold"),
            (6, 0.9, "rejected"),
            (7, 0.9, "gold"),
            (9, 0.4, "gold"),
            (9, 0.5, "gold"),
            (1, 0.9, "rejected"),
            (None, None, "gold"),
        )
    ]
    assert found == ["abstained", *["near_cut"] * 4, "low_confidence", "sure", "rejected", "unjudged"]


def test_abstentions_come_first_then_cuts_then_doubt_then_the_random_ones() -> None:
    pool = [candidate(n, score=None) for n in range(3)] + [candidate(100 + n, score=7) for n in range(50)]
    pool += [candidate(200 + n, confidence=0.3) for n in range(50)] + [candidate(300 + n) for n in range(500)]
    pool += [candidate(900 + n, score=0, origin="rejected") for n in range(50)]
    drawn = draw(pool, QueueConfig(size=40))
    assert [one.priority for one in drawn] == list(range(40))
    assert [one.band for one in drawn] == sorted((one.band for one in drawn), key=QUEUE_BANDS.index)
    counts = Counter(one.band for one in drawn)
    assert counts == {"abstained": 3, "near_cut": 11, "low_confidence": 6, "sure": 16, "rejected": 4}
    assert {one.reason for one in drawn} == {
        "the judge abstained",
        "next to a cut: score 7",
        "low confidence: 0.30",
        "audit of gold",
        "audit of rejects",
    }


def test_every_stratum_is_drawn_however_rare() -> None:
    pool = [candidate(n) for n in range(5000)]
    pool += [candidate(n, source=f"rare{n}", kind=f"navigation:{n}") for n in range(12)]
    drawn = draw(pool, QueueConfig(size=30))
    assert {one.stratum for one in drawn} == {one.stratum for one in pool}


def test_no_stratum_is_left_out_where_each_has_one_place() -> None:
    """In no band do its candidates come before the places are gone, so that one of many makes room for it."""
    pool = [candidate(n, source=f"s{n % 15}", score=[None, 3, 9][n % 3]) for n in range(900)]
    pool += [candidate(9000 + n, source="late", score=[None, 3, 9][n % 3]) for n in range(6)]
    for seed in range(6):
        drawn = draw(pool, QueueConfig(size=20, seed=seed))
        assert {one.stratum for one in drawn} == {one.stratum for one in pool} and len(drawn) == 20
        assert len({one.item_id for one in drawn}) == 20
    pool += [candidate(9500 + n, source="new", score=None, confidence=None) for n in range(6)]  # in no other's band
    assert "new/web/grounding" in {one.stratum for one in draw(pool, QueueConfig(size=20))}
    few = draw(pool, QueueConfig(size=9))
    assert len({one.stratum for one in few}) == 9


def test_weights_make_the_queue_speak_for_all() -> None:
    pool = [candidate(n, source="ab"[n % 3 == 0], score=[None, 3, 7, 9, 10][n % 5]) for n in range(600)]
    drawn = draw(pool, QueueConfig(size=60))
    assert sum(one.weight for one in drawn) == pytest.approx(600)
    by_source = Counter(one.source for one in pool)
    for source, count in by_source.items():
        assert sum(one.weight for one in drawn if one.source == source) == pytest.approx(count)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0, 3, 5, 7, 10]), st.sampled_from([0.2, 0.8])),
        max_size=80,
    ),
    st.integers(1, 50),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_a_draw_is_a_pure_function_of_the_set(rows: list, size: int, seed: int, random: object) -> None:
    pool = [candidate(n, source, score, sure) for n, (source, score, sure) in enumerate(rows)]
    config = QueueConfig(size=size, seed=seed)
    drawn = draw(pool, config)
    shuffled = list(pool)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert draw(shuffled + shuffled, config) == drawn
    assert len(drawn) == min(size, len(pool)) == len({one.item_id for one in drawn})
    # handed on by parts of any size, the result is the same
    kept, sizes = [], Counter()
    for start in range(0, len(pool), 7):
        some, counts = first_of_cells(pool[start : start + 7], config)
        kept += some
        sizes.update(counts)
    assert draw(kept, config, sizes) == drawn


def test_new_items_change_little() -> None:
    pool = [candidate(n, source="abc"[n % 3]) for n in range(3000)]
    before = {one.item_id for one in draw(pool, QueueConfig(size=100))}
    after = {one.item_id for one in draw([*pool, *(candidate(9000 + n) for n in range(30))], QueueConfig(size=100))}
    assert len(before & after) >= 95
    assert {one.item_id for one in draw(pool, QueueConfig(size=100, seed=1))} != before


def test_bad_settings_are_refused() -> None:
    for bad in ({"size": 0}, {"uncertain_share": 1.2}, {"uncertain_share": 0.8, "rejected_share": 0.4}):
        with pytest.raises(ValueError, match="review queue"):
            QueueConfig(**bad)  # type: ignore[arg-type]


def test_the_last_round_speaks_for_an_item() -> None:
    rows = [
        {"item_id": "step:a/1/0", "round": 0, "score": 3, "confidence": 0.5},
        {"item_id": "step:a/1/0@r2", "round": 2, "score": 9, "confidence": 0.5},
        {"item_id": "step:a/1/0@r1", "round": 1, "score": 5, "confidence": 0.5},
    ]
    assert last_verdicts(rows) == {"step:a/1/0": (2, 9, 0.5)}


# --- the asset --------------------------------------------------------------------------------------------------------
def test_the_queue_of_a_store(tmp_path: Path) -> None:
    scores = {"e0000": 9, "e0001": 7, "e0002": None, "e0003": 2, "e0004": 10, "e0005": 6}
    store = judged_store(tmp_path / "home", scores, ["e0000", "e0001", "e0004"])
    manifest = build_queue(store, ["toy"], QueueConfig(size=10))
    assert manifest.checks_passed and manifest.counts["queued"] == 6
    table = manifest.read("queue")
    Queue.check(table)
    rows = {row["item_id"].rpartition("/")[2]: row for row in table.to_pylist()}
    assert rows["e0002"]["priority"] == 0 and rows["e0002"]["reason"] == "the judge abstained"
    assert {name: row["origin"] for name, row in rows.items()} == {
        "e0000": "gold",
        "e0001": "gold",
        "e0002": "rejected",
        "e0003": "rejected",
        "e0004": "gold",
        "e0005": "rejected",
    }
    assert rows["e0000"]["stratum"] == "toy/web/navigation:Drag"  # its rarest action
    opened = open_queue(store, elements=True)
    assert list(opened.rows) == [row["item_id"] for row in sorted(rows.values(), key=lambda row: row["priority"])]
    shown = opened.trajectories["episode:toy/e0003"]
    assert shown.goal == "task 3 of toy: open page 3" and [step.says.partition("(")[0] for step in shown.steps] == [
        "Click",
        "Type",
        "Finished",
    ]
    assert len(opened.screens) == 18 and opened.screens[0]["elements"]


def test_a_rerun_reads_nothing_and_a_new_verdict_changes_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = judged_store(tmp_path / "home", {"e0000": 9}, ["e0000", "e0001"])
    first = build_queue(store, ["toy"])
    with monkeypatch.context() as patch:
        patch.setattr(queues, "load_part", lambda *given: pytest.fail("an unchanged part was read"))
        assert build_queue(store, ["toy"]).version == first.version
    again = build_queue(judged_store(tmp_path / "home", {"e0000": 7}, ["e0000", "e0001"]), ["toy"])
    assert again.version != first.version and again.data_version != first.data_version
    with pytest.raises(StoreError, match="nothing committed"):
        build_queue(store, ["other"])
    with pytest.raises(StoreError, match="nothing committed"):
        open_queue(Store(tmp_path / "empty"))


# --- what is shown ----------------------------------------------------------------------------------------------------
def test_pictures_are_drawn_and_missing_ones_are_none(tmp_path: Path) -> None:
    from PIL import Image

    store = goldmaker.gold(tmp_path / "home", count=1)
    build_queue(store, ["toy"])
    [shown] = open_queue(store).trajectories.values()
    data = shown.picture(0)
    assert data is not None
    image = Image.open(io.BytesIO(data))
    assert image.format == "JPEG" and image.size == (96, 64)
    bare = replace(shown, steps=(replace(shown.steps[0], action=None, boxes=()),))
    assert bare.picture(0) != data  # the action is drawn
    sha = shown.steps[0].sha256
    assert sha is not None
    path = store.screen_path(sha)
    path.write_bytes(b"no picture")
    assert shown.picture(0) is None
    path.unlink()
    assert shown.picture(0) is None
    with pytest.raises(IndexError):
        shown.picture(99)
    assert set(shown.plain()["steps"][0]) == {"says", "instruction", "thought", "conclusion", "gap", "picture"}


def test_items_without_any_picture_are_left_out(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    steps = Steps.table(
        [goldmaker.step_row("e1", 0, None, Click((1, 2))), goldmaker.step_row("e1", 1, None, Type("x"))]
    )
    pq.write_table(steps, tmp_path / "steps.parquet")
    pq.write_table(Screens.schema.empty_table(), tmp_path / "screens.parquet")
    with pytest.raises(ValueError, match="with screenshots to review"):
        open_folder(tmp_path)


def test_a_sample_is_shown_with_its_question_and_answer(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    shown = goldmaker.screen_row(store, 1)
    row = {
        "sample_id": "0" * 32,
        "source": "toy",
        "split": "train",
        "platform": "web",
        "objective": "grounding",
        "images": [shown["screenshot_sha256"]],
        "answer": "[250,140]",
        "target_boxes": [[100.0, 100.0, 400.0, 180.0]],
        "messages": '[{"role":"user","content":[{"type":"text","text":"Where is Cart?"},{"type":"image"}]}]',
        "tokens": 9,
        "licence": "CC0-1.0",
        "parents": [],
        "synthetic": False,
        "provenance": '{"deriver":"native"}',
    }
    goldmaker.commit_gold(
        store, "toy", Steps.schema.empty_table(), Samples.table([row]), screens=Screens.table([shown])
    )
    build_queue(store, ["toy"])
    [(item_id, one)] = open_queue(store).trajectories.items()
    assert item_id == "sample:" + "0" * 32 and one.goal == "Where is Cart?"
    assert one.steps[0].says == "[250,140]" and one.steps[0].action == Click((250, 140)) and one.picture(0)
    assert asdict(candidate(1))["kind"] == "grounding" and cell(candidate(1), QueueConfig())[1] == "sure"
