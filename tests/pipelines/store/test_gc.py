"""What may go and what must stay: reachability, builds in progress, the safety age, SIGKILL in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import pyarrow as pa
import pytest
from goldmaker import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.store import Check, PartSpec, PartWriter, Store, free_space
from pipelines.store.asset_locks import writing
from pipelines.store.choose_version import promote, roll_back, versions
from pipelines.store.collect_garbage import GarbagePlan, collect, survey
from pipelines.store.files import StoreError, file_sha256
from pipelines.store.manifest import Manifest

DAY = 86_400.0


def commit(
    store: Store,
    asset: str,
    content: str,
    inputs: dict[str, str] | None = None,
    *,
    shas: Sequence[str] = (),
    shared: Sequence[str] = (),
    passed: bool = True,
) -> Manifest:
    """A version with a part of its own, which names pictures, and parts that several versions may share."""

    def write(out: PartWriter) -> None:
        rows = [{"sample_id": content, "images": list(shas), "messages": f"{{'see': '{content}'}}"}]
        out.table("samples", pa.Table.from_pylist(rows))
        out.side("ids", b"0")

    specs = [PartSpec(name, name) for name in shared] + [PartSpec("own", content)]
    with store.build(asset, code_version="1", inputs=inputs, parts=specs) as build:
        for spec in specs:
            build.run_part(spec, write)
        return build.commit(checks=[Check("good", passed, "", "")])


def screen(store: Store, seed: int) -> str:
    return store.put_screen(picture(seed)).sha256


def age(store: Store, days: float = 2.0) -> None:
    """Make all that is there older."""
    then = time.time() - days * DAY
    for path in store.home.rglob("*"):
        if path.is_file():
            status = path.stat()
            os.utime(path, (then, status.st_mtime - days * DAY))


def whole(store: Store, manifest: Manifest) -> bool:
    """Whether a version is there with all its bytes."""
    found = store.version(manifest.asset, manifest.version)
    return all(file_sha256(found.root / entry.path) == entry.sha256 for entry in (*found.files, *found.side_files))


def gone(store: Store, manifest: Manifest) -> bool:
    folder = store.root(manifest.asset) / manifest.version
    return not (folder / "manifest.json").exists()


def test_what_the_current_was_made_from_stays_and_the_rest_goes(store: Store) -> None:
    shas = [screen(store, seed) for seed in range(4)]
    raws = [commit(store, "unified/x", f"u{n}", shas=[shas[n]]) for n in range(3)]
    golds = [commit(store, "gold/x", f"g{n}", {"unified/x": raws[n].version}) for n in range(3)]
    trained = commit(store, "checkpoints/x", "c0", {"gold/x": golds[0].version})
    age(store)
    before = sorted(path for path in store.home.rglob("*") if path.is_file())
    plan = survey(store, 1)
    assert sorted(path for path in store.home.rglob("*") if path.is_file()) == before, "a listing changes nothing"
    done = collect(store, 1)
    assert (done.bytes, done.files) == (plan.bytes, plan.files) and plan.bytes > 0
    assert all(whole(store, one) for one in (trained, golds[0], raws[0], golds[2], raws[2]))
    assert gone(store, golds[1]) and gone(store, raws[1]) and not (store.root("gold/x") / golds[1].version).exists()
    assert [path.exists() for path in (store.home / "screens" / sha[:2] / f"{sha}.png" for sha in shas)] == [
        True,
        False,
        True,
        False,
    ]
    assert survey(store, 1).files == 0
    again = commit(store, "unified/x", "u1", shas=[shas[0]])  # what was collected can be made again
    assert whole(store, again)


def test_files_that_versions_share_stay_with_the_last_of_them(store: Store) -> None:
    first = commit(store, "unified/x", "a", shared=["p", "q"])
    last = commit(store, "unified/x", "b", shared=["p"])
    age(store)
    collect(store, 1)
    assert gone(store, first) and whole(store, last)
    assert sorted(path.name for path in (store.root("unified/x") / first.version).iterdir()) == [
        "part-p.ids",
        "part-p.samples.parquet",
    ]
    assert len(list((store.root("unified/x") / "parts").iterdir())) == 2


def test_rolled_back_feedback_failed_and_young_versions(store: Store) -> None:
    old, bad = commit(store, "gold/x", "a"), commit(store, "gold/x", "b", passed=False)
    middle, new = commit(store, "gold/x", "c"), commit(store, "gold/x", "d")
    roll_back(store, "gold/x", old.version)
    rounds = [commit(store, "generation/verified/round_001", name) for name in "ab"]
    promoted = store.home / "feedback" / "verified" / "1" / "manifest.json"
    promoted.parent.mkdir(parents=True)
    promoted.write_text(f'{{"rounds": {{"round_001": "{rounds[0].version}"}}}}')
    assert survey(store, 1).files == 0, "nothing is old enough"
    age(store)
    collect(store, 2)
    assert all(whole(store, one) for one in (old, middle, new, *rounds)) and gone(store, bad)
    collect(store, 1)
    assert whole(store, old) and whole(store, new) and gone(store, middle)
    promote(store, "gold/x", new.version)
    collect(store, 1)
    assert gone(store, old) and [one.manifest.version for one in versions(store, "gold/x")] == [new.version]


def test_a_build_in_progress_keeps_its_folder_its_inputs_and_all_pictures(store: Store) -> None:
    sha = screen(store, 1)
    inputs = [commit(store, "unified/x", name) for name in "ab"]
    golds = [commit(store, "gold/x", name) for name in "ab"]
    age(store)
    with writing(store.home, store.root("gold/x"), "0" * 16, {"unified/x": inputs[0].version}):
        plan = collect(store, 1)
        assert all(whole(store, one) for one in (*inputs, *golds)) and store.screen_path(sha)
        assert "gold/x" in plan.screens_held and next(a.held for a in plan.assets if a.key == "gold/x")
    with writing(store.home, store.root("checkpoints/x"), "0" * 16, {}):  # puts no pictures
        collect(store, 1)
    assert gone(store, inputs[0]) and gone(store, golds[0]) and whole(store, inputs[1])
    with pytest.raises(StoreError, match="is not in"):
        store.screen_path(sha)


def test_pictures_named_anywhere_stay_and_one_put_again_counts_as_new(store: Store) -> None:
    shas = [screen(store, seed) for seed in range(4)]
    manifest = commit(store, "gold/x", f'{{"before": "{shas[0]}"}}')  # within a text
    journal = store.home / "generation" / "journals" / "a.journal"
    journal.parent.mkdir(parents=True)
    journal.write_text(f'{{"shot": "{shas[1]}"}}\n')
    raw = store.home / "assets" / "raw" / "x"
    with store.build("raw/x", code_version="1") as build:
        build.run_part(PartSpec("files", "1"), lambda out: out.bytes("files.json", f'["{shas[3]}"]'.encode()))
        build.commit()
    assert (raw / "current.json").exists()
    age(store)
    screen(store, 2)
    plan = collect(store, 1)
    assert [path.stem for path, _ in plan.screens] == [shas[3]], "a listing of raw files names no picture of the store"
    assert whole(store, manifest) and all(store.screen_path(sha) for sha in shas[:3])
    assert [store.small_greys.get(sha) is None for sha in shas] == [False, False, False, True]


def test_what_can_t_be_read_stops_it_before_anything_goes(store: Store) -> None:
    old, new = commit(store, "gold/x", "a"), commit(store, "gold/x", "b")
    age(store)
    new.paths("samples")[0].write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="can't be read, so which pictures"):
        collect(store, 1)
    assert whole(store, old)
    (new.directory / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="expected a manifest"):
        survey(store, 1)
    with pytest.raises(ValueError, match="at least 1"):
        survey(store, 0)


KILLED = """
import sys, time
from pathlib import Path
from pipelines.store.collect_garbage import collect
from pipelines.store import Store
unlink, left = Path.unlink, [int(sys.argv[2])]
def count(self, missing_ok=False):
    if left[0] == 0:
        print("here", flush=True); time.sleep(600)
    left[0] -= 1
    unlink(self, missing_ok)
