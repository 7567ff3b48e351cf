"""Aliases: a version that people name, which no build moves, with its history in the same file."""

from __future__ import annotations

import json

import pytest

from pipelines.store import PartSpec, Store, StoreError
from pipelines.store.aliases import alias_history, aliased
from pipelines.store.choose_version import asset_folder, named_version, promote, roll_back, versions
from pipelines.store.collect_garbage import collect
from pipelines.store.manifest import Check, Manifest

ASSET = "checkpoints/unified"


def commit(store: Store, content: str, passed: bool = True) -> Manifest:
    spec = PartSpec("one", content)
    with store.build(ASSET, code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("model/config.json", content.encode()))
        return build.commit(checks=[Check("there", passed, "1", "1")])


def test_an_alias_stays_where_it_was_put_and_goes_back_by_its_own_history(store: Store) -> None:
    a, b = commit(store, "a").version, commit(store, "b").version
    promote(store, ASSET, a, alias="production", why="it won")
    assert store.require(ASSET).version == b, "what is current stays"
    c = commit(store, "c").version
    assert named_version(store, f"{ASSET}@production").version == a and store.require(ASSET).version == c
    promote(store, ASSET, alias="candidate")
    promote(store, ASSET, c[:6], alias="production")
    assert aliased(store.root(ASSET)) == {"candidate": c, "production": c}
    assert roll_back(store, ASSET, alias="production", why="slow").version == a
    told = [(change.action, change.version, change.why) for change in alias_history(store.root(ASSET), "production")]
    assert told == [("promoted", a, "it won"), ("promoted", c, ""), ("rolled back", a, "slow")]
    assert [one.aliases for one in versions(store, ASSET) if one.manifest.version == c] == [("candidate",)]
    assert (asset_folder(store, f"{ASSET}@production") / "model/config.json").read_text() == "a"
    with pytest.raises(StoreError, match="no earlier version"):
        roll_back(store, ASSET, alias="production")


def test_what_an_alias_names_is_never_collected(store: Store) -> None:
    a = commit(store, "a")
    promote(store, ASSET, alias="production")
    for content in "bcd":
        commit(store, content)
    dropped = collect(store, 1, min_age_s=-1).assets[0].dropped
    assert len(dropped) == 2 and a.version not in dropped and a.file("config.json").read_text() == "a"


def test_a_slip_of_the_pen_an_unset_alias_and_failed_checks_are_refused(store: Store) -> None:
    commit(store, "a", passed=False)
    with pytest.raises(StoreError, match="expected candidate or production, found 'prodution'"):
        promote(store, ASSET, alias="prodution")
    with pytest.raises(StoreError, match="nobody has set this alias"):
        named_version(store, f"{ASSET}@candidate")
    with pytest.raises(StoreError, match="names no version yet"):
        roll_back(store, ASSET, alias="candidate") if commit(store, "b") else None
    with pytest.raises(StoreError, match="blocking checks failed"):
        promote(store, ASSET, versions(store, ASSET)[1].manifest.version, alias="candidate")
    assert aliased(store.root(ASSET)) == {}


def test_a_damaged_alias_is_named_and_nothing_else_stops(store: Store) -> None:
    commit(store, "a")
    promote(store, ASSET, alias="candidate")
    path = store.root(ASSET) / "alias-candidate.json"
    assert json.loads(path.read_text())["version"] == store.require(ASSET).version
    path.write_text("{")
    with pytest.raises(StoreError, match=r"alias-candidate\.json: expected an alias with its changes"):
        named_version(store, f"{ASSET}@candidate")
    assert store.require(ASSET)
