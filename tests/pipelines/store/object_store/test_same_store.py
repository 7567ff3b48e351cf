"""The same graph on local files, on S3, in a shared folder: the same hashes; and a second machine that has it all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from s3_server import S3Server
from shared_store import commit, objects_of, picture, text_of

from pipelines.store import Check, Store, StoreError, has_store
from pipelines.store.choose_version import promote, roll_back, versions
from pipelines.store.current_version import read_history
from pipelines.store.files import file_sha256
from pipelines.store.object_store.adopt import adopt
from pipelines.store.parts import put_text

pytestmark = pytest.mark.slow

Machines = Callable[[str], Store]


@pytest.mark.parametrize("url", ["s3", "file", "memory"], indirect=True)
def test_the_same_graph_gives_the_same_bytes_behind_any_url(url: str, tmp_path: Path, machines: Machines) -> None:
    local, there = Store(tmp_path / "local"), machines(url)
    for store in (local, there):
        unified = commit(store)
        commit(store, "gold/x", "g", {"unified/x": unified.version})
    for asset in ("unified/x", "gold/x"):
        one, other = local.require(asset), there.require(asset)
        assert one == other and text_of(local, one) == text_of(there, other)
    below = {p.relative_to(tmp_path / "local").as_posix() for p in (tmp_path / "local").rglob("*") if p.is_file()}
    # a folder's README.md is for who opens the folder; a URL has listing.json
    here = (".lock", "promotions.jsonl", "README.md")
    below -= {name for name in below if name.endswith(here) or name.startswith("cache/")}
    assert below <= objects_of(there), "pictures, parts, receipts, manifests, pointers: all are behind the URL"
    assert not [name for name in objects_of(there) if name.endswith("lock.json")]


def test_a_second_machine_does_nothing_anew_and_reads_the_same_rows(url: str, machines: Machines) -> None:
    first = machines(url)
    made = commit(first)
    rows = made.read("steps")
    ran: list[str] = []
    second = machines(url)
    assert [p.name for p in (second.home / "assets").glob("*/*/current.json")] == ["current.json"]
    again = commit(second, ran=ran)
    assert ran == [] and again == made and text_of(second, again) == text_of(first, made)
    assert not list(second.home.rglob("*.parquet")), "what nobody reads isn't fetched"
    assert again.path(again.files[0]).exists() and len(list(second.home.rglob("*.parquet"))) == 1
    assert second.require("unified/x").read("steps").equals(rows)
    sha = rows["screenshot_sha256"][0].as_py()
    assert second.screen_bytes(sha) == picture(0)
    third = machines(url)
    root = third.require("unified/x").root
    assert all(file_sha256(root / entry.path) == entry.sha256 for entry in made.files)


def test_only_what_changed_is_put(s3_url: str, server: S3Server, machines: Machines) -> None:
    store = machines(s3_url)
    commit(store)
    server.asked.clear()
    commit(store)
    put = [path for method, path in server.asked if method == "PUT"]
    assert [path.rpartition("/")[2] for path in put] == ["lock.json"], put
    commit(store, content="b")
    assert not [path for method, path in server.asked if method == "PUT" and "/screens/" in path]


def test_promotion_and_rollback_are_seen_by_all_machines(url: str, machines: Machines) -> None:
    first = machines(url)
    one, two = commit(first, content="a"), commit(first, content="b")
    bad = commit(first, content="c", checks=[Check("good", False, "0", "1")])
    second = machines(url)
    assert second.require("unified/x").version == two.version
    assert {found.manifest.version for found in versions(second, "unified/x")} == {
        one.version,
        two.version,
        bad.version,
    }
    change = roll_back(second, "unified/x", why="worse")
    assert (change.version, change.before) == (one.version, two.version)
    assert first.require("unified/x").version == one.version
    assert commit(first, content="b").version == two.version
    assert first.require("unified/x").version == one.version, "what a person set aside elsewhere doesn't come back"
    with pytest.raises(StoreError, match="checks failed"):
        promote(first, "unified/x", bad.version)
    promote(first, "unified/x", two.version)
    assert second.require("unified/x").version == two.version


def test_a_home_belongs_to_one_url(tmp_path: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path / 'share'}"
    store = machines(url)
    commit(store)
    assert Store(store.home).require("unified/x").rows("steps") == 150, "it remembers its URL"
    with pytest.raises(StoreError, match=r"is the copy of file://.*take another"):
        Store(store.home, f"file://{tmp_path / 'other'}")
    own = Store(tmp_path / "own")
    commit(own)
    with pytest.raises(StoreError, match="assets of its own"):
        Store(own.home, url)
    monkeypatch.setenv("VESPER_STORE_URL", url)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "named"))
    assert Store(tmp_path / "named").require("unified/x").rows("steps") == 150
    assert Store(tmp_path / "scratch").current("unified/x") is None, "the variable is for $VESPER_HOME"
    assert has_store(tmp_path / "named") and has_store(own.home) and not has_store(tmp_path / "nowhere")
    for bad, said in (
        ("bucket/prefix", "expected a URL such as"),
        ("file://relative", "absolute path"),
        ("nosuch://x", "expected a URL that fsspec opens"),
        ("sftp://me:secret@host/x", "without a password"),
    ):
        with pytest.raises(StoreError, match=said) as told:
            Store(tmp_path / "bad", bad)
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_local_store_is_put_behind_a_url(url: str, tmp_path: Path, machines: Machines) -> None:
    own = Store(tmp_path / "own")
    old, made = commit(own), commit(own, content="b")
    gold = commit(own, "gold/x", "g", {"unified/x": made.version})
    put_text(own.home / "feedback/failures/d1/manifest.json", "{}")
    put_text(own.home / "feedback/failures/current.json", '{"digest": "d1"}')
    roll_back(own, "unified/x", why="worse")
    assert adopt(own.home, url) == 2
    second = machines(url)
    assert (second.home / "feedback/failures/current.json").exists()
    assert second.require("unified/x") == old and second.require("gold/x") == gold
    assert [found.why for found in read_history(second.root("unified/x"))][-1] == "worse"
    ran: list[str] = []
    assert commit(second, content="b", ran=ran) == made and not ran
    assert second.screen_bytes(made.read("steps")["screenshot_sha256"][0].as_py()) == picture(0)
    commit(Store(own.home), "gold/x", "h")
    assert second.require("gold/x").version != gold.version, "the home is a copy now"
    with pytest.raises(StoreError, match="is the copy of a URL already"):
        adopt(own.home, url)
    other = Store(tmp_path / "third")
    commit(other)
    with pytest.raises(StoreError, match="holds a store already"):
        adopt(other.home, url)
