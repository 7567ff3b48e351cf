"""A link in a raw folder that leads out of it: what lies behind it reaches no table, and the loss is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import native
import pytest

from pipelines.mapping.adapter import Raw, RecordError
from pipelines.store import Store
from pipelines.unify.unify import unify_source

MARK = b"-----BEGIN PRIVATE KEY-----"


@pytest.mark.slow
@pytest.mark.parametrize("source", native.names())
def test_no_source_reads_through_a_link_that_leads_out(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    raw = tmp_path / "raw"
    secret = tmp_path / "private"
    secret.write_bytes(MARK + b'\n{"a": "' + MARK + b'"}\n')
    linked = 0
    for path in sorted(raw.rglob("*")):
        if path.is_file():
            path.unlink()
            path.symlink_to(secret)
            linked += 1
    assert linked
    store = Store(tmp_path / "home")
    try:
        counts = unify_source(store, source, native.raw_of(source, tmp_path)).counts
    except RecordError as error:  # a list beside the records that all of them need
        assert str(error).startswith("unsafe_path")
    else:
        assert counts["items_mapped"] == 0
        assert counts["records_quarantined"] > 0
    written = [path for path in store.home.rglob("*") if path.is_file() and MARK in path.read_bytes()]
    assert written == []


def test_links_that_stay_inside_are_read_and_others_are_not(tmp_path: Path) -> None:
    raw, other = tmp_path / "raw", tmp_path / "companion"
    (raw / "deep").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "private").mkdir()
    for folder in (raw, other, tmp_path / "private"):
        (folder / "file").write_bytes(folder.name.encode())
    (raw / "inside").symlink_to("file")
    (raw / "companion").symlink_to(other / "file")
    (raw / "deep" / "out").symlink_to("../../private/file")
    (raw / "folder").symlink_to(tmp_path / "private", target_is_directory=True)
    (raw / "twice").symlink_to("deep/out")
    read = Raw(raw, {"other": other}).read
    assert read("inside") == b"raw"
    assert read("companion") == b"companion"
    for name in ("deep/out", "folder/file", "twice"):
        with pytest.raises(RecordError, match="unsafe_path"):
            read(name)
        with pytest.raises(RecordError, match="unsafe_path"):
            Raw(raw).is_there(name)
    with pytest.raises(RecordError, match="unsafe_path"):
        Raw(raw).listing("folder")


def test_a_raw_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").write_bytes(b"x")
    (tmp_path / "raw").symlink_to(tmp_path / "disk", target_is_directory=True)
    assert Raw(tmp_path / "raw").read("file") == b"x"


def test_a_picture_that_takes_the_place_of_a_link_is_read(tmp_path: Path) -> None:
    native.fixture("aitz").write(tmp_path)
    raw, store = tmp_path / "raw", Store(tmp_path / "home")
    sound = unify_source(Store(tmp_path / "other"), "aitz", Raw(raw)).counts
    moved = {path: tmp_path / f"{number}" for number, path in enumerate(sorted(raw.rglob("*.png")))}
    for path, aside in moved.items():
        shutil.move(path, aside)
        path.symlink_to(aside)
    linked = unify_source(store, "aitz", Raw(raw))
    assert linked.counts["reasons"]["unsafe_path"] > 0
    assert unify_source(store, "aitz", Raw(raw)).version == linked.version, "a rerun does no work"
    for path, aside in moved.items():
        path.unlink()
        shutil.move(aside, path)
    assert unify_source(store, "aitz", Raw(raw)).counts == sound
