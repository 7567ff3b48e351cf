"""What is taken down on one machine is gone behind the URL and from the copies of the others."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from goldmaker import gold

from pipelines.mapping.adapter import Raw
from pipelines.store import PartSpec, PartWriter, Store, run_part
from pipelines.store.choose_version import named_version, promote
from pipelines.store.files import StoreError
from pipelines.store.object_store.binding import copies_at
from pipelines.takedown.check import verify
from pipelines.takedown.takedown import finish, take_down
from pipelines.takedown.withdrawn import NAME, TakenDown, WithdrawnEntry
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.reader import ShardReader
from pipelines.training_data.shards import build_shards

pytestmark = pytest.mark.slow

Machines = Callable[[str], Store]
KEYS = ("unified/toy", "gold/toy", "mid_training/shards", "mid_training/mixture")


def nothing(source: str) -> Raw | None:
    return None


def pack(store: Store) -> None:
    gold(store, count=6, parts=2)
    build_shards(store, ["toy"])
    build_mixture(store, duplicates=False)


def content(folder: Path) -> bytes:
    """All that stands below a folder, tables as rows; not what is remembered on purpose."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != NAME:
            is_table = path.suffix == ".parquet"
            found.append(repr(pq.read_table(path).to_pylist()).encode() if is_table else path.read_bytes())
    return b"\n".join(found)


def everything(store: Store, folder: Path) -> Path:
    """All objects behind a store's URL, as files."""
    copies = copies_at(store.home)
    assert copies is not None
    for name, found in copies.objects.listing("").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copies.objects.get_file(name, folder / name, found.bytes)
    return folder


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_record_is_gone_there_here_and_on_the_other_machine(url: str, machines: Machines, tmp_path: Path) -> None:
    plain, first = Store(tmp_path / "plain"), machines(url)
    for store in (plain, first):
        pack(store)
        promote(store, "gold/toy", alias="production")
    second = machines(url)
    steps = second.require("unified/toy").read("steps").to_pylist()
    shas = {row["screenshot_sha256"] for row in steps if row["episode_id"] == "e0002"}
    for sha in shas:
        second.screen_bytes(sha)
    assert ShardReader.from_mixture(second, global_batch=1).batches_per_epoch
    spec = PartSpec("unfinished", "1")
    table = second.require("gold/toy").read("steps")

    def write(out: PartWriter) -> None:
        out.table("steps", table)

    run_part(second.root("gold/toy"), "0" * 16, spec, write)  # a build that was killed before its commit

    words = (b"'e0002'", b'"e0002"', b"toy/e0002", b"task 2 of toy")
    assert all(word in content(second.home) for word in words[:1])
    entry = WithdrawnEntry("step:toy/e0002/1", "a person asked")
    (local, _), (report, taken) = (take_down(store, [entry], nothing) for store in (plain, first))
    assert report == local and report.screens == len(shas) == 3
    for key in KEYS:
        assert plain.require(key) == first.require(key), "the same versions take their place"
    assert named_version(first, "gold/toy@production") == first.require("gold/toy"), "an alias goes along"
    assert verify(first.home, taken, {}) == []
    finish(first, taken)
    there = content(everything(first, tmp_path / "there"))
    held = [*words, *(sha.encode() for sha in shas)]
    assert not [word for word in held if word in there or word in content(first.home)]

    again = Store(second.home)  # the next run of the other machine
    assert not [word for word in held if word in content(again.home)] and TakenDown.load(again.home).reasons
    assert again.require("unified/toy") == first.require("unified/toy")
    rows = [ShardReader.from_mixture(store, global_batch=1).batch(0, 0) for store in (plain, again)]
    assert rows[0] == rows[1]
    _, remembered = take_down(again, [], nothing)
    assert verify(again.home, remembered, {}) == []
    assert [plain.require(key) for key in KEYS] == [again.require(key) for key in KEYS]


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_part_that_was_found_before_the_takedown_is_not_committed(url: str, machines: Machines) -> None:
    first, second = machines(url), machines(url)
    gold(first, count=4, parts=2)
    entry = next(entry for entry in second.require("gold/toy").files if entry.table == "steps")
    second.require("gold/toy").read("steps")
    spec = PartSpec("own", "1")
    with second.build("gold/toy", code_version="7", parts=[spec]) as build:
        with pytest.raises(StoreError, match="takedown: gold/toy is being built by process"):
            take_down(first, [WithdrawnEntry("episode:toy/e0001", "asked")], nothing)
        build.run_part(spec, lambda out: out.bytes("note.txt", b"1"))
        build.commit()
    _, taken = take_down(first, [WithdrawnEntry("episode:toy/e0001", "asked")], nothing)
    third = machines(url)
    _, more = take_down(third, [WithdrawnEntry("episode:toy/e0003", "asked too")], nothing)
    with pytest.raises(StoreError, match="another machine took down 1 more meanwhile"):
        finish(first, taken)
    take_down(second, [], nothing)  # with the other machines' lists, which it has not seen yet
    assert TakenDown.load(second.home).reasons == more.reasons and len(more.reasons) == 2
    _, found = take_down(third, [], nothing)
    finish(third, found)
    with second.build("gold/toy", code_version="8"):
        assert not (second.root("gold/toy") / entry.path).exists(), "dropped as soon as a build begins"


KILLED = """
import os, sys
from pathlib import Path
from pipelines.takedown import assets as takedown_assets, takedown
from pipelines.store.object_store.copies import StoreCopies
from pipelines.store import Store
from pipelines.takedown.withdrawn import WithdrawnEntry
delete, count = StoreCopies.delete, []
def counted(self, paths):
    count.append(1)
    if len(count) == 3:
        os.kill(os.getpid(), 9)
    delete(self, paths)
StoreCopies.delete = counted
takedown.take_down(Store(sys.argv[1], sys.argv[2]), [WithdrawnEntry("episode:toy/e0002", "asked")], lambda source: None)
"""


def test_killed_in_the_middle_another_machine_ends_it(machines: Machines, tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'share'}"
    first = machines(url)
    pack(first)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(first.home), url], cwd=Path(__file__).parents[4])
    assert killed.returncode == -signal.SIGKILL
    second = machines(url)
    assert all(second.require(key).read(table) for key, table in zip(KEYS, ("steps", "samples", "index", "mixture")))
    _, taken = take_down(second, [], nothing)
    assert verify(second.home, taken, {}) == []
    there = content(everything(second, tmp_path / "there"))
    assert b"e0003" in there and b"'e0002'" not in there and b"toy/e0002" not in there
    assert Store(first.home).require("gold/toy") == second.require("gold/toy")
