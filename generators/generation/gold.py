"""`gold/generated`: verified trajectories of all rounds as a source of the corpus like any other.

Tables `steps`, `screens`, `samples` (derived), `rejects` (what was executed and not verified, with the reason). There
is no `unified/generated`: what a world and its annotators verified isn't judged a second time.

With derivers of whole trajectories, `samples` has theirs too, of rejects as well, and `judge_samples` those that train
judges. Steps of rejects stay out of `steps`; their screens are in `screens`, where samples show them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from generators.generation.feedback import require_verified
from generators.generation.judged_runs import run_verdict
from generators.generation.round_names import GOLD as ASSET
from pipelines.derivers.derive import DERIVE_VERSION, derive_samples
from pipelines.derivers.trajectories import (
    TRAJECTORIES_VERSION,
    TrajectorySamples,
    derive_trajectories,
    judged_trajectories,
)
from pipelines.derivers.trajectory import RL_OBJECTIVES
from pipelines.derivers.trajectory_config import TrajectoryConfig
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check, CheckSpec, Manifest
from quality.refinement.gold import NOT_EMPTY, Rejects
from quality.safety.licence_report import RUNS_LICENCE
from schemas.actions import WIDEST, parse_reply
from schemas.ids import GENERATED_SOURCE, canonical_json, digest, item_episode
from schemas.tables import Screens, Steps, Trajectories

CODE_VERSION = f"1.{DERIVE_VERSION}"
ALL_ENDED = CheckSpec("every trajectory is gold or rejected", "A trajectory is missing between verified and gold")
ONE_DESTINATION = CheckSpec(
    "every sample has one destination", "A sample trains twice, or a rough run trains RL", sometimes=True
)
NO_FAILED_ACTION = CheckSpec(
    "no failure teaches its end", "An action of a run that failed is taught as right", sometimes=True
)
CHECKS = (ALL_ENDED, NOT_EMPTY, ONE_DESTINATION, NO_FAILED_ACTION)
NOTHING = TrajectoryConfig()


def build_generated(store: Store, trajectories: TrajectoryConfig = NOTHING) -> Manifest:
    """A part a round; `trajectories` says which derivers of whole trajectories make samples, too. Raises `StoreError`
    if no round has been verified, `ValueError` for a deriver that there isn't."""
    rounds = require_verified(store, ASSET)
    config = {**trajectories.model_dump(mode="json"), "version": TRAJECTORIES_VERSION} if trajectories.derivers else {}
    extra = [config] if config else []  # without any, the digest of before there were any
    specs = {
        name: PartSpec(name, digest([CODE_VERSION, manifest.data_version, *extra])) for name, manifest in rounds.items()
    }
    inputs = {manifest.asset: manifest.version for manifest in rounds.values()}
    with store.build(
        ASSET, code_version=CODE_VERSION, config=config or None, inputs=inputs, parts=list(specs.values())
    ) as build:
        totals: dict[str, int] = {}
        for name, spec in specs.items():
            result = build.run_part(spec, partial(_round, verified=rounds[name], trajectories=trajectories))
            for key, value in result.counts.items():
                totals[key] = totals.get(key, 0) + value
        whole = totals["verified"] + totals["not verified"]
        checks = [
            *(_trajectory_checks(totals) if config else []),
            ALL_ENDED.check(whole == totals["trajectories"], whole, totals["trajectories"]),
            NOT_EMPTY.check(totals["steps"] > 0, totals["steps"], "more than 0", limit=0),
        ]
        return build.commit(counts={"rounds": len(rounds), **totals}, checks=checks)


def _round(out: PartWriter, verified: Manifest, trajectories: TrajectoryConfig) -> dict[str, Any]:
    rows = verified.read("trajectories", Trajectories.schema)
    good = rows.filter(pc.field("verified"))["trajectory_id"].combine_chunks()
    steps = verified.read("steps", Steps.schema)
    kept = steps.filter(pc.is_in(steps["episode_id"], value_set=good))
    screens = verified.read("screens", Screens.schema)
    shown = pc.is_in(screens["screenshot_sha256"], value_set=kept["screenshot_sha256"].combine_chunks())
    samples = derive_samples(kept, screens.filter(shown), licence=RUNS_LICENCE, synthetic=True)
    made, counts = None, dict[str, int]()
    if trajectories.derivers:
        made = _of_runs(rows, steps, screens, trajectories)
        counts = _counts(samples, made)
        samples = pa.concat_tables([samples, made.corpus])
        used = pa.array({sha for images in made.shown for sha in images}, pa.string())
        shown = pc.or_(shown, pc.is_in(screens["screenshot_sha256"], value_set=used))
    bad = [row for row in rows.to_pylist() if not row["verified"]]
    out.table("steps", kept)
    out.table("screens", screens.filter(shown))
    out.table("samples", samples)
    out.table("rejects", _rejects(bad))
    if made is not None:
        out.table("judge_samples", made.judges)
    return {
        "trajectories": rows.num_rows,
        "verified": len(good),
        "not verified": len(bad),
        "steps": kept.num_rows,
        "samples": samples.num_rows,
        **counts,
    }


def _of_runs(rows: pa.Table, steps: pa.Table, screens: pa.Table, config: TrajectoryConfig) -> TrajectorySamples:
    judged = {row["trajectory_id"]: run_verdict(row, config.rough_from) for row in rows.to_pylist()}
    known = {name: verdict for name, verdict in judged.items() if verdict is not None}
    runs = judged_trajectories(steps, screens, known)
    return derive_trajectories(runs, config.derivers, licence=RUNS_LICENCE, synthetic=True)


def _counts(samples: pa.Table, made: TrajectorySamples) -> dict[str, int]:
    """What the checks need, from the rows as they are written, and samples by kind and refusals by reason."""
    names = [*samples["sample_id"].to_pylist(), *made.corpus["sample_id"].to_pylist()]
    names += made.judges["sample_id"].to_pylist()
    said = [json.loads(text) for text in made.corpus["provenance"].to_pylist()]
    trained = list(zip(said, made.corpus["objective"].to_pylist(), strict=True))
    return {
        "judge_samples": made.judges.num_rows,
        "of trajectories": made.corpus.num_rows,
        "with two destinations": len(names) - len(set(names)),
        "rough in RL": sum(one["decision"] == "rough" and objective in RL_OBJECTIVES for one, objective in trained),
        "actions of failures": sum(
            one["decision"] == "failure" and parse_reply(answer, WIDEST).action is not None
            for one, answer in zip(said, made.corpus["answer"].to_pylist(), strict=True)
        ),
        **{f"kind:{kind}": number for kind, number in made.kinds.items()},
        **{f"refused:{reason}": number for reason, number in made.refused.items()},
    }


def _trajectory_checks(totals: dict[str, int]) -> list[Check]:
    twice, failed = totals["with two destinations"] + totals["rough in RL"], totals["actions of failures"]
    return [ONE_DESTINATION.check(twice == 0, twice, 0), NO_FAILED_ACTION.check(failed == 0, failed, 0)]


def _rejects(rows: list[dict[str, Any]]) -> pa.Table:
    return Rejects.table(
        {
            "item_id": item_episode(GENERATED_SOURCE, row["trajectory_id"]),
            "reason": row["reason"],
            "row": canonical_json(row),
        }
        for row in rows
    )
