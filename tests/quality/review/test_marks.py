"""Marks of people who browse: kept, taken off, refused; and what was asked for by hand in the review queue."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import goldmaker
import pyarrow.parquet as pq
import pytest

from pipelines.store import Store
from pipelines.store.files import StoreError
from quality.review.marks import MarkStore, marks_path, review_requests
from quality.review.promote import KEY, promote
from quality.review.queue import ASSET, build_queue, open_queue
from quality.review.requested import open_with_requests
from quality.review.sampling import QueueConfig
from quality.review.server import Review
from quality.review.verdict_store import HumanVerdict, ReviewError, VerdictStore, answers_path


@pytest.fixture
def marks(tmp_path: Path) -> MarkStore:
    return MarkStore(marks_path(tmp_path), clock=lambda: 100.0)


def test_the_last_word_on_a_tag_counts_in_every_process(marks: MarkStore) -> None:
    marks.tag(["step:a/b/0", "step:a/b/1", "step:a/b/0"], "odd", "ann")
    other = MarkStore(marks.path)
    assert [(mark.item_id, mark.who, mark.created) for mark in other.tags()] == [
        ("step:a/b/0", "ann", 100.0),
        ("step:a/b/1", "ann", 100.0),
    ]
    before = marks.count()
    other.tag(["step:a/b/0"], "odd", "bob", remove=True)
    assert marks.tags_of(["step:a/b/0", "step:a/b/1"]) == {"step:a/b/1": ["odd"]} and marks.count() > before
    other.tag(["step:a/b/0"], "odd", "bob")
    assert [mark.who for mark in marks.tags()] == ["ann", "bob"] and marks.requests() == []


@pytest.mark.parametrize("name", ["", " ", "<b>", "a" * 41, "-x", "a\nb", "'; DROP TABLE marks"])
def test_a_tag_is_a_short_name(name: str, marks: MarkStore) -> None:
    with pytest.raises(ReviewError, match="tag: expected 1 to 40"):
        marks.tag(["step:a/b/0"], name, "ann")
    assert marks.count() == 0


def test_a_file_that_isnt_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "feedback" / "marks.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ReviewError, match="expected a file of marks"):
        MarkStore(path)
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA user_version = 9")
    with pytest.raises(ReviewError, match="of version 1, found 9"):
        MarkStore(path)


def answer(store: Store, item_id: str, decision: str, name: str) -> None:
    seen = open_with_requests(store).trajectories[item_id].digest
    request = f"request-{name}-{item_id}".replace("/", ".")
    answers = VerdictStore(answers_path(store.home))
    answers.add(HumanVerdict(item_id, name, "annotator", decision, request=request, content=seen))
    answers.close()


def test_what_was_asked_for_comes_first_and_measures_nobody(tmp_path: Path) -> None:
    store = goldmaker.gold(tmp_path / "home", count=12)
    with pytest.raises(StoreError):
        open_with_requests(store)  # neither a queue nor a wish
    build_queue(store, ["toy"], QueueConfig(size=3))
    drawn = open_queue(store)
    assert open_with_requests(store).rows == drawn.rows
    asked = next(f"episode:toy/e{n:04d}" for n in range(12) if f"episode:toy/e{n:04d}" not in drawn.rows)
    both = list(drawn.rows)[-1]
    MarkStore(marks_path(store.home)).request_review([asked, both, "episode:toy/none", "sample:none"], "ann")
    queue = open_with_requests(store)
    assert set(list(queue.rows)[:2]) == {asked, both} and set(queue.rows) == {asked, *drawn.rows}
    assert [row["priority"] for row in queue.rows.values()] == list(range(len(queue.rows)))
    assert queue.rows[both]["weight"] == drawn.rows[both]["weight"] and queue.rows[asked]["weight"] == 0

    for item in queue.rows:
        answer(store, item, "discard" if item == asked else "keep", "bob")
    made = promote(store, None, overlap=1)
    decided = pq.read_table(store.home / KEY / made["digest"] / "decisions.parquet").to_pylist()
    weights = {row["item_id"]: row["weight"] for row in decided}
    assert made["items"] == 3 and made["agreed"] == 4
    assert weights[asked] == 0 and all(weights[item] > 0 for item in drawn.rows)
    assert store.require(ASSET).version == drawn.version  # the asset is what it was


def test_a_running_review_page_takes_wishes_up(tmp_path: Path) -> None:
    store = goldmaker.gold(tmp_path / "home", count=8)
    build_queue(store, ["toy"], QueueConfig(size=2))
    held = [0]

    def newer() -> object:
        asked = len(review_requests(store.home))
        if asked == held[0]:
            return None
        held[0] = asked
        return open_with_requests(store)

    answers = VerdictStore(answers_path(store.home))
    review = Review(open_with_requests(store), answers, 1, newer)  # type: ignore[arg-type]
    before = [item["item_id"] for item in review.upcoming("bob")["items"]]  # type: ignore[index]
    asked = next(f"episode:toy/e{n:04d}" for n in range(8) if f"episode:toy/e{n:04d}" not in before)
    MarkStore(marks_path(store.home)).request_review([asked], "ann")
    after = [item["item_id"] for item in review.upcoming("bob")["items"]]  # type: ignore[index]
    assert after == [asked, *before]
    answers.close()
