"""Evaluation items in a training set's native files, through its adapter: nothing of them reaches a shard.

No adapter knows of a suite: GroundUI and WaveUI ship evaluation items, and the stages must find them by their content.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import pyarrow.parquet as pq
import pytest
from goldmaker import commit_gold
from suitemaker import encode, make_suite, page, suite_row
from turns import prompt

from pipelines import sources, suites
from pipelines.mapping.adapter import Raw
from pipelines.store import Store, StoreError
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from pipelines.unify.unify import unify_source
from quality.contamination.contamination import find_contamination
from quality.contamination.shard_scan import scan_shards
from schemas.tables import Steps

pytestmark = pytest.mark.slow

SUITE = "screenspot_pro"
BOX = (100, 200, 160, 240)


def groundui(root: Path, rows: list[tuple[str, bytes]]) -> None:
    listed = []
    for number, (text, data) in enumerate(rows):
        native.write_bytes(root / f"raw/images/{number}.png", data)
        listed.append(
            {
                "image": f"{number}.png",
                "instruction": text,
                "bbox": list(BOX),
                "source": "web",
                "platform": "web",
                "resolution": [540, 960],
            }
        )
    native.write_lines(root / "raw/metadata.jsonl", listed)


def waveui(root: Path, rows: list[tuple[str, bytes]]) -> None:
    native.write_parquet(
        root / "raw/data/train-00000.parquet",
        [
            {
                "image": {"bytes": data, "path": None},
                "instruction": text,
                "bbox": list(BOX),
                "resolution": [540, 960],
                "source": "groundui",
                "platform": "web",
                "name": text,
                "description": text,
                "type": "button",
                "OCR": text,
                "language": "English",
                "purpose": "",
                "expectation": "",
            }
            for text, data in rows
        ],
    )


@pytest.mark.parametrize(("source", "write"), [("groundui_18k", groundui), ("waveui_25k", waveui)])
def test_evaluation_items_are_found_by_themselves(
    source: str, write: Callable[[Path, list[tuple[str, bytes]]], None], tmp_path: Path
) -> None:
    store = Store(tmp_path / "home")
    told = "the archive button beside the invoice of the paper supplier from March"
    make_suite(
        store,
        tmp_path / "suite",
        [suite_row(1, "the blue bar", BOX), suite_row(2, "the icon", BOX), suite_row(3, told, BOX)],
        {n: encode(page(n)) for n in (1, 2, 3)},
        SUITE,
    )
    shown = [
        ("the blue bar", encode(page(1))),  # an item as it is
        ("something else", encode(page(2), "JPEG", quality=75)),  # its picture, saved anew, asked otherwise
        (told, encode(page(77))),  # its words on another picture
        ("the green row", encode(page(78))),
        ("the grey row", encode(page(79))),
    ]
    write(tmp_path / source, shown)
    made = unify_source(store, source, native.raw_of(source, tmp_path / source))
    assert made.counts["items_mapped"] == len(shown), made.counts["reasons"]
    commit_gold(store, source, made.read("steps", Steps.schema), made.read("samples"))
    found = find_contamination(store, [source], [SUITE])
    kinds = {row["kind"] for row in found.read("hits").to_pylist()}
    assert {"image", "phash"} <= kinds and kinds & {"ngram", "embedding"}
    packed = build_shards(store, [source])
    assert packed.counts["contaminated"] >= 3
    left = [row for path in packed.paths("shard") for row in pq.read_table(path).to_pylist()]
    pictures = {image["bytes"] for row in left for image in row["images"]}
    assert pictures <= {shown[3][1], shown[4][1]} and pictures
    assert not any(told in prompt(row["messages"]) for row in left)
    assert scan_shards(store, [SUITE]).checks_passed


def test_a_leak_planted_after_the_removal_blocks_the_mixture(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    make_suite(store, tmp_path / "suite", [suite_row(1, "the blue bar", BOX)], {1: encode(page(1))}, SUITE)
    groundui(tmp_path / "groundui_18k", [("the blue bar", encode(page(1))), ("the green row", encode(page(78)))])
    made = unify_source(store, "groundui_18k", native.raw_of("groundui_18k", tmp_path / "groundui_18k"))
    commit_gold(store, "groundui_18k", made.read("steps", Steps.schema), made.read("samples"))
    packed = build_shards(store, ["groundui_18k"])  # nothing was removed: no search was made before it
    scan = scan_shards(store, [SUITE])
    assert not scan.checks_passed and scan.counts["leaks"] > 0
    assert {row["suite"] for row in scan.read("leaks").to_pylist()} == {SUITE}
    with pytest.raises(StoreError, match="has not passed it"):
        build_mixture(store)
    assert packed.counts["packed"] > 0


def _texts(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {item for name, item in value.items() if name.startswith("instruction") and isinstance(item, str)}
        return found.union(*(_texts(item) for item in value.values()))
    return set().union(*(_texts(item) for item in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("suite", sorted(suites.registry()))
def test_real_records_of_a_suite_never_train_through_any_adapter(suite: str, tmp_path: Path) -> None:
    """Whatever adapter is fed a suite's real files: what it makes of them has no picture, so none can be packed, unless
    it is a form of its own, in which its rows are held out."""
    folder = native.SAMPLES / suite
    if not folder.is_dir():
        pytest.skip(f"no real records of {suite} beside this checkout")
    raw = Raw(folder.resolve())
    for name, adapter in sources.registry().items():
        if not adapter.parts(raw):
            continue
        made = unify_source(Store(tmp_path / name), name, raw)
        steps, samples = made.read("steps").to_pylist(), made.read("samples").to_pylist()
        pictured = [row for row in steps if row["screenshot_sha256"] and row["split"] == "train"]
        pictured += [row for row in samples if row["images"] and row["split"] == "train"]
        assert not pictured, f"{name} makes training rows with pictures of {suite}: {json.dumps(pictured[0])[:300]}"
