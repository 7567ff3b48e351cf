"""An item's whole way, over a corpus that the real stages made of native files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from corpusmaker import build_all, build_checkpoints, build_corpus, commit, light_source

from dagster_project.cli import main
from dagster_project.lineage.explain import explain
from dagster_project.lineage.manifests import Manifests
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.shards import build_shards
from quality.duplicates.dedup import DISPLACED
from schemas.tables import Samples, Trajectories
from trainer.worth import tables as worth


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """AITZ and ScreenQA from native files to checkpoints; one sample is a duplicate, one isn't safe."""
    folder = tmp_path_factory.mktemp("corpus")
    store = build_all(folder / "home", folder / "home" / "raw")
    samples = store.require("gold/screenqa").read("samples").to_pylist()
    build_corpus(
        store,
        displaced={samples[0]["sample_id"]: "sample:other"},
        unsafe=[f"sample:{samples[1]['sample_id']}"],
        contaminated=[f"sample:{samples[2]['sample_id']}"],
    )
    build_checkpoints(store)
    run = {
        "trajectory_id": "t-0",
        "task_id": "t",
        "policy": "scripted",
        "seed": 0,
        "ended": "finished",
        "turns": 2,
        "answer": "",
        "outcome": "failed",
        "verified": False,
        "reason": "world: not met",
        "failure_kind": "task",
        "votes": '[["world", "failed", 1.0, "not met"]]',
        "end_state": "{}",
    }
    commit(store, "generation/verified/round_001", {}, {"trajectories": Trajectories.table([run])})
    commit(store, worth.SOURCES, {}, {"worth": worth.Worth.table([of(worth.LEFT_OUT, "aitz", 1.25, -0.5, 3.0)])})
    deriver = json.loads(next(s for s in samples_of(store, "aitz") if s["parents"])["provenance"])["deriver"]
    rules = [of(worth.RULE, "refined", 9.0), of(worth.DERIVER, "another", 9.0), of(worth.DERIVER, deriver, -2.0)]
    commit(store, worth.RULES, {}, {"worth": worth.Worth.table(rules)})
    return store


