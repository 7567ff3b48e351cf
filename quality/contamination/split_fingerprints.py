"""`fingerprints/<source>_test`: fingerprints of a source's own test split, one part a part of `unified/<source>`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import Manifest, PartResult, PartSpec, Store, StoreError, run_part
from quality.contamination.fingerprints import (
    CODE_VERSION,
    asset_of,
    commit_items,
    item_row,
    split_name,
    subject,
    write_items,
)
from quality.contamination.text_prints import text_print
from quality.items.part import rows_by_part
from schemas.ids import digest, item_episode, item_sample, item_step
from schemas.tables import Samples, Steps

ROWS_A_SECOND = 100
"""Rows of a part, of which some are of the test split, that one core reads, roughly."""


@dataclass(frozen=True)
class SplitPart:
    """All a worker needs for a part: plain data."""

    home: str
    source: str
    unified: str
    """The version that is read."""
    version: str
    spec: PartSpec


def build_split_fingerprints(store: Store, source: str, execution: Execution | None = None) -> Manifest:
    """Rows of the test split of `unified/<source>` → `fingerprints/<source>_test`, one part a unified part.

    Raises `StoreError` if the source isn't unified. A source without test rows gives an empty asset, which says so.
    """
    unified = store.require(f"unified/{source}")
    specs = [PartSpec(key, digest([CODE_VERSION, files])) for key, files in unified.part_hashes.items()]
    inputs = {unified.asset: unified.version}
    suite, rows = split_name(source), rows_by_part(unified)
    with store.build(
        asset_of(suite),
        code_version=CODE_VERSION,
        config={"source": source, "split": "test"},
        inputs=inputs,
        parts=specs,
    ) as build:
        calls = [
            PartCall(
                SplitPart(str(store.home), source, unified.version, build.version, spec),
                (spec,),
                rows[spec.key] / ROWS_A_SECOND,
                rows[spec.key],
            )
            for spec in specs
        ]
        for result in run_parts(store, build.asset, run_split_part, calls, execution):
            build.add(result)
        # A source without a test split is no mistake.
        return commit_items(build, suite, may_be_empty=True)


def run_split_part(item: SplitPart) -> PartResult:
    """Fingerprint the test rows of one part; called by an engine's workers."""
    store = Store(item.home)
    unified = store.version(f"unified/{item.source}", item.unified)
    key = item.spec.key
    return run_part(
        store.root(asset_of(split_name(item.source))),
        item.version,
        item.spec,
        lambda out: write_items(out, key, _split_items(store, unified, key)),
    )


_STEP_COLUMNS = [
    "episode_id",
    "step_index",
    "split",
    "language",
    "app",
    "instruction",
    "screenshot_sha256",
    "target_box",
    "source",
]


def _split_items(store: Store, unified: Manifest, key: str) -> Iterator[tuple[dict[str, Any], bytes | None]]:
    """Items of one unified part's test rows: each episode's goal, each of its screens, each native sample."""
    for row in _part_rows(unified, key, "steps", _STEP_COLUMNS):
        goal = text_print(row["instruction"])
        common = {"language": row["language"], "app": row["app"]}
        name = item_step(row["source"], row["episode_id"], row["step_index"])
        # The goal once an episode, with the first of its pictures.
        if row["step_index"] == 0 or row["first"]:
            yield item_row(item_episode(row["source"], row["episode_id"]), "goal", goal, **common), _bytes(store, row)
        if row["screenshot_sha256"] is not None:
            # Single steps count by their pictures; their texts aren't tasks.
            yield item_row(name, "step", text_print(""), box=row["target_box"], **common), _bytes(store, row)
    columns = ["sample_id", "split", "images", "messages", "objective", "target_boxes"]
    for row in _part_rows(unified, key, "samples", columns):
        boxes = row["target_boxes"] or [None]
        for place, sha in enumerate(row["images"] or [None]):
            # An item a picture, as each of them may be met in training.
            name = item_sample(row["sample_id"]) + (f"/{place}" if place else "")
            text = text_print(subject(row["messages"]))
            scope = "target" if row["objective"] == "grounding" else "goal"
            yield item_row(name, scope, text, box=boxes[0]), _bytes(store, {"screenshot_sha256": sha})


def _part_rows(manifest: Manifest, key: str, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Test rows of a part's table, in order; `first` marks the first row of an episode."""
    schema = {"steps": Steps.schema, "samples": Samples.schema}[table]
    before = None
    for row in manifest.read_part(key, table, schema, list(columns), [("split", "==", "test")]).to_pylist():
        # Rows come in order, so a new id begins an episode.
        row["first"] = row.get("episode_id") != before
        before = row.get("episode_id")
        yield row


def _bytes(store: Store, row: Mapping[str, Any]) -> bytes | None:
    if row["screenshot_sha256"] is None:
        return None
    try:
        return store.screen_bytes(row["screenshot_sha256"])
    except StoreError:  # a row whose picture was lost is still held against by its words
        return None
