"""Which version is current: chosen by people, kept in a journal, whole at any moment and under many hands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.store import Check, PartSpec, Store, StoreError
from pipelines.store.choose_version import promote, roll_back, versions
from pipelines.store.current_version import VersionChange, read_history, read_pointer, set_aside
from pipelines.store.manifest import Manifest

ASSET = "unified/x"


def commit(store: Store, content: str, *, passed: bool = True) -> Manifest:
    """A version of the asset with one file."""
    spec = PartSpec("one", content)
    with store.build(ASSET, code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt" if content == "a" else f"{content}.txt", content.encode()))
        return build.commit(checks=[Check("there", passed, "1", "1")])


def current(store: Store) -> str:
    manifest = store.current(ASSET)
    assert manifest is not None
    return manifest.version


def told(store: Store) -> list[tuple[str, str]]:
    return [(change.action, change.version) for change in read_history(store.root(ASSET))]


def test_a_rollback_goes_back_one_version_and_a_rerun_doesn_t_undo_it(store: Store) -> None:
    a, b, c = (commit(store, name).version for name in "abc")
    assert current(store) == c
    assert roll_back(store, ASSET, why="c is bad").before == c and current(store) == b
    commit(store, "c")  # the next night, from equal inputs
    assert current(store) == b
    assert roll_back(store, ASSET).version == a and current(store) == a
    assert promote(store, ASSET, c[:6]).version == c and current(store) == c
    commit(store, "a")  # set aside by that promotion
    assert current(store) == c
    d = commit(store, "d").version  # other inputs
    assert current(store) == d
    assert told(store) == [
        ("built", a),
        ("built", b),
        ("built", c),
        ("rolled back", b),
        ("rolled back", a),
        ("promoted", c),
        ("built", d),
    ]
    [first, *_] = [change for change in read_history(store.root(ASSET)) if change.action == "rolled back"]
    assert (first.why, first.before) == ("c is bad", c) and first.when.endswith("+00:00")


def test_a_rollback_takes_back_a_promotion_and_what_it_went_past_is_not_gone_to(store: Store) -> None:
    a, b, c = (commit(store, name).version for name in "abc")
    failed = commit(store, "d", passed=False).version
    promote(store, ASSET, failed, why="to see", force=True)
    assert roll_back(store, ASSET).version == c, "what the promotion replaced, though that set it aside"
    promote(store, ASSET, a)
    assert roll_back(store, ASSET).version == c, "the first version too"
    roll_back(store, ASSET, b)
    assert roll_back(store, ASSET).version == a, "not forward to c, which the last one went past"
    with pytest.raises(StoreError, match="no earlier version"):
        roll_back(store, ASSET)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), max_size=10))
def test_rolling_back_again_and_again_goes_the_whole_way_back(turns: list[tuple[bool, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        made: dict[str, str] = {}
        way: list[str] = []
        for build, name in turns:
            if build or name not in made:
                made[name] = commit(store, name).version
            else:
                promote(store, ASSET, made[name])
            if not way or way[-1] != current(store):
                way.append(current(store))
        assert [roll_back(store, ASSET).version for _ in way[1:]] == way[-2::-1]


def test_failed_checks_are_refused_unless_forced_with_a_reason(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ann")
    good, bad = commit(store, "a"), commit(store, "b", passed=False)
    with pytest.raises(StoreError, match="blocking checks failed: there"):
        promote(store, ASSET, bad.version)
    with pytest.raises(StoreError, match="needs a reason"):
        promote(store, ASSET, bad.version, force=True, why="  ")
    assert store.require(ASSET).version == good.version
    made = promote(store, ASSET, bad.version, force=True, why="the check is wrong")
    assert (made.who, made.why, made.forced) == ("ann", "the check is wrong", True)
    assert store.require(ASSET).version == bad.version, "others read what was forced"
    commit(store, "b", passed=False)
    assert store.require(ASSET).version == bad.version


def test_what_isn_t_whole_or_isn_t_there_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="nothing committed yet"):
        promote(store, ASSET)
    a = commit(store, "a")
    with pytest.raises(StoreError, match="no earlier version"):
        roll_back(store, ASSET)
    with pytest.raises(StoreError, match="expected one of: .* \\(current\\)"):
        promote(store, ASSET, "../../etc")
    b = commit(store, "b")
    a.file("a.txt").unlink()
    with pytest.raises(StoreError, match=r"a\.txt is missing"):
        roll_back(store, ASSET)
    assert current(store) == b.version
    assert [(one.manifest.version, one.current) for one in versions(store, ASSET)][0] == (b.version, True)


KILLED = """
import sys, time
from pipelines.store import choose_version, current_version
from pipelines.store import Store
home, version, place = sys.argv[1:]
def halt(*_):
    print("here", flush=True); time.sleep(600)
