"""What is done with chosen items: tags, wishes for a review, lists for a takedown, lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browsing import browsed_store

from pipelines.store import Store
from pipelines.takedown.withdrawn import TakenDown, read_list
from quality.browser.corpus import Corpus, Loaded
from quality.browser.desk import Desk
from quality.browser.search import find
from quality.browser.view import ViewError
from quality.commands.takedown import forget
from quality.review.requested import REQUESTED, open_with_requests
from quality.review.verdict_store import ReviewError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return browsed_store(tmp_path / "home")


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


@pytest.fixture
def loaded(store: Store) -> Loaded:
    return Corpus(store).now()


def first_sample(store: Store, source: str = "toy") -> str:
    return "sample:" + store.require(f"gold/{source}").read("samples")["sample_id"][0].as_py()


def test_a_tag_is_kept_with_who_and_when_and_comes_off_again(desk: Desk, loaded: Loaded) -> None:
    ids = ["step:toy/e0000/0", "step:toy/e0000/1"]
    assert desk.tag(loaded, {"ids": ids, "name": " odd colours ", "who": "ann"})["tags"] == [("odd colours", 2)]
    assert desk.tagged(["odd colours"]) == ids
    [mark, _] = desk.marks.tags()
    assert (mark.who, mark.name) == ("ann", "odd colours") and mark.created > 1e9
    other = Desk(desk.store)  # another process sees it
    other.tag(loaded, {"ids": ids[:1], "name": "odd colours", "who": "bob", "remove": True})
    assert desk.tagged(["odd colours"]) == ids[1:]


def test_a_step_is_reviewed_by_its_episode_and_comes_first(desk: Desk, loaded: Loaded, store: Store) -> None:
    sample = first_sample(store)
    done = desk.request_review(loaded, {"ids": ["step:toy/e0003/1", sample], "who": "ann"})
    assert done == {"asked": ["episode:toy/e0003", sample], "left_out": []}
    queue = open_with_requests(store, elements=True)  # without any drawn queue
    assert sorted(queue.rows) == sorted(["episode:toy/e0003", sample])
    assert {row["band"] for row in queue.rows.values()} == {REQUESTED}
    assert all(row["weight"] == 0 and row["reason"] == "asked for by ann" for row in queue.rows.values())
    assert queue.trajectories["episode:toy/e0003"].steps and queue.screens


def test_a_list_is_filed_that_the_command_reads(desk: Desk, loaded: Loaded, store: Store) -> None:
    body = {"ids": ["episode:toy/e0002", "step:aitz/e0000/0"], "reason": "=the owner asked, twice", "who": "ann"}
    with pytest.raises(ViewError, match="confirm: expected 2"):
        desk.request_takedown(loaded, body)
    with pytest.raises(ViewError, match="reason: expected 1 to 500"):
        desk.request_takedown(loaded, {**body, "confirm": 2, "reason": " "})
    assert desk.waiting_takedowns() == []
    done = desk.request_takedown(loaded, {**body, "confirm": 2})
    entries = read_list(Path(str(done["file"])))
    assert [(one.id, one.reason) for one in entries] == [
        (name, "=the owner asked, twice (ann)") for name in body["ids"]
    ]
    assert desk.waiting_takedowns() == [done["file"]] and store.current("gold/toy") is not None


def test_a_takedown_forgets_marks_and_what_is_kept_ready(desk: Desk, loaded: Loaded, store: Store) -> None:
    desk.tag(loaded, {"ids": ["step:toy/e0000/0", "step:toy/e0001/0"], "name": "odd", "who": "ann"})
    taken = TakenDown()
    taken.episodes.add("episode:toy/e0000")
    assert forget(store.home, taken).people == 1
    assert Desk(store).tagged(["odd"]) == ["step:toy/e0001/0"]
    assert not (store.home / "cache" / "browse").exists()


def test_lines_of_json_say_what_a_card_says(desk: Desk, loaded: Loaded, store: Store) -> None:
    sample = first_sample(store)
    desk.tag(loaded, {"ids": [sample], "name": "odd", "who": "ann"})
    [line] = desk.exported([find(loaded, sample)])
    row = json.loads(line)
    assert {"score", "reason", "picture", "boxes", "point"} <= set(row) and (row["item_id"], row["tags"]) == (
        sample,
        ["odd"],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"ids": "step:toy/e0000/0"},
        {"ids": []},
        {"ids": [5]},
        {"ids": ["toy/a.json#row 2"]},
        {"ids": ["step:toy/none/0"]},
        {"ids": ["step:toy/e0000/0"] * 2 + ["x" * 9]},
        {"ids": ["step:toy/e0000/0"], "name": "<b>"},
        {"ids": ["step:toy/e0000/0"], "name": "odd", "who": "<b>"},
        {"ids": ["step:toy/e0000/0"], "name": 7, "who": "ann"},
    ],
)
def test_what_isnt_allowed_is_refused_in_one_line(body: object, desk: Desk, loaded: Loaded) -> None:
    for act in (desk.tag, desk.request_takedown):
        with pytest.raises((ViewError, ReviewError)) as refused:
            act(loaded, body)
        assert "\n" not in str(refused.value)
    assert desk.marks.count() == 0
