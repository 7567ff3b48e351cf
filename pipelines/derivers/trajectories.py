"""Judged trajectories → samples of the corpus and samples that train judges, by the derivers that settings name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from pipelines.derivers import dynamics, error_recovery, page_levels, planning, reflection, step_data
from pipelines.derivers.base import DeriveConfig, Episode
from pipelines.derivers.derive import sample_row, screen_facts, usable_elements
from pipelines.derivers.trajectory import JudgedTrajectory, RunVerdict, TrajectoryDeriver, TrajectorySample, refusal
from pipelines.extensions import find_part
from schemas.rows import SampleRow
from schemas.tables import Samples, Screens, Steps

TRAJECTORIES_VERSION = 1
"""Version of the whole set: part of the code version of the stage that calls it."""
TRAJECTORY_DERIVERS: dict[str, TrajectoryDeriver] = {
    "step_data": TrajectoryDeriver(step_data.step_data),
    "error_recovery": TrajectoryDeriver(error_recovery.error_recovery),
    "reflection": TrajectoryDeriver(reflection.reflection),
    "dynamics": TrajectoryDeriver(dynamics.dynamics),
    "planning": TrajectoryDeriver(planning.planning),
    "page_levels": TrajectoryDeriver(page_levels.page_levels),
}


@dataclass(frozen=True)
class TrajectorySamples:
    """What was accepted, as two `Samples` tables: for the corpus, and for judges. `kinds` counts accepted samples by
    kind, `refused` the others by reason."""

    corpus: pa.Table
    judges: pa.Table
    kinds: Mapping[str, int]
    refused: Mapping[str, int]

    @property
    def shown(self) -> list[list[str]]:
        """The pictures of each sample, of both tables."""
        return [*self.corpus["images"].to_pylist(), *self.judges["images"].to_pylist()]


def find_trajectory_deriver(name: str) -> TrajectoryDeriver:
    """A deriver by its name, or by an import path or file. Raises `ValueError` for what isn't one."""
    found: object = find_part("trajectory deriver", name, TRAJECTORY_DERIVERS)
    if not isinstance(found, TrajectoryDeriver):
        raise ValueError(f"trajectory deriver {name!r}: expected a TrajectoryDeriver, found a {type(found).__name__}")
    return found


def judged_trajectories(
    steps: pa.Table, screens: pa.Table, verdicts: Mapping[str, RunVerdict], config: DeriveConfig | None = None
) -> Iterator[JudgedTrajectory]:
    """Steps and screens → the runs that have a verdict (by episode id), in the order of their ids. Raises `ValueError`
    if a table isn't of its schema."""
    Steps.check(steps)
    Screens.check(screens)
    order = [("source", "ascending"), ("episode_id", "ascending"), ("step_index", "ascending")]
    rows: Episode = steps.sort_by(order).drop_columns(["native_action", "language"]).to_pylist()
    facts = screen_facts(rows, screens, config or DeriveConfig())
    listed = zip(screens["screenshot_sha256"].to_pylist(), screens["elements"].to_pylist(), strict=True)
    # Once for all runs, as they share pictures.
    elements = {sha: tuple(usable_elements(found)) for sha, found in listed}
    for (_, episode), group in groupby(rows, key=lambda row: (row["source"], row["episode_id"])):
        if episode in verdicts:
            yield JudgedTrajectory(list(group), verdicts[episode], facts, elements)


def derive_trajectories(
    runs: Iterable[JudgedTrajectory], derivers: Sequence[str], *, licence: str, synthetic: bool = False
) -> TrajectorySamples:
    """The samples of runs by named derivers, as far as `refusal` accepts them. Rows are ordered by (objective,
    sample_id). Raises `ValueError` for a deriver that there isn't."""
    found = [find_trajectory_deriver(name) for name in derivers]
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    rows: dict[str, tuple[bool, SampleRow]] = {}
    for run in runs:
        for made in (made for deriver in found for made in deriver.derive(run)):
            name = made.sample.id
            # The first of two samples of one id stays, and the others are counted.
            reason = "twice" if name in rows else refusal(run, made)
            if reason:
                refused[reason] += 1
                continue
            kinds[made.kind] += 1
            rows[name] = made.stage == "judge_training", _row(run, made, name, licence, synthetic)
    # Samples for judges never mix with the corpus that policies train on.
    corpus, judges = ([row for judge, row in rows.values() if judge == wanted] for wanted in (False, True))
    return TrajectorySamples(_table(corpus), _table(judges), dict(sorted(kinds.items())), dict(sorted(refused.items())))


def _table(rows: list[SampleRow]) -> pa.Table:
    return Samples.table(sorted(rows, key=lambda row: (row["objective"], row["sample_id"])))


def _row(run: JudgedTrajectory, made: TrajectorySample, name: str, licence: str, synthetic: bool) -> SampleRow:
    """A row whose parents name the trajectory, whatever the deriver said of it."""
    verdict = run.verdict
    said = {"kind": made.kind, "stage": made.stage, "decision": verdict.decision, "score": verdict.score}
    row = sample_row(made.sample, name, licence, synthetic, run.facts.config, said)
    row["parents"] = list(dict.fromkeys((run.item_id, *row["parents"])))
    return row
