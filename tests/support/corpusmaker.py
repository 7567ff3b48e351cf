"""A small corpus made by the real stages from native files: two sources, shards, a mixture, checkpoints beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import goldmaker
import pyarrow as pa
from native import fixture, write_bytes, write_json
from webnative import png

from pipelines.derivers.derive import derive_samples
from pipelines.mapping.adapter import Raw
from pipelines.raw.rawdata import register_raw
from pipelines.store import Check, PartSpec, Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source
from quality.duplicates.dedup import DISPLACED
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter
from schemas.ids import digest, item_step
from schemas.tables import Tasks, Verdicts

SOURCES = ("aitz", "screenqa")
REVISION = "0123456789abcdef"

ANY_DAMAGE = ChangeBands(damaged_files=1)
"""The sources that are written here have damaged files, too."""


def write_raw(root: Path, questions: int = 3) -> None:
    """AITZ as its fixture has it, ScreenQA with `questions` training rows, and Rico's screens."""
    fixture("aitz").write(root / "aitz")
    rows = []
    for number in range(questions):
        element = {"text": "x", "bounds": [108, 192, 324, 384], "vh_index": -1}
        answer = {"full_answer": f"Number {number}.", "ui_elements": [element]}
        rows.append(
            {
                "image_id": 20 + number,
                "image_width": 1080,
                "image_height": 1920,
                "question": f"What is number {number}?",
                "ground_truth": [answer],
            }
        )
    write_json(root / "screenqa/raw/train.json", rows)
    for number in range(questions):
        write_bytes(root / f"screenqa/rico/combined/{20 + number}.jpg", png(54, 96, 20 + number))


def build_source(store: Store, root: Path, source: str) -> None:
    """`raw` → `unified` → `verdicts` → `gold` of one source, with the rules judge."""
    companions = {"rico": root / "screenqa/rico"} if source == "screenqa" else {}
    inputs = {f"raw/{source}": register_raw(store, source, root / source / "raw", {"revision": REVISION}).version}
    inputs |= {f"raw/{name}": register_raw(store, name, path).version for name, path in companions.items()}
    unify_source(store, source, Raw(root / source / "raw", companions), inputs=inputs, bands=ANY_DAMAGE)
    config = JudgeConfig()
    judge_source(store, source, build_judge(config))
    build_gold(store, source, build_judge(config), build_rewriter(config))


def build_corpus(
    store: Store,
    sources: Sequence[str] = SOURCES,
    displaced: Mapping[str, str] | None = None,
    unsafe: Sequence[str] = (),
    contaminated: Sequence[str] = (),
) -> None:
    """`hygiene/*` → shards → mixture over gold that is there. `displaced`: sample → the item it yields to."""
    gold = {f"gold/{s}": current.version for s in sources if (current := store.current(f"gold/{s}")) is not None}
    rows = [
        {"item_id": f"sample:{name}", "source": "aitz", "kept": kept, "similarity": 0.97, "reason": "duplicate"}
        for name, kept in (displaced or {}).items()
    ]
    commit(
        store,
        "hygiene/duplicates",
        gold,
        {"displaced": pa.Table.from_pylist(rows, DISPLACED), "keep": pa.table({"item_id": pa.array([], pa.string())})},
    )
    if contaminated:
        hits = [
            {
                "item_id": name,
                "source": "aitz",
                "reason": "same picture",
                "suite": "aitz_test",
                "suite_item": "q1",
                "because": "sha256",
                "text": "",
                "picture_sha256": "",
            }
            for name in contaminated
        ]
        commit(store, "hygiene/contamination", gold, {"quarantine": pa.Table.from_pylist(hits)})
    reasons = [{"item_id": name, "source": "aitz", "reason": "personal_data: phone"} for name in unsafe]
    schema = pa.schema([("item_id", pa.string()), ("source", pa.string()), ("reason", pa.string())])
    unified = {key.replace("gold", "unified"): store.require(key.replace("gold", "unified")).version for key in gold}
    commit(store, "hygiene/safety", unified, {"quarantine": pa.Table.from_pylist(reasons, schema)})
    build_shards(store, list(sources))
    build_mixture(store)