def of(kind: str, subject: str, points: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """A row of the table `worth`."""
    empty = dict.fromkeys(worth.Worth.schema.names, 0)
    words = {"treatment": "with", "control": "without", "says": "says nothing", "loss_says": "says nothing"}
    return {**empty, **words, "kind": kind, "subject": subject, "points": points, "low": low, "high": high}


def told(store: Store, item: str, native: bool = False) -> dict[str, Any]:
    return explain(Manifests(store), item, native)


def samples_of(store: Store, source: str) -> list[dict[str, Any]]:
    return list(store.require(f"gold/{source}").read("samples").to_pylist())


def test_a_derived_sample_from_native_row_to_checkpoints(corpus: Store) -> None:
    index = corpus.require("mid_training/shards").read("index").to_pylist()
    sample = next(s for s in samples_of(corpus, "aitz") if s["parents"])
    answer = told(corpus, sample["sample_id"])
    assert answer["item"] == f"sample:{sample['sample_id']}" and answer["gold"]["fate"] == "gold"
    [native] = answer["native"]
    raw = json.loads(corpus.require("raw/aitz").file("files.json").read_text())
    assert native["sha256"] == next(e["sha256"] for e in raw if e["path"] == native["file"])
    assert (native["revision"], native["licence"]) == ("0123456789abcdef", "Apache-2.0")
    parents = {v["item_id"] for v in answer["verdicts"]}
    assert sample["parents"][0] in parents and any(name.startswith("episode:aitz/") for name in parents)
    assert all(v["judge"] == "rules" and v["rubric_version"].startswith("rules-") for v in answer["verdicts"])
    [shard] = answer["shards"]
    [row] = [r for r in index if r["sample_id"] == sample["sample_id"]]
    assert (shard["row"], shard["shard"].rpartition("/")[2]) == (row["row"], row["shard"])
    assert (corpus.home / "assets" / shard["shard"]).is_file()
    assert {t["asset"] for t in answer["checkpoints"]} == {"checkpoints/mid_trained", "checkpoints/unified"}
    kind = answer["fates"][sample["sample_id"]]["kind"]
    assert kind == ("trained" if shard["repeats"] else "not_drawn")
    assert [(row["asset"], row["points"]) for row in answer["worth"]] == [(worth.SOURCES, 1.25), (worth.RULES, -2.0)]
    [of_its_source] = told(corpus, sample["parents"][0])["worth"]
    assert (of_its_source["low"], of_its_source["version"]) == (-0.5, corpus.require(worth.SOURCES).version)


def test_why_a_sample_does_not_train(corpus: Store) -> None:
    duplicate, unsafe, contaminated = (s["sample_id"] for s in samples_of(corpus, "screenqa"))
    answer = told(corpus, duplicate)
    assert answer["hygiene"]["duplicate_of"][0]["kept"] == "sample:other"
    assert answer["fates"][duplicate]["kind"] == "duplicate" and answer["shards"][0]["repeats"] == 0
    answer = told(corpus, contaminated)
    assert answer["fates"][contaminated]["kind"] == "contaminated"
    assert answer["fates"][contaminated]["detail"] == "same picture aitz_test sha256"
    assert answer["hygiene"]["contamination"][0]["suite_item"] == "q1"
    answer = told(corpus, f"sample:{unsafe}")
    assert answer["fates"][unsafe] == {"kind": "unsafe", "meaning": "unsafe", "detail": "personal_data: phone"}
    assert answer["shards"] == []
    assert answer["checkpoints"] and not any(t["current"] for t in answer["checkpoints"]), "an older one had packed it"


def test_a_rejected_step_tells_which_rule_and_its_episode(corpus: Store) -> None:
    [reject, *_] = corpus.require("gold/aitz").read("rejects").to_pylist()
    answer = told(corpus, reject["item_id"])
    assert answer["kind"] == "step" and answer["gold"]["fate"] == "rejected"
    assert answer["gold"]["rejects"][0]["reason"] == reject["reason"]
    assert answer["row"][0]["native_action"] and answer["shards"] == []
    episode = told(corpus, reject["item_id"].removeprefix("step:").rpartition("/")[0].removeprefix("aitz/"))
    assert episode["kind"] == "episode" and episode["row"]
    assert reject["item_id"] in {row["item_id"] for row in episode["gold"]["rejects"]}


def test_an_episode_tells_which_of_its_steps_were_rejected(corpus: Store) -> None:
    gold = corpus.require("gold/aitz")
    kept = {f"aitz/{row['episode_id']}" for row in gold.read("steps").to_pylist()}
    rejected: dict[str, set[str]] = {}
    for row in gold.read("rejects").to_pylist():
        rejected.setdefault(row["item_id"].removeprefix("step:").rpartition("/")[0], set()).add(row["item_id"])
    [(name, steps)] = [(name, steps) for name, steps in rejected.items() if name in kept]
    answer = told(corpus, f"episode:{name}")["gold"]
    assert answer["fate"] == f"gold, {len(steps)} steps rejected"
    assert {row["item_id"] for row in answer["rejects"]} == steps


def fate(store: Store, sample: str) -> str:
    return str(told(store, sample)["fates"][sample]["kind"])


def test_what_no_shards_were_made_of_yet_is_not_packed(store: Store, tmp_path: Path) -> None:
    light_source(store, tmp_path, "alpha", 1)
    gold = store.require("gold/alpha")
    rows = gold.read("samples").to_pylist()
    train = [row for row in rows if row["split"] == "train"]
    held = next(row for row in train if sum(row["images"] == other["images"] for other in train) > 1)
    beside = next(row for row in train if row["images"] == held["images"] and row is not held)
    unsafe = next(row for row in train if row["images"] != held["images"])["sample_id"]
    tables = {
        "steps": gold.read("steps"),
        "samples": Samples.table({**row, "split": "test"} if row is held else row for row in rows),
    }
    commit(store, "gold/alpha", gold.inputs, tables)
    build_corpus(store, ["alpha"], unsafe=[f"sample:{unsafe}"])
    assert fate(store, beside["sample_id"]) == "held_out_picture" and fate(store, unsafe) == "unsafe"
    light_source(store, tmp_path, "beta", 2)
    new = next(row for row in store.require("gold/beta").read("samples").to_pylist() if row["split"] == "train")
    assert fate(store, new["sample_id"]) == "not_packed"
    safety = store.require("hygiene/safety")
    commit(store, "hygiene/safety", safety.inputs, {"quarantine": safety.read("quarantine").slice(1)})
    assert fate(store, unsafe) == "not_packed", "what barred it is gone, and shards wait to be built again"
    build_shards(store, ["alpha", "beta"])
    assert fate(store, new["sample_id"]) == "no_mixture", "that of the older shards knows nothing of it"
    build_mixture(store)
    assert fate(store, new["sample_id"]) in ("trained", "not_drawn")


def test_only_navigation_goes_with_a_displaced_episode(store: Store, tmp_path: Path) -> None:
    """What the mixture's rates leave out of the episode's other samples is no duplicate."""
    light_source(store, tmp_path, "alpha", 1)
    build_corpus(store, ["alpha"])
    samples = store.require("gold/alpha").read("samples").to_pylist()
    mine = [row for row in samples if any(p.startswith("step:alpha/e0000/") for p in row["parents"])]
    follow = {f"sample:{row['sample_id']}" for row in mine if row["objective"] == "navigation"}
    rows = [
        {"item_id": name, "source": "alpha", "kept": "episode:other/e1", "similarity": alike, "reason": reason}
        for name, alike, reason in [("episode:alpha/e0000", 0.9, "duplicate"), *((n, None, "episode") for n in follow)]
    ]
    displaced = pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["item_id"])), DISPLACED)
    commit(store, "hygiene/duplicates", store.require("hygiene/duplicates").inputs, {"displaced": displaced})
    build_mixture(store, config=MixtureConfig(budget_tokens=600))
    answer = told(store, "episode:alpha/e0000")
    assert answer["gold"]["fate"] == "gold"
    found = answer["fates"]
    duplicates = {f"sample:{name}" for name, what in found.items() if what["kind"] == "duplicate"}
    assert duplicates == follow and len(found) == len(mine)
    assert "not_drawn" in {what["kind"] for what in found.values()}


