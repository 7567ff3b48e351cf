"""What contamination removed is read as data, by all who pack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from goldmaker import gold

from pipelines.store import Check, PartSpec, Store
from pipelines.training_data.removed import CONTAMINATION, SAFETY, Removed, removed_items
from pipelines.training_data.shards import build_shards


def remove(store: Store, names: Sequence[str], *, passed: bool = True, asset: str = CONTAMINATION) -> None:
    """A version of `hygiene/contamination` (or `safety`) that lists these items."""
    spec = PartSpec("all", "/".join(names) or "none")
    with store.build(asset, code_version="test", parts=[spec]) as build:
        table = pa.table({"item_id": pa.array(list(names), pa.string())})
        build.run_part(spec, lambda out: out.table("quarantine", table))
        build.commit(checks=[Check("made", passed, "", "")])


def test_items_by_kind_and_nothing_without_a_good_version(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert removed_items(store) == Removed() and removed_items(store).inputs == {}
    remove(store, ["sample:a"], passed=False)
    assert removed_items(store) == Removed()
    remove(store, ["sample:a", "step:x/e/0", "episode:x/e", "sample:b"])
    found = removed_items(store)
    assert (found.samples, found.steps, found.episodes) == ({"a", "b"}, {"step:x/e/0"}, {"episode:x/e"})
    assert list(found.inputs) == [CONTAMINATION]


def test_removed_samples_are_left_out_of_training_shards_only_and_counted(tmp_path: Path) -> None:
    store = gold(tmp_path)
    rows = store.require("gold/toy").read("samples").to_pylist()
    train = [row["sample_id"] for row in rows if row["split"] == "train"]
    test = [row["sample_id"] for row in rows if row["split"] == "test"]
    remove(store, [f"sample:{name}" for name in (*train[:3], *test[:2], "f" * 32)])
    manifest = build_shards(store, ["toy"])
    assert manifest.checks_passed and manifest.counts["contaminated"] == 3
    assert set(manifest.read("index")["sample_id"].to_pylist()) == set(train[3:])
    held = build_shards(store, ["toy"], "evaluations/heldout", ("test",))
    assert held.counts["contaminated"] == 0 and held.rows("index") == len(test)


def test_a_change_of_one_part_s_hits_redoes_that_part_alone(tmp_path: Path) -> None:
    store = gold(tmp_path, parts=4)
    whole = build_shards(store, ["toy"])
    first = whole.read("index").to_pylist()[0]
    remove(store, [f"sample:{first['sample_id']}"])
    after = build_shards(store, ["toy"])
    changed = {e.path for e in after.files} - {e.path for e in whole.files}
    key = first["shard"].rpartition("-")[0]
    assert len(changed) == 2 and all(key in path for path in changed)
    remove(store, [])
    assert build_shards(store, ["toy"]).data_version == whole.data_version


def test_what_isn_t_safe_takes_what_was_derived_from_it_along(tmp_path: Path) -> None:
    store = gold(tmp_path)
    rows = store.require("gold/toy").read("samples").to_pylist()
    row = next(row for row in rows if row["split"] == "train" and row["parents"])
    parent = row["parents"][0].partition("@")[0]
    siblings = {
        r["sample_id"]
        for r in rows
        if r["split"] == "train" and parent in {name.partition("@")[0] for name in r["parents"]}
    }
    remove(store, [parent], asset=SAFETY)
    manifest = build_shards(store, ["toy"])
    assert manifest.counts["unsafe"] == len(siblings) > 0 and SAFETY in manifest.inputs
    assert not siblings & set(manifest.read("index")["sample_id"].to_pylist())


def test_a_parent_s_version_doesn_t_hide_it() -> None:
    removed = Removed(samples=frozenset({"a"}), steps=frozenset({"step:x/e/0"}), episodes=frozenset({"episode:x/f"}))
    assert removed.holds("a", ()) and removed.holds("z", ["sample:a@r1"]) and removed.holds("z", ["step:x/e/0@r2"])
    assert removed.holds("z", ["episode:x/f"]) and not removed.holds("z", ["step:x/e/1", "sample:b"])
