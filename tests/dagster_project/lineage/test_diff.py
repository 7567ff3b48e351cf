"""What entered and left, and why: a corpus made twice by the real stages, with known changes in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import goldmaker
import pyarrow as pa
import pytest
from corpusmaker import (
    SOURCES,
    build_all,
    build_checkpoints,
    build_corpus,
    build_source,
    commit,
    light_source,
    write_raw,
)

from dagster_project.cli import main
from dagster_project.lineage.diff import Diff, compare
from dagster_project.lineage.manifests import Manifests
from pipelines.derivers.derive import derive_samples
from pipelines.store import Store
from quality.refinement.gold import Rejects
from schemas.tables import Samples, Steps

OLD_ASSETS = (
    "raw/screenqa",
    "unified/screenqa",
    "unified/aitz",
    "gold/aitz",
    "gold/screenqa",
    "mid_training/shards",
    "mid_training/mixture",
    "checkpoints/unified",
)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, str], dict[str, Any]]:
    """(store, old versions, what was done): ScreenQA got two questions more, of the old ones the first is a duplicate
    now and the second isn't safe; AITZ has an action that it can't map now, in the first of two equal files: the second
    is no repeat any more, and enters."""
    folder = tmp_path_factory.mktemp("changed")
    raw = folder / "raw"
    store = build_all(folder / "home", raw)
    old = {asset: store.require(asset).version for asset in OLD_ASSETS}
    first, second, _ = (s["sample_id"] for s in _samples(store, "screenqa"))
    gold = store.require("gold/aitz").read("samples").to_pylist()
    step = next(parent for s in gold for parent in s["parents"])
    _, _, rest = step.partition("/")
    episode, _, index = rest.rpartition("/")
    [file] = list((raw / "aitz/raw/train").rglob(f"GENERAL-{episode}.json"))
    rows = json.loads(file.read_text())
    rows[int(index)] |= {"result_action_type": 1}
    write_raw_again(raw, file, rows)
    for source in SOURCES:
        build_source(store, raw, source)
    build_corpus(store, displaced={first: f"sample:{second}x"}, unsafe=[f"sample:{second}"])
    build_checkpoints(store)
    return store, old, {"duplicate": first, "unsafe": second, "quarantined": step, "samples": gold}


def write_raw_again(raw: Path, file: Path, rows: Any) -> None:
    """ScreenQA with five questions, and one AITZ episode as given."""
    write_raw(raw, questions=5)
    file.write_text(json.dumps(rows))


def _samples(store: Store, source: str) -> list[dict[str, Any]]:
    return list(store.require(f"gold/{source}").read("samples").to_pylist())


def diff(store: Store, old: dict[str, str], asset: str) -> Diff:
    return compare(Manifests(store), f"{asset}@{old[asset]}", asset)


def reasons(found: Diff, direction: str) -> dict[str, str]:
    return {change.id: change.reason for change in found.changes if change.direction == direction}


def test_every_sample_of_the_shards_that_left_or_entered_has_its_reason(changed: Any) -> None:
    store, old, done = changed
    found = diff(store, old, "mid_training/shards")
    before = _ids(store, "mid_training/shards", old["mid_training/shards"])
    after = _ids(store, "mid_training/shards")
    left, entered = reasons(found, "left"), reasons(found, "entered")
    assert set(left) == before - after and set(entered) == after - before and left and entered
    assert left[done["unsafe"]] == "unsafe"
    lost = [s["sample_id"] for s in done["samples"] if s["parents"] == [done["quarantined"]]]
    assert lost and all(left[name] == "quarantined" for name in lost)
    assert any("unknown_action" in c.detail for c in found.changes if c.id in lost)
    sources = {change.id: change.source for change in found.changes}
    assert {entered[name] for name in entered if sources[name] == "screenqa"} == {"new native row"}
    assert "was quarantined" in {entered[name] for name in entered if sources[name] == "aitz"}
    assert done["duplicate"] not in left, "a duplicate stays packed; the mixture leaves it out"
    assert found.inputs["raw/screenqa"][0] != found.inputs["raw/screenqa"][1]


def _ids(store: Store, asset: str, version: str | None = None) -> set[str]:
    manifest = store.version(asset, version) if version else store.require(asset)
    return set(manifest.read("index")["sample_id"].to_pylist())


def test_the_mixture_and_two_checkpoints_say_duplicate(changed: Any) -> None:
    store, old, done = changed
    found = diff(store, old, "mid_training/mixture")
    left = {change.id: change for change in found.changes if change.direction == "left"}
    if done["duplicate"] in left:  # the old mixture had drawn it
        assert left[done["duplicate"]].reason == "duplicate" and "similarity 0.970" in left[done["duplicate"]].detail
    assert diff(store, old, "checkpoints/unified").changes == found.changes
    assert {c.reason for c in found.changes} <= {
        "duplicate",
        "unsafe",
        "quarantined",
        "not drawn",
        "wasn't drawn",
        "new native row",
        "other repeats",
        "was quarantined",
        "was judged",
    }


def test_gold_unified_and_raw_name_rows_and_files(changed: Any) -> None:
    store, old, done = changed
    unified = diff(store, old, "unified/aitz")
    assert reasons(unified, "left") == {done["quarantined"]: "quarantined"}
    assert set(reasons(unified, "entered").values()) == {"was quarantined"}
    [renumbered] = [change for change in unified.changes if change.direction == "changed"]
    assert renumbered.id == done["quarantined"], "the action after it took its number"
    assert renumbered.reason == "another number" and renumbered.detail.startswith("was step:aitz/")
    gold = reasons(diff(store, old, "gold/aitz"), "left")
    assert gold[done["quarantined"]] == "quarantined"
    rows = diff(store, old, "unified/screenqa")
    assert set(reasons(rows, "entered").values()) == {"new native row"} and not reasons(rows, "left")
    files = diff(store, old, "raw/screenqa")
    assert [(c.id, c.direction) for c in files.changes] == [("train.json", "changed")]


def test_a_withdrawn_source_and_a_new_one(store: Store, tmp_path: Path) -> None:
    for seed, name in enumerate(("alpha", "beta"), start=1):
        light_source(store, tmp_path, name, seed)
    build_corpus(store, ["alpha"])
    old = {"mid_training/shards": store.require("mid_training/shards").version}
    build_corpus(store, ["beta"])
    found = diff(store, old, "mid_training/shards")
    assert {(c.source, c.direction, c.reason) for c in found.changes} == {
        ("alpha", "left", "source withdrawn"),
        ("beta", "entered", "new source"),
    }
    same = compare(Manifests(store), "mid_training/shards", "mid_training/shards")
    assert not same.changes and not same.inputs and same.shared_files == 1


def test_another_split_is_no_held_out_picture(store: Store) -> None:
    """An episode that was of the train split is of the test split now, and the other way round."""
    steps, screens = goldmaker.episodes(store, "alpha", 5, seed=1)
    made: list[dict[str, str]] = []
    for split in ("train", "test"):
        rows = [{**row, "split": split} if row["episode_id"] == "e0000" else row for row in steps.to_pylist()]
        told = Steps.table(rows)
        unified = commit(store, "unified/alpha", {}, {"steps": told, "screens": screens})
        samples = derive_samples(told, screens, licence="MIT")
        commit(store, "gold/alpha", {unified.asset: unified.version}, {"steps": told, "samples": samples})
        build_corpus(store, ["alpha"])
        made.append({asset: store.require(asset).version for asset in ("mid_training/shards", "mid_training/mixture")})
    for asset in made[0]:
        one, other = (f"{asset}@{versions[asset]}" for versions in made)
        went = {change.reason for change in compare(Manifests(store), one, other).changes if change.direction == "left"}
        came = compare(Manifests(store), other, one).changes
        assert "another split" in went and "shows a held-out picture" not in went
        said = {change.reason for change in came if change.direction == "entered"}
        assert "was in another split" in said and "showed a held-out picture" not in said


def test_a_sample_derived_otherwise_from_a_native_one_that_is_gold_still(store: Store) -> None:
    steps, screens = goldmaker.episodes(store, "alpha", 2, seed=5)
    native = next(
        {**row, "sample_id": "a" * 32, "parents": []}
        for row in derive_samples(steps, screens, licence="MIT").to_pylist()
        if row["objective"] == "grounding"
    )
    samples = Samples.table([native])
    derived = derive_samples(steps.slice(0, 0), screens, licence="MIT", samples=samples)
    unified = commit(store, "unified/alpha", {}, {"samples": samples, "screens": screens})
    one, other = (
        commit(store, "gold/alpha", {unified.asset: unified.version}, {"samples": pa.concat_tables([samples, some])})
        for some in (derived, derived.slice(3))
    )
    found = compare(Manifests(store), f"gold/alpha@{one.version}", f"gold/alpha@{other.version}")
    assert [(c.direction, c.reason, c.detail) for c in found.changes] == [
        ("left", "derived otherwise", f"sample:{'a' * 32}")
    ] * 3


def test_what_was_judged_carries_the_rule(store: Store, tmp_path: Path) -> None:
    """A gold version that rejects what the one before kept."""
    light_source(store, tmp_path, "alpha", 1)
    gold = store.require("gold/alpha")
    steps, samples = gold.read("steps"), gold.read("samples")
    name = f"step:alpha/{steps['episode_id'][0]}/{steps['step_index'][0]}"
    kept = [name not in parents for parents in samples["parents"].to_pylist()]
    reject = {"item_id": f"{name}@r1", "reason": "unrepaired: off_target: 3 px beside it", "score": 3, "row": "{}"}
    tables = {"steps": steps.slice(1), "samples": samples.filter(pa.array(kept)), "rejects": Rejects.table([reject])}
    commit(store, "gold/alpha", gold.inputs, tables)
    found = diff(store, {"gold/alpha": gold.version}, "gold/alpha")
    assert {c.reason for c in found.changes} == {"judged"} and len(found.changes) == 1 + kept.count(False)
    assert {(g["words"], g["direction"]) for g in found.groups()} == {("unrepaired: off_target", "left")}


def test_the_command(changed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, old, done = changed
    asset = "mid_training/shards"
    arguments = ["diff", f"{asset}@{old[asset][:6]}", asset, "--home", str(store.home)]
    assert main([*arguments, "--items", str(tmp_path / "items.ndjson")]) == 0
    text = capsys.readouterr().out
    assert "unsafe" in text and "new native row" in text and "quarantined: unknown_action" in text
    items = [json.loads(line) for line in (tmp_path / "items.ndjson").read_text().splitlines()]
    assert done["unsafe"] in {item["id"] for item in items}
    assert main([*arguments, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["left"] + plain["entered"] + plain["changed"] == len(items)
    for wrong, said in (
        (["unified", "gold/aitz"], "expected two versions of one asset"),
        (["nope", "gold/aitz"], "found none"),
        (["hygiene/safety", "hygiene/safety"], "its rows are no corpus"),
        ([f"{asset}@zzz", asset], "no version that begin"),
    ):
        assert main(["diff", *wrong, "--home", str(store.home)]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
