"""However native files are cut, and whatever they are grouped to, every stage of the corpus makes the same data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.native import nested
from pipelines import sources
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.raw.rawdata import register_raw
from pipelines.store import Store
from pipelines.store.images import encode_png
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.shards import build_shards
from pipelines.unify import buckets
from pipelines.unify.unify import unify_source
from quality.cards.card import build_card, build_corpus_card
from quality.contamination.contamination import find_contamination
from quality.contamination.shard_scan import scan_shards
from quality.contamination.split_fingerprints import build_split_fingerprints
from quality.duplicates.dedup import find_duplicates
from quality.duplicates.screen_owners import find_screen_owners
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter
from quality.review.queue import build_queue
from quality.safety.scan import scan_sources

pytestmark = pytest.mark.slow(seconds=55)

SOURCE = "aitz"
EPISODES = 41


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of five steps; screens are noise in blocks, and every third is one that other episodes show, too."""
    folder = tmp_path_factory.mktemp("aitz")
    nested(folder, EPISODES)
    for path in sorted(folder.rglob("*.json")):
        for step in json.loads(path.read_text()):
            seed = step["step_id"] if step["step_id"] % 3 == 0 else hash_of(step["image_path"])
            noise = np.random.default_rng(seed).integers(0, 255, (24, 12, 3), np.uint8)
            (folder / "train" / step["image_path"]).write_bytes(encode_png(noise.repeat(8, 0).repeat(8, 1)))
    return folder


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[-12:], "big")


def corpus(store: Store, by: Execution) -> dict[str, str]:
    """All assets from verdicts to the mixture, and what is shown of them → asset: data version."""
    config = JudgeConfig()
    judge_source(store, SOURCE, build_judge(config), config=config, execution=by)
    build_gold(store, SOURCE, build_judge(config), build_rewriter(config), judge_config=config, execution=by)
    suite = build_split_fingerprints(store, SOURCE, by).asset.partition("/")[2]
    find_screen_owners(store, [SOURCE])
    find_duplicates(store, [SOURCE])
    find_contamination(store, [SOURCE], [suite], by)
    scan_sources(store, [SOURCE], execution=by)
    build_queue(store, [SOURCE])
    build_shards(store, [SOURCE], execution=by)
    scan_shards(store, [suite], by)
    build_mixture(store, config=MixtureConfig(least_of_target=0))  # these recordings give no grounding
    build_card(store, SOURCE)
    build_corpus_card(store, [SOURCE])
    root = store.home / "assets"
    keys = sorted(path.parent.relative_to(root).as_posix() for path in root.rglob("current.json"))
    return {key: store.require(key).data_version for key in keys if not key.startswith("mapped/")}


def made(home: Path, raw: Path, parts: int, runner: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The corpus of the same files, given to so many parts."""
    adapter = sources.get(SOURCE)
    files = [file for group in adapter.parts(Raw(raw)) for file in group]
    groups = [tuple(group.tolist()) for group in np.array_split(np.array(files), parts)]
    store = Store(home)
    inputs = {f"raw/{SOURCE}": register_raw(store, SOURCE, raw).version}
    with monkeypatch.context() as patched:
        patched.setattr(type(adapter), "parts", lambda self, raw: groups)
        patched.setattr(buckets, "BUCKET_ROWS", 60)
        each = Execution(EngineSettings(runner=runner, part_bytes=1))
        unify_source(store, SOURCE, Raw(raw), inputs=inputs, execution=each)
    assert len(store.require(f"mapped/{SOURCE}").paths("steps")) == parts
    return corpus(store, each)


def test_every_asset_has_one_data_version_for_1_7_and_41_parts_in_any_order(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runners = {1: "in-process", 7: "engine_parts:Backwards", EPISODES: "in-process"}
    found = {parts: made(tmp_path / str(parts), raw, parts, by, monkeypatch) for parts, by in runners.items()}
    one = Store(tmp_path / "1")
    assert {"cards/corpus", "hygiene/shard_scan", "hygiene/duplicates"} <= found[1].keys()
    assert len(one.require("unified/aitz").paths("steps")) == 8
    assert one.require("mid_training/mixture").rows("mixture")
    for parts in (7, EPISODES):
        differ = sorted(key for key in found[1] if found[1][key] != found[parts].get(key))
        assert not differ, f"{parts} parts"
