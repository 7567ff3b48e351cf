"""`vesper judge` and `vesper refine` on the output folder of `vesper unify`, without a store.

Reads `steps*.parquet`, `samples*.parquet`, `screens*.parquet` and `screens/`; writes `verdicts.parquet`,
`costs.parquet` and `report.json`, and for refine the gold tables, `rejects.parquet` and the screens they show.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.commands import read_tables, write_report
from quality.items.item import Part
from quality.items.screens import ScreenBank, ScreenFolder
from quality.judges.judge import JudgeError, Verdict, identity
from quality.judges.registry import JudgeConfig, build_judge, build_rewriter, report_of, requests_sent
from quality.judges.verdicts import count as count_verdicts
from quality.judges.verdicts import judge_part, shares
from quality.refinement.claims import load_claim, risks_of, write_risks
from quality.refinement.gold import Rejects, count, first_keep, gold_tables, licence_of, summary
from quality.refinement.refine import refine_part
from schemas.tables import JudgeCosts, Samples, Screens, Steps, Verdicts


def judge_directory(in_dir: Path, out_dir: Path, config: JudgeConfig | None = None) -> dict[str, Any]:
    """Judge a unified folder by the rules or what `config` says; returns the report. Raises `ValueError` on bad input,
    `JudgeError` if a model fails."""
    part = read_directory(in_dir)
    chosen = build_judge(_with_cache(config, out_dir))
    verdicts = judge_part(part, chosen)
    out_dir.mkdir(parents=True, exist_ok=True)
    _write_verdicts(out_dir, verdicts)
    report = {**identity(chosen), **shares(count_verdicts(verdicts)), "requests_sent": requests_sent(chosen)}
    report["pending"] = sum(verdict.pending for verdict in verdicts)
    if own := report_of(chosen):
        report[chosen.name] = own
    return write_report(out_dir, report)


def _with_cache(config: JudgeConfig | None, out_dir: Path) -> JudgeConfig:
    config = config or JudgeConfig()
    return config if config.cache is not None else replace(config, cache=out_dir / "cache" / "judge")


def refine_directory(
    in_dir: Path, out_dir: Path, config: JudgeConfig | None = None, max_rounds: int = 3
) -> dict[str, Any]:
    """Judge, repair and judge again until nothing changes; writes gold `steps.parquet`, `samples.parquet`,
    `screens.parquet`, `screens/`, `rejects.parquet`, all verdicts and risks, `report.json`."""
    part = read_directory(in_dir)
    config = _with_cache(config, out_dir)
    chosen, rewriter = build_judge(config), build_rewriter(config)
    first = judge_part(part, chosen)
    if waiting := sum(verdict.pending for verdict in first):
        raise JudgeError(f"{waiting} of {len(first)} items aren't judged: a ceiling was reached; run again later")
    refined = refine_part(part, first, chosen, rewriter, max_rounds)
    names = sorted({*part.steps.column("source").to_pylist(), *part.samples.column("source").to_pylist()})
    steps, samples = gold_tables(part, refined, licence_of(names[0]) if len(names) == 1 else "unknown")
    out_dir.mkdir(parents=True, exist_ok=True)
    pq.write_table(steps, out_dir / "steps.parquet")
    pq.write_table(samples, out_dir / "samples.parquet")
    pq.write_table(Rejects.table(reject.as_row() for reject in refined.rejects), out_dir / "rejects.parquet")
    _write_screens(part, steps, samples, out_dir)
    _write_verdicts(out_dir, [*first, *refined.verdicts])
    totals: Counter[str] = Counter({**count(part, refined), "samples": samples.num_rows})
    totals["first_keep"] = first_keep(first)
    report = {**identity(chosen), "rewriter": rewriter.name, "rounds": refined.rounds, **summary(totals)}
    claim = load_claim(config.nano) if config.name == "nano" and config.nano is not None else None
    risks = risks_of([*first, *refined.verdicts])
    write_risks(out_dir, risks)
    report["share_claimed"] = None if claim is None else claim.share(risks, [*refined.steps, *refined.samples])
    return write_report(out_dir, report)


def read_directory(in_dir: Path) -> Part:
    """The output folder of `vesper unify` as one part. Raises `ValueError` if it isn't one."""
    steps, samples = read_tables(in_dir, "steps", Steps), read_tables(in_dir, "samples", Samples)
    screens = read_tables(in_dir, "screens", Screens)
    if not steps.num_rows and not samples.num_rows:
        raise ValueError(f"{in_dir}: expected steps*.parquet or samples*.parquet with rows, made by `vesper unify`")
    return Part("directory", steps, samples, screens, ScreenBank(screens, ScreenFolder(in_dir / "screens")))


def _write_verdicts(out_dir: Path, verdicts: list[Verdict]) -> None:
    judged = [verdict.as_row() for verdict in verdicts if not verdict.pending]
    pq.write_table(Verdicts.table(judged), out_dir / "verdicts.parquet")
    costs = [row for verdict in verdicts if (row := verdict.cost_row()) is not None]
    pq.write_table(JudgeCosts.table(costs), out_dir / "costs.parquet")


def _write_screens(part: Part, steps: pa.Table, samples: pa.Table, out_dir: Path) -> None:
    shown = {sha for sha in steps.column("screenshot_sha256").to_pylist() if sha}
    shown |= {sha for images in samples.column("images").to_pylist() for sha in images}
    known = part.screens.column("screenshot_sha256").to_pylist()
    kept = part.screens.filter(pa.array([sha in shown for sha in known], pa.bool_()))
    pq.write_table(kept, out_dir / "screens.parquet")
    folder = part.bank.source
    assert isinstance(folder, ScreenFolder)
    for sha in sorted(shown):
        source = folder.path(sha)
        target = out_dir / "screens" / sha[:2] / source.name
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