Path.unlink = count
collect(Store(sys.argv[1]), 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 4])
def test_killed_in_the_middle_a_second_run_takes_up_the_rest(store: Store, after: int) -> None:
    shas = [screen(store, seed) for seed in range(3)]
    made = [commit(store, "gold/x", f"g{n}", shared=["p"], shas=[shas[n]]) for n in range(3)]
    age(store)
    total = survey(store, 1).files
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(store.home), str(after)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert all(gone(store, one) or whole(store, one) for one in made), "no manifest names a missing file"
    plan: GarbagePlan = collect(store, 1)
    assert plan.files == total - after and whole(store, made[2])
    assert survey(store, 1).files == 0 and store.current("gold/x") == made[2]


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3), st.sets(st.sampled_from("pqr")), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 2),
)
def test_no_version_that_stays_lacks_a_byte_or_an_input(made: list[tuple[str, int, set[str], bool]], keep: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for name, content, shared, passed in made:
            below = {"b": ["a"], "c": ["a", "b"]}.get(name, [])
            inputs = {f"gold/{one}": m.version for one in below if (m := store.current(f"gold/{one}"))}
            commit(store, f"gold/{name}", str(content), inputs, shared=sorted(shared), passed=passed)
        age(store)
        collect(store, keep)
        for name in {one[0] for one in made}:
            asset = f"gold/{name}"
            for one in versions(store, asset):
                assert whole(store, one.manifest)
                assert all(store.version(key, value) for key, value in one.manifest.inputs.items())
            current = store.current(asset)
            assert current is None or whole(store, current)
        assert survey(store, keep).files == 0


def test_a_build_without_room_is_refused_in_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commit(store, "gold/x", "a", shared=["p", "q"])
    monkeypatch.setattr(free_space, "free_bytes", lambda folder: free_space.RESERVE_BYTES + 10)
    with pytest.raises(StoreError, match=r"^gold/x: expected 67\.\d MB free in .*, found 67\.1 MB; free some .*gc"):
        commit(store, "gold/x", "b", shared=["r"])
    assert commit(store, "gold/x", "a", shared=["p", "q"]) == made, "nothing is to be written, so nothing is needed"
    assert commit(store, "gold/y", "a"), "nobody knows how much a first version takes"
