"""`gold/generated`: verified trajectories of all rounds as a source of the corpus like any other.

Tables `steps`, `screens`, `samples` (derived), `rejects` (what was executed and not verified, with the reason). There
is no `unified/generated`: what a world and its annotators verified isn't judged a second time.

With derivers of whole trajectories, `samples` has theirs too, of rejects as well, and `judge_samples` those that train
judges. Steps of rejects stay out of `steps`; their screens are in `screens`, where samples show them.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from generators.generation.feedback import require_verified
from generators.generation.judged_runs import run_verdict
from generators.generation.round_checks import ALL_ENDED, NO_FAILED_ACTION, ONE_DESTINATION
from generators.generation.round_names import BANK
from generators.generation.round_names import GOLD as ASSET
from generators.generation.run_replays import REPLAYS_VERSION, with_located_errors
from generators.tasks.task_spec import TaskSpec
from pipelines.derivers.base import DeriveConfig
from pipelines.derivers.derive import DERIVE_VERSION, derive_samples
from pipelines.derivers.trajectories import (
    TRAJECTORIES_VERSION,
    TrajectorySamples,
    derive_trajectories,
    judged_trajectories,
)
from pipelines.derivers.trajectory import RL_OBJECTIVES, JudgedTrajectory
from pipelines.derivers.trajectory_config import TrajectoryConfig
from pipelines.prompts.history import USUAL_HISTORY, HistoryConfig
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check, Manifest
from quality.refinement.gold import NOT_EMPTY, Rejects
from quality.safety.licence_report import RUNS_LICENCE
from schemas.actions import WIDEST, format, parse, parse_reply
from schemas.ids import GENERATED_SOURCE, canonical_json, digest, item_episode
from schemas.tables import Screens, Steps, Tasks, Trajectories

CODE_VERSION = f"1.{DERIVE_VERSION}"
NOTHING = TrajectoryConfig()


def build_generated(
    store: Store, trajectories: TrajectoryConfig = NOTHING, history: HistoryConfig = USUAL_HISTORY
) -> Manifest:
    """A part a round; `trajectories` says which derivers of whole trajectories make samples, too, `history` how prompts
    show the steps before. Raises `StoreError`
    if no round has been verified, `ValueError` for a deriver that there isn't."""
    rounds = require_verified(store, ASSET)
    # `replay` came later: where it names no world, the digest is that of before there was such a setting
    later = set() if trajectories.replay else {"replay"}
    plain = trajectories.model_dump(mode="json", exclude=later)
    config = {**plain, "version": TRAJECTORIES_VERSION} if trajectories.derivers else {}
    if config and trajectories.replay:
        config["replays"] = REPLAYS_VERSION
    given = {**config, **history.said()}
    # without any, the digest of before there were any
    settings = [given] if given else []
    specs = {
        name: PartSpec(name, digest([CODE_VERSION, manifest.data_version, *settings]))
        for name, manifest in rounds.items()
    }
    inputs = {manifest.asset: manifest.version for manifest in rounds.values()}
    with store.build(
        ASSET, code_version=CODE_VERSION, config=given or None, inputs=inputs, parts=list(specs.values())
    ) as build:
        totals: dict[str, int] = {}
        for name, spec in specs.items():
            bank = f"{BANK}/{name}"
            tasks = partial(store.version, bank, rounds[name].inputs[bank])
            made = partial(_round, verified=rounds[name], tasks=tasks, trajectories=trajectories, history=history)
            result = build.run_part(spec, made)
            for key, value in result.counts.items():
                totals[key] = totals.get(key, 0) + value
        # Every trajectory ends in exactly one of the two; a missing one would silently vanish from the corpus.
        whole = totals["verified"] + totals["not verified"]
        checks = [
            *(_trajectory_checks(totals) if config else []),
            ALL_ENDED.check(whole == totals["trajectories"], whole, totals["trajectories"]),
            NOT_EMPTY.check(totals["steps"] > 0, totals["steps"], "more than 0", limit=0),
        ]
        return build.commit(counts={"rounds": len(rounds), **totals}, checks=checks)


