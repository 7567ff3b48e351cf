"""`vesper refine` on the output folder of `vesper unify`, without a store.

Reads what `vesper judge` reads; writes the gold tables, `rejects.parquet`, the screens they show, all verdicts and
risks, and `report.json`.
"""

import contextlib
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.commands import write_report
from pipelines.derivers.derive import find_deriver
from pipelines.prompts.history import USUAL_HISTORY, HistoryConfig
from quality.commands.judge import with_cache, write_verdict_tables
from quality.items.folder import read_directory
from quality.items.part import SourcePart
from quality.items.screens import ScreenFolder
from quality.judges.judge import identity
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import judge_part
from quality.model_client.client import ModelClient
from quality.model_client.errors import ModelError
from quality.refinement.claims import load_claim, risks_of, write_risks
from quality.refinement.gold import Rejects, count, first_keep, gold_tables, licence_of, summary
from quality.refinement.refine import Refined, refine_part
from quality.refinement.rewriters import build_rewriter
from quality.refinement.taught_thoughts import teach_thoughts

REASONS_SHOWN = 12
"""Reasons of rejected items that the report counts, the commonest first."""


def refine_directory(
    in_dir: Path,
    out_dir: Path,
    config: JudgeConfig | None = None,
    max_rounds: int = 3,
    derivers: tuple[str, ...] = (),
    teacher: "ThoughtTeachers | None" = None,
    history: HistoryConfig = USUAL_HISTORY,
) -> dict[str, object]:
    """Judge, repair and judge again until nothing changes; writes gold `steps.parquet`, `samples.parquet`,
    `screens.parquet`, `screens/`, `rejects.parquet`, all verdicts and risks, `report.json`. `derivers` are those of
    others, by import path or file: they make samples, too. `teacher` writes thoughts for gold steps that have none,
    `history` is how prompts show the steps before. Raises `ValueError` for one that isn't a deriver."""
    for name in derivers:  # before any model is paid
        find_deriver(name)
    part = read_directory(in_dir)
    config = with_cache(config, out_dir)
    chosen, rewriter = build_judge(config), build_rewriter(config)
    first = judge_part(part, chosen)
    # Before any repair: what has no verdict would be taken for refused.
    if waiting := sum(verdict.pending for verdict in first):
        raise ModelError(f"{waiting} of {len(first)} items aren't judged: a ceiling was reached; run again later")
    refined = refine_part(part, first, chosen, rewriter, max_rounds)
    taught: dict[str, object] = {}
    if teacher is not None:
        taught = {"thoughts": _teach(refined, part, teacher, out_dir)}
    names = sorted({*part.steps.column("source").to_pylist(), *part.samples.column("source").to_pylist()})
    # Samples of several sources have no one licence that could be said of them all.
    licence = licence_of(names[0]) if len(names) == 1 else "unknown"
    steps, samples = gold_tables(part.screens, refined, licence, derivers, history)
    out_dir.mkdir(parents=True, exist_ok=True)
    pq.write_table(steps, out_dir / "steps.parquet")
    pq.write_table(samples, out_dir / "samples.parquet")
    pq.write_table(Rejects.table(reject.as_row() for reject in refined.rejects), out_dir / "rejects.parquet")
    _write_screens(part, steps, samples, out_dir)
    write_verdict_tables(out_dir, [*first, *refined.verdicts])
    totals: Counter[str] = Counter({**count(part, refined), "samples": samples.num_rows})
    totals["first_keep"] = first_keep(first)
    report = {**identity(chosen), "rewriter": rewriter.name, "rounds": refined.rounds, **summary(totals), **taught}
    report["rejected"] = dict(Counter(reject.reason for reject in refined.rejects).most_common(REASONS_SHOWN))
    # Only a trained judge comes with what its risks were worth on a bench, from which a share is claimed.
    claim = load_claim(config.nano) if config.name == "nano" and config.nano is not None else None
    risks = risks_of([*first, *refined.verdicts])
    write_risks(out_dir, risks)
    report["share_claimed"] = None if claim is None else claim.share(risks, [*refined.steps, *refined.samples])
    return write_report(out_dir, report)


@dataclass(frozen=True, slots=True)
class ThoughtTeachers:
    """Which model writes thoughts, and which reads them again; both behind one endpoint."""

    base_url: str
    model: str
    reader: str


def _teach(refined: Refined, part: SourcePart, teacher: ThoughtTeachers, out_dir: Path) -> dict[str, object]:
    """Write thoughts into the refined steps; returns how many were written and declined."""
    cache = out_dir / "cache" / "thoughts"
    with contextlib.ExitStack() as stack:
        clients = [ModelClient(teacher.base_url, name, cache) for name in (teacher.model, teacher.reader)]
        # Closed whatever happens: their answers are in a file that others may wait for.
        for client in clients:
            stack.callback(client.close)
        taught = teach_thoughts(refined.steps, part.bank, *clients)
    refined.steps = taught.rows
    return taught.summary


def _write_screens(part: SourcePart, steps: pa.Table, samples: pa.Table, out_dir: Path) -> None:
    # Screens that only discarded items showed aren't needed any more.
    shown = {sha for sha in steps.column("screenshot_sha256").to_pylist() if sha}
    shown |= {sha for images in samples.column("images").to_pylist() for sha in images}
    known = part.screens.column("screenshot_sha256").to_pylist()
    retained = part.screens.filter(pa.array([sha in shown for sha in known], pa.bool_()))
    pq.write_table(retained, out_dir / "screens.parquet")
    folder = part.bank.source
    assert isinstance(folder, ScreenFolder)
    for sha in sorted(shown):
        source = folder.path(sha)
        target = out_dir / "screens" / sha[:2] / source.name
        # A name by content: what lies there is what would be copied.
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
