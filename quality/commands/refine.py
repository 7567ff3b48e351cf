"""`vesper refine` on the output folder of `vesper unify`, without a store.

Reads what `vesper judge` reads; writes the gold tables, `rejects.parquet`, the screens they show, all verdicts and
risks, and `report.json`. Parts, and what of them is done, lie in `OUT/.store`: they are those of the graph.
"""

import contextlib
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.commands import SOURCE, refuse_failed, write_report
from pipelines.derivers.derive import find_deriver
from pipelines.engines.run_parts import Execution
from pipelines.prompts.history import USUAL_HISTORY, HistoryConfig
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from quality.commands.folder_store import unified_folder
from quality.commands.judge import forget_answers_of_others, with_cache
from quality.judges.judge import identity
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import Risks, judge_source
from quality.model_client.errors import ModelError
from quality.refinement.claims import load_claim, write_risks
from quality.refinement.gold import Rejects, build_gold, licence_of
from quality.refinement.rewriters import build_rewriter
from quality.refinement.taught_thoughts import ThoughtTeachers
from schemas.tables import JudgeCosts, Samples, Screens, Steps, Verdicts

REASONS_SHOWN = 12
"""Reasons of rejected items that the report counts, the commonest first."""


def refine_directory(
    in_dir: Path,
    out_dir: Path,
    config: JudgeConfig | None = None,
    max_rounds: int = 3,
    derivers: tuple[str, ...] = (),
    teachers: ThoughtTeachers | None = None,
    history: HistoryConfig = USUAL_HISTORY,
    execution: Execution | None = None,
) -> dict[str, object]:
    """Judge, repair and judge again until nothing changes; writes gold `steps.parquet`, `samples.parquet`,
    `screens.parquet`, `screens/`, `rejects.parquet`, all verdicts and risks, `report.json`. `derivers` are those of
    others, by import path or file: they make samples, too. `teachers` write thoughts for gold steps that have none,
    `history` is how prompts show the steps before, `execution` says who runs the parts. Raises `ValueError` for one
    that isn't a deriver and where the judge abstains from everything, `ModelError` where items are left unjudged."""
    for name in derivers:  # before any model is paid
        find_deriver(name)
    config, store = with_cache(config, out_dir), Store(out_dir / ".store")
    chosen, rewriter = build_judge(config), build_rewriter(config)
    unified = unified_folder(store, in_dir, execution or Execution())
    forget_answers_of_others(store, (config.name, *config.members), "verdicts", "gold")
    forget_answers_of_others(store, derivers, "gold")
    first = judge_source(store, SOURCE, chosen, config=config, execution=execution)
    # Before any repair: what has no verdict would be taken for refused.
    if waiting := first.counts["pending"]:
        items = first.counts["items"]
        raise ModelError(f"{waiting} of {items} items aren't judged: a ceiling was reached; run again later")
    refuse_failed(first, f"verdicts of {in_dir}")
    with teachers.clients(out_dir / "cache" / "thoughts") if teachers else contextlib.nullcontext() as clients:
        gold = build_gold(
            store,
            SOURCE,
            chosen,
            rewriter,
            max_rounds,
            derivers,
            history=history,
            judge_config=config,
            execution=execution,
            licence=_licence(unified),
            teachers=clients,
        )
    both = (first, gold)
    rejects, verdicts = gold.read("rejects", Rejects.schema), _joined(both, "verdicts", Verdicts.schema)
    steps, samples = gold.read("steps", Steps.schema), gold.read("samples", Samples.schema)
    tables = {"steps": steps, "samples": samples, "rejects": rejects, "verdicts": verdicts}
    for name, table in {**tables, "costs": _joined(both, "costs", JudgeCosts.schema)}.items():
        pq.write_table(table, out_dir / f"{name}.parquet")
    _write_screens(store, unified, steps, samples, out_dir)
    report = {**identity(chosen), "rewriter": rewriter.name, "rounds": max(verdicts["round"].to_pylist(), default=0)}
    report |= gold.counts
    report["rejected"] = dict(Counter(rejects["reason"].to_pylist()).most_common(REASONS_SHOWN))
    # Only a trained judge comes with what its risks were worth on a bench, from which a share is claimed.
    claim = load_claim(config.nano) if config.name == "nano" and config.nano is not None else None
    found = _joined(both, "risks", Risks.schema)
    risks = dict(zip(found["item_id"].to_pylist(), found["risk"].to_pylist(), strict=True))
    write_risks(out_dir, risks)
    report["share_claimed"] = claim.share(risks, [*steps.to_pylist(), *samples.to_pylist()]) if claim else None
    return write_report(out_dir, report)


def _joined(manifests: tuple[Manifest, ...], name: str, schema: pa.Schema) -> pa.Table:
    """A table of round 0, then of the later ones."""
    return pa.concat_tables([manifest.read(name, schema).cast(schema) for manifest in manifests])


def _licence(unified: Manifest) -> str:
    both = (("steps", Steps.schema), ("samples", Samples.schema))
    names = {source for name, schema in both for source in unified.read(name, schema, ["source"])["source"].to_pylist()}
    # Samples of several sources have no one licence that could be said of them all.
    return licence_of(names.pop()) if len(names) == 1 else "unknown"


def _write_screens(store: Store, unified: Manifest, steps: pa.Table, samples: pa.Table, out_dir: Path) -> None:
    # Screens that only discarded items showed aren't needed any more.
    shown = {sha for sha in steps.column("screenshot_sha256").to_pylist() if sha}
    shown |= {sha for images in samples.column("images").to_pylist() for sha in images}
    screens = unified.read("screens", Screens.schema)
    known = screens.column("screenshot_sha256").to_pylist()
    # A screen of several parts stands in each of them.
    last = {sha: place for place, sha in enumerate(known) if sha in shown}
    pq.write_table(screens.take(pa.array(sorted(last.values()), pa.int64())), out_dir / "screens.parquet")
    for sha in sorted(shown):
        source = store.screen_path(sha)
        target = out_dir / "screens" / sha[:2] / source.name
        # A name by content: what lies there is what would be copied.
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
