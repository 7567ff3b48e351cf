"""`vesper judge` on the output folder of `vesper unify`, without a store.

Reads `steps*.parquet`, `samples*.parquet`, `screens*.parquet` and `screens/`; writes `verdicts.parquet`,
`costs.parquet` and `report.json`. Parts, and what of them is done, lie in `OUT/.store`.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.commands import SOURCE, refuse_failed, write_report
from pipelines.engines.run_parts import Execution
from pipelines.extensions import is_outside
from pipelines.store import Store
from quality.commands.folder_store import unified_folder
from quality.evidence.episode import Habits
from quality.items.folder import read_directory
from quality.items.part import SourcePart
from quality.judges.judge import Judge, identity
from quality.judges.registry import JudgeConfig, build_judge, report_of, requests_sent
from quality.judges.verdicts import Pending, judge_source
from quality.refinement.dual_review import JudgeReviewer, RulesReviewer, dual_review, outcomes_of
from schemas.ids import canonical_json
from schemas.tables import JudgeCosts, Steps, Verdicts


def judge_directory(
    in_dir: Path,
    out_dir: Path,
    config: JudgeConfig | None = None,
    dual: bool = False,
    execution: Execution | None = None,
) -> dict[str, object]:
    """Judge a unified folder by the rules or what `config` says; returns the report. `execution` says who runs its
    parts, which are those of the graph; judges that ask a model run here.

    `dual`: the rules review every step first and the judge arbitrates (`quality.refinement.dual_review`), which writes
    `candidates.parquet`, rows of `steps` for gold, and `disputes.jsonl`, which judges can learn from.

    Raises `ValueError` on bad input, and where a check of the verdicts fails; `ModelError` if a model fails.
    """
    config = with_cache(config, out_dir)
    chosen, store = build_judge(config), Store(out_dir / ".store")
    unified_folder(store, in_dir, execution or Execution())
    forget_answers_of_others(store, (config.name, *config.members), "verdicts")
    manifest = judge_source(store, SOURCE, chosen, config=config, execution=execution)
    for name, table in (("verdicts", Verdicts), ("costs", JudgeCosts)):
        pq.write_table(manifest.read(name, table.schema), out_dir / f"{name}.parquet")
    counts = {name: value for name, value in manifest.counts.items() if name != "bill"}
    report = {**identity(chosen), **counts, "requests_sent": requests_sent(chosen)}
    report["pending"] = manifest.read("pending", Pending.schema).num_rows
    if dual:
        report["dual_review"] = _dual(read_directory(in_dir), chosen, out_dir)
    # Under the judge's own name, as what it has to say differs from judge to judge.
    if own := report_of(chosen):
        report[chosen.name] = own
    write_report(out_dir, report)
    refuse_failed(manifest, f"verdicts of {in_dir}")
    return report


def _dual(part: SourcePart, judge: Judge, out_dir: Path) -> dict[str, int]:
    """Review every step twice and write what comes of it; returns how many came to each outcome."""
    # Of the whole folder: both reviewers know the same habits, or they would differ by that.
    habits = Habits.of(part.episodes)
    rulings = list(dual_review(part.episodes, RulesReviewer(habits), JudgeReviewer(judge, habits)))
    # Only what both came to agree on is a candidate; the rest stays out of gold.
    rows = [row for one in rulings if (row := one.candidate) is not None]
    pq.write_table(Steps.table(rows), out_dir / "candidates.parquet")
    disputes = [canonical_json(one.as_dispute()) for one in rulings if one.outcome == "disputed"]
    (out_dir / "disputes.jsonl").write_text("".join(f"{line}\n" for line in disputes), encoding="utf-8")
    return outcomes_of(rulings)


def forget_answers_of_others(store: Store, names: Sequence[str], *stages: str) -> None:
    """Removes what these stages made if a judge or deriver among `names` is the caller's own: it is edited between two
    calls, and says nothing of that."""
    if any(map(is_outside, names)):
        for stage in stages:
            shutil.rmtree(store.root(f"{stage}/{SOURCE}"), ignore_errors=True)


def with_cache(config: JudgeConfig | None, out_dir: Path) -> JudgeConfig:
    """The config (None: the rules judge), with a cache of answers below the output folder unless it names one."""
    config = config or JudgeConfig()
    return config if config.cache is not None else replace(config, cache=out_dir / "cache" / "judge")
