"""Tasks inferred from the embedded recordings, opened in the worlds that show their apps, played and judged there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, share
from generators.devices.browser import keep_browser
from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.dynamic_task_pool import NO_APP, build_dynamic
from generators.policies.registry import explorer
from generators.proving.embedded.build import build_raw
from generators.proving.embedded.sizes import Size
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from pipelines.mapping.raw_files import Raw
from pipelines.store import Manifest, Store
from pipelines.unify import unify_source
from quality.model_client.client import ModelClient
from schemas.tables import PLATFORMS, Samples, Steps, Tasks
from tests.support.goldmaker import commit_gold
from tests.support.scripted_judge import ScriptedJudge
from trainer.online.success import Decided, FinalFrameJudge, decide
from trainer.stages.assets import BROWSER_WORLDS
from trainer.stages.online import runnable_tasks

RECORDED = ("agentnet", "aitw", "aitz", "android_control", "mind2web", "miniwob_demos")
"""Embedded sources with episodes."""
TURNS, LEAST = 6, 0.9


def recorded_tasks(store: Store, sources: Sequence[str], home: Path) -> Manifest:
    """`task_pool/dynamic` of the raw episodes below `home`, as they are mapped: what judges would leave out is in it as
    well."""
    for source in sources:
        steps = unify_source(store, source, Raw(home / "raw" / source)).read("steps", Steps.schema)
        commit_gold(store, source, steps, Samples.table([]))
    return build_dynamic(store, sources)


def played(tasks: Sequence[TaskSpec], store: Store, turns: int = TURNS) -> list[ExecutedTrajectory]:
    """Each task by the policy without a plan, in its world."""
    with Journal(store.home / "journal") as journal:
        return run_all(tasks, LocalPool(), explorer(turns), journal, store=store, workers=1)


def verdicts(runs: Sequence[ExecutedTrajectory], store: Store) -> dict[str, Decided]:
    """Task → what the judge of the last screen says. A server of the OpenAI protocol stands in for its model: it says
    no to whatever it is shown, so these say only that each run could be judged."""
    ended = [(run, run.end.screenshot_sha256) for run in runs if run.failure_kind is None and run.end is not None]
    with ScriptedJudge(lambda question: {"success": "no"}) as server:
        judge = FinalFrameJudge(ModelClient(server.url, "stand-in", None))
        found = {run.contract.task_id: decide(run, store.screen_bytes(sha), judge) for run, sha in ended}
        judge.close()
    return found


def figures(store: Store, sources: Sequence[str] = RECORDED, size: Size = "demo") -> list[Figure]:
    """What becomes of the dynamic tasks; limited is the share of those that name an app."""
    with keep_browser():
        for source in sources:
            build_raw(store, source, store.home / "raw" / source, size=size)
    pool = recorded_tasks(store, sources, store.home)
    rows, unopened = pool.read("tasks", Tasks.schema).to_pylist(), pool.counts["unopened"]
    tasks, _ = runnable_tasks(rows, PLATFORMS, BROWSER_WORLDS, judged=True)
    runs = played(tasks, store)
    judged = verdicts(runs, store)
    broken = tuple(f"{run.contract.target}: {run.failure[:100]}" for run in runs if run.failure_kind is not None)
    named = len(rows) - unopened.get(NO_APP, 0)
    acted = sum(any(turn.action is not None and not turn.error for turn in run.turns) for run in runs)
    decided = sum(one.judged and one.success is not None for one in judged.values())
    return [
        share("dynamic tasks that name an app", named, len(rows)),
        share("of these: a world here shows it", len(tasks), named),
        share("of these: opened, a policy acted", acted, named, LEAST),
        replace(share("of these: judged", decided, named, LEAST), examples=broken),
    ]