def _round(
    out: PartWriter,
    verified: Manifest,
    tasks: Callable[[], Manifest],
    trajectories: TrajectoryConfig,
    history: HistoryConfig,
) -> dict[str, Any]:
    """`tasks` gives the round's bank, which is read only where runs are carried out again."""
    # `verified` is the only door to gold: what the policy claims counts nowhere.
    rows = verified.read("trajectories", Trajectories.schema)
    good = rows.filter(pc.field("verified"))["trajectory_id"].combine_chunks()
    steps = verified.read("steps", Steps.schema)
    kept = steps.filter(pc.is_in(steps["episode_id"], value_set=good))
    screens = verified.read("screens", Screens.schema)
    # Only the screens of steps that are kept: pictures of failed runs aren't training data by themselves.
    shown = pc.is_in(screens["screenshot_sha256"], value_set=kept["screenshot_sha256"].combine_chunks())
    config = DeriveConfig(history=history)
    samples = derive_samples(kept, screens.filter(shown), licence=RUNS_LICENCE, synthetic=True, config=config)
    made, counts = None, dict[str, int]()
    # All runs, failed ones too: critics and judges learn from what went wrong.
    if trajectories.derivers:
        runs, replayed = _judged(rows, steps, screens, tasks, trajectories, config)
        made = derive_trajectories(runs, trajectories.derivers, licence=RUNS_LICENCE, synthetic=True)
        counts = {**replayed, **_counts(samples, made, runs)}
        samples = pa.concat_tables([samples, made.corpus])
        used = pa.array({sha for images in made.shown for sha in images}, pa.string())
        # Screens of rejects are added only where a sample shows them.
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


def _judged(
    rows: pa.Table,
    steps: pa.Table,
    screens: pa.Table,
    tasks: Callable[[], Manifest],
    trajectories: TrajectoryConfig,
    config: DeriveConfig,
) -> tuple[list[JudgedTrajectory], dict[str, int]]:
    """The runs that have a verdict, those of the worlds in `replay` with their errors located, and what is counted."""
    listed = rows.to_pylist()
    judged = {row["trajectory_id"]: run_verdict(row, trajectories.rough_from) for row in listed}
    known = {name: verdict for name, verdict in judged.items() if verdict is not None}
    runs = list(judged_trajectories(steps, screens, known, config))
    if not trajectories.replay:
        return runs, {}
    contracts = {row["task_id"]: TaskSpec.from_row(row) for row in tasks().read("tasks", Tasks.schema).to_pylist()}
    of_runs = {row["trajectory_id"]: contracts[row["task_id"]] for row in listed if row["task_id"] in contracts}
    found, counts = with_located_errors(runs, of_runs, trajectories.replay)
    return found, {f"replay:{what}": count for what, count in sorted(counts.items())}


def _counts(samples: pa.Table, made: TrajectorySamples, runs: Sequence[JudgedTrajectory]) -> dict[str, int]:
    """What the checks need, from the rows as they are written, and samples by kind and refusals by reason."""
    failures = {run.steps[0]["episode_id"]: run for run in runs if run.verdict.decision == "failure"}
    # From the written rows and not from how they were made: the checks hold whatever a deriver does.
    names = [*samples["sample_id"].to_pylist(), *made.corpus["sample_id"].to_pylist()]
    names += made.judges["sample_id"].to_pylist()
    provenance = [json.loads(text) for text in made.corpus["provenance"].to_pylist()]
    trained = list(zip(provenance, made.corpus["objective"].to_pylist(), strict=True))
    return {
        "judge_samples": made.judges.num_rows,
        "of trajectories": made.corpus.num_rows,
        "with two destinations": len(names) - len(set(names)),
        "rough in RL": sum(one["decision"] == "rough" and objective in RL_OBJECTIVES for one, objective in trained),
        "actions of failures": sum(
            _taught_by_failure(failures[one["episode"]], one["step"], answer)
            for one, answer in zip(provenance, made.corpus["answer"].to_pylist(), strict=True)
            if one["episode"] in failures
        ),
        **{f"kind:{kind}": number for kind, number in made.kinds.items()},
        **{f"refused:{reason}": number for reason, number in made.refused.items()},
    }


def _taught_by_failure(run: JudgedTrajectory, step: int, answer: str) -> bool:
    """Whether an answer is an action that nothing but a failure itself stands for: neither done before its first error
    nor confirmed by replay."""
    action, verdict = parse_reply(answer, WIDEST).action, run.verdict
    if action is None or verdict.allows(step):
        return False
    confirmed = (verdict.right.get(step), verdict.undo.get(step - 1))
    return all(text is None or format(parse(text)) != format(action) for text in confirmed)


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
