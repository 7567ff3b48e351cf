"""The index follows the store: states and scores as the tables say, changed parts alone read again."""

from __future__ import annotations

from pathlib import Path

import corpusmaker
import pyarrow.parquet as pq
import pytest
from browsing import browsed_source, browsed_store, verdict_row

from pipelines.store import Store
from quality.browser import corpus as corpus_module
from quality.browser.corpus import Corpus
from quality.browser.item import details
from quality.browser.pictures import PictureError, picture, small_path
from quality.browser.rows import IndexedPart, last_of
from quality.browser.search import find
from quality.browser.view import ViewError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return browsed_store(tmp_path / "home")


@pytest.mark.slow
def test_states_and_scores_are_those_of_the_tables(store: Store) -> None:
    loaded = Corpus(store).now()
    gold = {(row["episode_id"], row["step_index"]) for row in store.require("gold/toy").read("steps").to_pylist()}
    judged = last_of(store.require("verdicts/toy").read("verdicts").to_pylist())
    for row in store.require("unified/toy").read("steps").to_pylist():
        name = f"step:toy/{row['episode_id']}/{row['step_index']}"
        card = find(loaded, name)
        kept = "gold" if (row["episode_id"], row["step_index"]) in gold else "rejected"
        assert card["state"] == ("unsafe" if row["episode_id"] == "e0001" else kept)
        assert (card["score"], card["reason"]) == (judged[name]["score"], judged[name]["reason"])
    displaced = {
        row["item_id"]: row["kept"] for row in store.require("hygiene/duplicates").read("displaced").to_pylist()
    }
    for row in store.require("gold/toy").read("samples").to_pylist():
        card = find(loaded, f"sample:{row['sample_id']}")
        scores = [judged[parent]["score"] for parent in row["parents"] if parent in judged]
        assert card["score"] == min((s for s in scores if s is not None), default=None)
        if any("/e0001/" in parent for parent in row["parents"]):
            assert card["state"] == "unsafe"
        elif card["item_id"] in displaced:
            assert (card["state"], card["cluster"]) == ("duplicate", displaced[card["item_id"]])
        else:
            assert card["state"] == "gold"
            assert card["cluster"] == (card["item_id"] if card["item_id"] in displaced.values() else "")
    assert find(loaded, "toy/a.json#row 2")["state"] == "unmapped"
    with pytest.raises(ViewError, match="no such item"):
        find(loaded, "sample:none")


def test_the_last_round_counts() -> None:
    rows = [verdict_row("step:a/b/0", 3, "old"), verdict_row("step:a/b/0@r1", 8, "new", 1)]
    assert last_of(rows)["step:a/b/0"]["score"] == 8
    assert last_of(reversed(rows))["step:a/b/0"]["score"] == 8


@pytest.mark.slow
def test_only_what_changed_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counting(part: IndexedPart) -> object:
        read.append(part.source)
        return real(part)

    real = corpus_module.index_part
    monkeypatch.setattr(corpus_module, "index_part", counting)
    first = Corpus(store).now()
    assert sorted(read) == ["aitz", "toy"]
    assert Corpus(store).now().name == first.name and len(read) == 2  # the same versions: nothing is made
    browsed_source(store, "toy", 3)
    watching = Corpus(store)
    second = watching.now()
    assert read[2:] == ["toy"] and second.name != first.name
    assert len(list((watching.folder / "parts").glob("*.parquet"))) == 2
    assert [path.stem for path in watching.folder.glob("*.duckdb")] == [second.name]
    corpusmaker.commit(store, "hygiene/safety", {}, {"quarantine": pq.read_table(_quarantine(store)).slice(0, 0)})
    assert watching.refresh().name != second.name and len(read) == 3  # other hygiene, the same parts
    assert find(watching.now(), "episode:toy/e0001")["state"] != "unsafe"


def _quarantine(store: Store) -> Path:
    return store.require("hygiene/safety").paths("quarantine")[0]


@pytest.mark.slow
def test_a_running_page_gets_the_next_version_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "LOOK_AGAIN_S", -1.0)
    corpus = Corpus(store)
    before = corpus.now()
    browsed_source(store, "toy", 4)
    assert corpus.now().name == before.name  # the old one is shown meanwhile
    assert corpus._building is not None
    corpus._building.join(60)
    assert corpus.now().name != before.name


def test_an_empty_store_has_nothing_to_show(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    loaded = Corpus(Store(tmp_path)).now()
    assert loaded.cursor().execute("SELECT count(*) FROM items").fetchall() == [(0,)]


def test_details_hold_pictures_verdicts_and_the_film_strip(store: Store) -> None:
    loaded = Corpus(store).now()
    step = details(loaded, "step:toy/e0002/0")
    assert [frame["id"] for frame in step["frames"]] == [f"step:toy/e0002/{number}" for number in range(3)]
    assert [frame["here"] for frame in step["frames"]] == [True, False, False]
    assert step["frames"][0]["boxes"] and step["frames"][0]["point"] == (250, 140) and step["frames"][0]["elements"]
    assert {row["item_id"] for row in step["verdicts"]} == {"step:toy/e0002/0", "episode:toy/e0002"}
    assert all(frame["here"] for frame in details(loaded, "episode:toy/e0002")["frames"])
    row = store.require("gold/toy").read("samples").to_pylist()[0]
    sample = details(loaded, f"sample:{row['sample_id']}")
    assert sample["row"]["answer"] == row["answer"] and len(sample["frames"]) == len(row["images"])


def test_pictures_are_made_small_once(store: Store) -> None:
    sha = store.require("unified/toy").read("screens")["screenshot_sha256"][0].as_py()
    data, kind = picture(store, sha, "card")
    assert kind == "image/jpeg" and data[:3] == b"\xff\xd8\xff"
    path = small_path(store.home, sha, 420)
    path.write_bytes(b"kept")
    assert picture(store, sha, "card")[0] == b"kept"
    assert picture(store, sha, "full") == (store.screen_bytes(sha), "image/png")
    for bad in ("../../etc/passwd", sha[:-1], sha.upper() + "/", ""):
        with pytest.raises(PictureError, match="64 hex digits"):
            picture(store, bad, "card")
    with pytest.raises(PictureError, match="size: expected full, card, strip"):
        picture(store, sha, "huge")
