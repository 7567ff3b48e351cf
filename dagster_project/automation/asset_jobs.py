"""The jobs, each a part of the graph; what starts them stands in the files beside this one.

The refresh runs nightly (`schedules`) and for new native files (`new_files`), the corpus when refreshes have ended in
whatever state (`corpus_after_refresh`), and the training tail by a condition on its inputs' data versions
(`training_tail`). No asset has both a schedule and a condition.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_project.assets import upstream
from dagster_project.assets.keys import asset_key
from dagster_project.stages.stage import GraphStage

RETRIES = {"observe_upstream": 0, "train": 5, "train_others": 5}
"""How often a run of a job is taken up again when its process died; all others as `dagster.yaml` says."""
ONE_AT_A_TIME = "vesper/one_at_a_time"
"""Runs whose tag has the same value wait for each other (`dagster.yaml`): two runs of a job would make the same assets,
and the second one would find their locks taken."""


def jobs(stages: Mapping[str, GraphStage]) -> dict[str, Any]:
    """`observe_upstream` (new revisions), `refresh_sources` (raw to gold), `generate_round` and `collect_rounds` (the
    generation loop), `build_corpus` (what sees all sources), `train` (checkpoints, evaluations), `train_others`
    (checkpoints beside the agent's), `evaluate_suites`, `measure_worth`."""
    facts = {
        "refresh_sources": "Native files to gold, source by source; what hasn't changed is skipped.",
        "generate_round": "One round of the generation loop: catalogue, tasks, trajectories, verdicts.",
        "collect_rounds": "Verified trajectories of all rounds into the corpus and the task pool.",
        "build_corpus": "Hygiene, shards, mixture, task pool, from each source's last good gold.",
        "train": "Checkpoints, evaluations, episodes, standings, nano judge; the staircase, which nothing else starts.",
        "train_others": "Checkpoints that the agent isn't made of, with evaluations: distillation, or merges; other "
        "domains' specialists.",
        "evaluate_suites": "The merged agent on worlds, and on the benchmarks whose files are here.",
        "measure_worth": "What sources, rules and mixtures are worth to the agent, by probes.",
    }
    seen = [upstream.key_of(name) for name in upstream.names_of(stages)]
    chosen = {name: [asset_key(stage.key) for stage in stages.values() if stage.job == name] for name in facts}
    # The observation comes first within the run, so raw is built from what is there now.
    chosen["refresh_sources"] += seen  # so that raw is built from what was seen last
    facts["observe_upstream"] = "Looks for new revisions of the sources; makes nothing."
    chosen["observe_upstream"] = seen
    return {
        name: dg.define_asset_job(name, dg.AssetSelection.assets(*chosen[name]), description=text, tags=tags_of(name))
        for name, text in facts.items()
    }


def tags_of(job: str) -> dict[str, str]:
    """Tags of a job's runs: which of them wait for each other, and how often one that died is taken up again."""
    return {ONE_AT_A_TIME: job, **({"dagster/max_retries": str(RETRIES[job])} if job in RETRIES else {})}