def test_what_was_quarantined_by_its_record_and_by_its_place(corpus: Store) -> None:
    rows = corpus.require("unified/aitz").read("quarantine").to_pylist()
    item = next(r for r in rows if r["unit"] == "item" and r["reason"] == "off_screen")
    answer = told(corpus, f"aitz/{item['file']}#{item['record']}")
    assert answer["kind"] == "quarantined" and "off_screen" in {q["reason"] for q in answer["quarantine"]}
    assert answer["native"][0]["file"] == item["file"]
    broken = next(r for r in rows if r["reason"] == "bad_json")
    assert told(corpus, f"aitz/{broken['file']}")["quarantine"][0]["reason"] == "bad_json"
    record = json.loads(item["native"])["record"]
    step = json.loads(item["native"])["native_index"]
    steps = {
        r["step_index"] for r in corpus.require("unified/aitz").read("steps").to_pylist() if r["episode_id"] == record
    }
    missing = next(n for n in range(9) if n not in steps)
    assert step is not None and told(corpus, f"step:aitz/{record}/{missing}")["kind"] == "quarantined"


def test_a_trajectory_that_was_not_verified(corpus: Store) -> None:
    answer = told(corpus, "t-0")
    assert answer["item"] == "episode:generated/t-0"
    [run] = answer["trajectory"]
    assert (run["verified"], run["reason"], run["asset"]) == (False, "world: not met", "generation/verified/round_001")


def test_the_native_record_is_read_back(corpus: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(
        f"raw_root: {corpus.home / 'nowhere'}\nsources:\n  screenqa:\n    raw: {corpus.home / 'raw/screenqa/raw'}\n"
    )
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "deployment.yaml"))
    sample = samples_of(corpus, "screenqa")[0]
    [native] = told(corpus, sample["sample_id"], native=True)["native"]
    assert native["row"]["question"] in sample["messages"]
    with pytest.raises(ValueError, match="--native: raw/aitz: no record"):
        told(corpus, samples_of(corpus, "aitz")[0]["sample_id"], native=True)


def test_the_command_in_text_and_json(corpus: Store, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--home", str(corpus.home)]
    for item in (samples_of(corpus, "aitz")[0]["sample_id"], "t-0", "episode:aitz/1"):
        assert main(["explain", item, *data]) == 0
        said = capsys.readouterr().out
        measured = f"worth: {worth.LEFT_OUT}, aitz: +1.2 [-0.5, +3.0] points (says nothing), worth/sources "
        assert "checkpoints: " in said and (measured if "t-0" not in item else "worth: not measured") in said
        assert main(["explain", item, *data, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] in ("sample", "episode")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("sample:" + "0" * 32, "no such item"),
        ("step:aitz/1", "expected step:<source>/<episode>/<number>"),
        ("step:nosuch/e/0", "no such item"),
        ("../../etc/passwd", "no such item"),
        ("x'; drop table", "no such item"),
    ],
)
def test_bad_input_is_one_line(corpus: Store, capsys: pytest.CaptureFixture[str], item: str, said: str) -> None:
    assert main(["explain", item, "--home", str(corpus.home)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_store_that_is_none_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", "x", "--home", str(tmp_path)]) == 2
    assert "expected a store" in capsys.readouterr().err