def build_checkpoints(store: Store) -> None:
    """`checkpoints/mid_trained` (on the mixture) and `checkpoints/unified` (a merge of it), weights a few bytes."""
    for name, inputs in (
        ("mid_trained", ["mid_training/mixture", "mid_training/shards"]),
        ("unified", ["checkpoints/mid_trained"]),
    ):
        parents = {key: store.require(key).version for key in inputs}
        told = {"stage": name, "preset": "nano", "parents": parents, "action_space": "v1.5", "code_version": "1"}
        files = {"model/model.safetensors": digest(parents).encode(), "model/lineage.json": json.dumps(told).encode()}
        commit(store, f"checkpoints/{name}", parents, files=files)


def commit(
    store: Store,
    asset: str,
    inputs: Mapping[str, str],
    tables: Mapping[str, pa.Table] | None = None,
    files: Mapping[str, bytes] | None = None,
    *,
    passed: bool = True,
    counts: Mapping[str, Any] | None = None,
) -> Manifest:
    """Commit a version of an asset made of given tables and files."""
    content = [sorted((name, str(table.to_pylist())) for name, table in (tables or {}).items()), sorted(inputs.items())]
    spec = PartSpec("all", digest([content, [[k, v.hex()] for k, v in sorted((files or {}).items())]]))
    with store.build(asset, code_version="1", inputs=inputs, parts=[spec]) as build:

        def write(out: Any) -> None:
            for name, table in (tables or {}).items():
                out.table(name, table)
            for name, data in (files or {}).items():
                out.bytes(name, data)

        build.run_part(spec, write)
        return build.commit(counts=counts, checks=[Check("made", passed, "yes" if passed else "no", "yes")])


def light_source(store: Store, folder: Path, name: str, seed: int, episodes: int = 5) -> None:
    """`raw` → `unified` → `verdicts` → `gold` of a made-up source, committed as they are: nothing is judged."""
    write_bytes(folder / name / "native.json", f"{name} {seed} {episodes}".encode())
    raw = register_raw(store, name, folder / name, {"revision": f"rev-{seed}"})
    steps, screens = goldmaker.episodes(store, name, episodes, seed=seed)
    samples = derive_samples(steps, screens, licence="MIT")
    rows = [
        {
            "item_id": item_step(name, row["episode_id"], row["step_index"]),
            "round": 0,
            "score": 9,
            "alignment": 9,
            "reachability": 9,
            "disposition": "keep",
            "reason": "made",
            "confidence": 0.9,
            "judge": "rules",
            "model": "none",
            "rubric_version": "rules-1",
        }
        for row in steps.to_pylist()
    ]
    counts = {"records_in": episodes, "items_in": steps.num_rows, "items_quarantined": 0}
    unified = commit(
        store, f"unified/{name}", {raw.asset: raw.version}, {"steps": steps, "screens": screens}, counts=counts
    )
    judged = {unified.asset: unified.version}
    verdicts = commit(store, f"verdicts/{name}", judged, {"verdicts": Verdicts.table(rows)})
    commit(
        store,
        f"gold/{name}",
        {**judged, verdicts.asset: verdicts.version},
        {"steps": steps, "samples": samples},
        counts={"gold": steps.num_rows, "samples": samples.num_rows},
    )


def light_tasks(store: Store, source: str) -> str:
    """`task_pool/shards` with one task inferred from the source's first episode, and a checkpoint that acts on it."""
    task = {
        "task_id": "a" * 32,
        "instruction": "open the cart",
        "platform": "web",
        "target": source,
        "capabilities": [],
        "initial_state": "{}",
        "evaluator": "{}",
        "expected_steps": 3,
        "stratum": "easy",
        "origin": "dynamic",
        "parents": [f"episode:{source}/e0000"],
    }
    gold = {f"gold/{source}": store.require(f"gold/{source}").version}
    made = commit(store, "task_pool/dynamic", gold, {"tasks": Tasks.table([task])})
    pool = commit(store, "task_pool/shards", {made.asset: made.version}, {"tasks": Tasks.table([task])})
    commit(store, "checkpoints/online_web", {pool.asset: pool.version}, files={"model/model.safetensors": b"online"})
    return str(task["task_id"])


def build_all(home: Path, raw: Path) -> Store:
    """Everything, from nothing."""
    write_raw(raw)
    store = Store(home)
    for source in SOURCES:
        build_source(store, raw, source)
    build_corpus(store)
    build_checkpoints(store)
    return store
