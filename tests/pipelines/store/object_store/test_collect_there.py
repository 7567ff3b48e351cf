"""`vesper gc` on a store behind a URL: what others read stays on all machines, the rest goes there and here."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from s3_server import S3Server
from shared_store import commit, objects_of, picture

from pipelines.store import Store
from pipelines.store.collect_garbage import collect, survey
from pipelines.store.files import StoreError
from pipelines.store.object_store import leases
from pipelines.store.object_store.binding import copies_at
from pipelines.store.object_store.leases import lease
from pipelines.store.parts import put_text

pytestmark = pytest.mark.slow

Machines = Callable[[str], Store]
ALL_OLD = -5.0
"""A safety age for which all is old: nobody can make an object older than it is."""


def test_what_nobody_needs_goes_there_and_here(url: str, machines: Machines) -> None:
    first = machines(url)
    unneeded = first.put_screen(picture(7)).sha256
    unified = [commit(first, content=c) for c in ("a", "b", "c")]
    gold = commit(first, "gold/x", "g", {"unified/x": unified[1].version})
    pinned = {"digest": "d1", "inputs": {"unified/x": unified[0].version}}
    put_text(first.home / "feedback" / "failures" / "d1" / "manifest.json", json.dumps(pinned))
    put_text(first.home / "feedback" / "failures" / "current.json", json.dumps({"digest": "d1"}))
    loose = commit(first, "loose/x", "l")
    commit(first, "loose/x", "m")

    second = machines(url)
    before = objects_of(second)
    plan = survey(second, 1, min_age_s=ALL_OLD)
    assert objects_of(second) == before, "a listing changes nothing"
    assert [asset.dropped for asset in plan.assets if asset.dropped] == [[loose.version]]
    collect(second, 1, min_age_s=ALL_OLD)
    left = objects_of(second)
    assert not [name for name in left if loose.version in name] and "collect.json" not in left
    assert before - left == {name for name in before if f"loose/x/{loose.version}/" in name} | {
        f"assets/loose/x/parts/{path.stem}{suffix}"
        for path in (first.home / "assets/loose/x/parts").glob("*.json")
        if loose.version in path.read_text()
        for suffix in (".json", ".screens")
    }
    third = machines(url)
    for made in (*unified, gold):
        assert third.version(made.asset, made.version).read("steps").num_rows == 150, "pinned, current, or made of"
    assert third.screen_bytes(made.read("steps")["screenshot_sha256"][0].as_py()) == picture(0)
    with pytest.raises(StoreError, match="no manifest of version"):
        first.version("loose/x", loose.version)
    collect(first, 1, min_age_s=ALL_OLD)
    assert not list(first.home.rglob(f"{unneeded}.*")) and not (first.root("loose/x") / loose.version).exists()


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_pictures_that_no_part_names_go_and_are_put_again(url: str, machines: Machines) -> None:
    first = machines(url)
    commit(first, "loose/x", "l", pictures=range(3, 6))
    commit(first, "loose/x", "m")
    second = machines(url)
    plan = collect(second, 1, min_age_s=ALL_OLD)
    assert len(plan.screens) == 3 and plan.screens_kept == 3
    assert len([name for name in objects_of(second) if name.startswith("screens/")]) == 3
    again = commit(second, "loose/x", "l", pictures=range(3, 6))
    assert machines(url).screen_bytes(again.read("steps")["screenshot_sha256"][0].as_py()) == picture(3)


def test_nothing_goes_while_another_machine_builds_and_a_build_waits_for_gc(
    s3_url: str, server: S3Server, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machines(s3_url), machines(s3_url)
    old = commit(first)
    commit(first, content="b")
    with first.build("unified/x", code_version="9"):
        plan = collect(second, 1, min_age_s=ALL_OLD)
        assert "being built by process" in plan.assets[0].held and not plan.files and plan.screens_held
    copies = copies_at(second.home)
    assert copies is not None
    monkeypatch.setattr(leases, "WAIT_S", 0.2)
    monkeypatch.setattr(leases, "_LOOK_S", 0.1)
    with lease(copies.objects, leases.COLLECT, {}, "gc"):
        with pytest.raises(StoreError, match="unified/x: `vesper gc` by process .* still deletes"):
            commit(first, content="c")
        with pytest.raises(StoreError, match="what nobody needs: locked by"):
            collect(second, 1)
    assert first.version("unified/x", old.version) == old
