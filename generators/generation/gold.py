"""`gold/generated`: verified trajectories of all rounds as a source of the corpus like any other.

Tables `steps`, `screens`, `samples` (derived), `rejects` (what was executed and not verified, with the reason). There
is no `unified/generated`: what a world and its annotators verified isn't judged a second time.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from generators.generation.feedback import require_verified
from generators.generation.round_names import GOLD as ASSET
from pipelines.derivers.derive import DERIVE_VERSION, derive_samples
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import CheckSpec, Manifest
from quality.refinement.gold import NOT_EMPTY, Rejects
from quality.safety.licence_report import RUNS_LICENCE
from schemas.ids import GENERATED_SOURCE, canonical_json, digest, item_episode
from schemas.tables import Screens, Steps, Trajectories

CODE_VERSION = f"1.{DERIVE_VERSION}"
ALL_ENDED = CheckSpec("every trajectory is gold or rejected", "A trajectory is missing between verified and gold")
CHECKS = (ALL_ENDED, NOT_EMPTY)


def build_generated(store: Store) -> Manifest:
    """A part a round. Raises `StoreError` if no round has been verified."""
    rounds = require_verified(store, ASSET)
    specs = {name: PartSpec(name, digest([CODE_VERSION, manifest.data_version])) for name, manifest in rounds.items()}
    inputs = {manifest.asset: manifest.version for manifest in rounds.values()}
    with store.build(ASSET, code_version=CODE_VERSION, inputs=inputs, parts=list(specs.values())) as build:
        totals: dict[str, int] = {}
        for name, spec in specs.items():
            result = build.run_part(spec, lambda out, found=rounds[name]: _round(out, found))  # type: ignore[misc]
            for key, value in result.counts.items():
                totals[key] = totals.get(key, 0) + value
        whole = totals["verified"] + totals["not verified"]
        checks = [
            ALL_ENDED.check(whole == totals["trajectories"], whole, totals["trajectories"]),
            NOT_EMPTY.check(totals["steps"] > 0, totals["steps"], "more than 0", limit=0),
        ]
        return build.commit(counts={"rounds": len(rounds), **totals}, checks=checks)


def _round(out: PartWriter, verified: Manifest) -> dict[str, Any]:
    rows = verified.read("trajectories", Trajectories.schema)
    good = rows.filter(pc.field("verified"))["trajectory_id"].combine_chunks()
    steps = verified.read("steps", Steps.schema)
    kept = steps.filter(pc.is_in(steps["episode_id"], value_set=good))
    screens = verified.read("screens", Screens.schema)
    shown = pc.is_in(screens["screenshot_sha256"], value_set=kept["screenshot_sha256"].combine_chunks())
    samples = derive_samples(kept, screens.filter(shown), licence=RUNS_LICENCE, synthetic=True)
    bad = [row for row in rows.to_pylist() if not row["verified"]]
    out.table("steps", kept)
    out.table("screens", screens.filter(shown))
    out.table("samples", samples)
    out.table("rejects", _rejects(bad))
    return {
        "trajectories": rows.num_rows,
        "verified": len(good),
        "not verified": len(bad),
        "steps": kept.num_rows,
        "samples": samples.num_rows,
    }


def _rejects(rows: list[dict[str, Any]]) -> pa.Table:
    return Rejects.table(
        {
            "item_id": item_episode(GENERATED_SOURCE, row["trajectory_id"]),
            "reason": row["reason"],
            "row": canonical_json(row),
        }
        for row in rows
    )