put, append = choose_version.put_text, current_version._append
if place == "before the pointer":
    choose_version.put_text = halt
elif place == "after the pointer":
    choose_version.put_text = lambda path, text: (put(path, text), halt())
else:
    def half(root, history, change):
        with (root / current_version.JOURNAL).open("a") as stream:
            stream.write(change.line()[:40])
        halt()
    current_version._append = half
choose_version.promote(Store(home), "unified/x", version, why="at night")
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before the pointer", "after the pointer", "half a line of the journal"])
def test_kill_9_leaves_the_old_or_the_new_and_a_whole_journal(store: Store, place: str) -> None:
    a, b = commit(store, "a").version, commit(store, "b").version
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(store.home), a, place], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    done = place != "before the pointer"
    assert current(store) == (a if done else b)
    read_history(store.root(ASSET))  # readable in between
    c = commit(store, "c").version  # whoever comes next writes what is missing
    promoted = [("promoted", a)] if done else []
    assert told(store) == [("built", a), ("built", b), *promoted, ("built", c)]
    assert (store.root(ASSET) / "promotions.jsonl").read_text().endswith("}\n")


@pytest.mark.slow
def test_many_processes_at_once_lose_no_change(store: Store) -> None:
    names = [commit(store, name).version for name in "abc"]
    code = (
        "import sys; from pipelines.store.choose_version import promote; from pipelines.store import Store\n"
        "for turn in range(8): promote(Store(sys.argv[1]), 'unified/x', sys.argv[2], why=f'{sys.argv[2]} {turn}')"
    )

    def run(name: str) -> int:
        return subprocess.run([sys.executable, "-c", code, str(store.home), name], check=True).returncode

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, names)) == [0, 0, 0]
    history = read_history(store.root(ASSET))
    assert {one.why for one in history[3:]} == {f"{name} {turn}" for name in names for turn in range(8)}
    assert all(after.before == one.version for one, after in zip(history, history[1:], strict=False))
    assert history[-1].version == current(store)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["build", "promote", "back"]), st.sampled_from("abcd")), max_size=12))
def test_the_pointer_follows_the_last_change_and_builds_never_undo_people(turns: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        made: dict[str, str] = {}
        aside: set[str] = set()
        here: str | None = None
        for kind, name in turns:
            if kind == "build":
                made[name] = commit(store, name).version
                here = here if made[name] in aside else made[name]
            elif name in made:
                if kind == "back" and made[name] == here:
                    with pytest.raises(StoreError, match="current already"):
                        roll_back(store, ASSET, made[name])
                    continue
                (promote if kind == "promote" else roll_back)(store, ASSET, made[name])
                aside = (aside | {str(here)} if here != made[name] else aside) - {made[name]}
                here = made[name]
            history = read_history(store.root(ASSET)) if made else []
            assert set_aside(history) == aside
            assert read_pointer(store.root(ASSET)).get("version") == here
            assert not history or history[-1].version == here


def test_a_store_without_a_journal_gets_one(store: Store) -> None:
    a = commit(store, "a")
    os.remove(a.root / "promotions.jsonl")
    b = commit(store, "b")
    assert told(store) == [("built", a.version), ("built", b.version)]
    os.remove(a.root / "promotions.jsonl")
    promote(store, ASSET, a.version)
    assert told(store) == [("built", b.version), ("promoted", a.version)]
    line = json.loads((a.root / "promotions.jsonl").read_text().splitlines()[-1])
    assert VersionChange(**line).before == b.version
