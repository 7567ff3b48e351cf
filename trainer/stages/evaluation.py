"""The function of the evaluation stages: held-out figures of one checkpoint, beside their controls."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from schemas.ids import canonical_json
from trainer.data.clusters import picture_key
from trainer.data.rows import light_rows, screen_elements, with_pictures
from trainer.evaluation.controls import BlindTable
from trainer.evaluation.evaluate import choose, evaluate
from trainer.evaluation.records import Records
from trainer.modeling.checkpoint import load_checkpoint
from trainer.settings.stage_checks import ALL_SAMPLES_PUT, CONTROLS_BESIDE_GROUNDING
from trainer.settings.stages import CORPUS, HELDOUT
from trainer.stages.context import Context, StageResult

REPORT = "evaluation.json"
RECORDS = "part-evaluation.records.parquet"


def evaluation(context: Context, folder: Path) -> StageResult:
    """Evaluate `checkpoints/<name>` on the held-out samples that every checkpoint gets."""
    config = context.settings.evaluate
    heldout = context.inputs[HELDOUT]
    # Chosen before pictures are decoded, which cost most.
    rows = with_pictures(heldout, choose(light_rows(heldout, ("test",)), config))
    if not rows:
        raise ValueError(f"{HELDOUT} {heldout.version}: no grounding or navigation sample that can be checked")
    # From the training rows: what a guess without a screen would say.
    blind = BlindTable(light_rows(context.inputs[CORPUS], ("train",)))
    sources = sorted({str(row["source"]) for row in rows})
    elements = screen_elements(context.store, sources, {picture_key(row) for row in rows})
    torch.set_num_threads(config.threads)
    checkpoint = load_checkpoint(context.folder(context.stage.partition("/")[2]), device=context.device)
    report = evaluate(
        checkpoint, rows, config, blind=blind, elements=elements, on_event=context.on_event, progress=context.progress
    )
    records = report.pop("records")
    (folder / REPORT).write_text(canonical_json(report) + "\n", encoding="utf-8")
    pq.write_table(_table(records), folder / RECORDS, compression="zstd")
    # Unreadable ones are counted, not hidden: they are failures of pictures, not of the model.
    counts: dict[str, Any] = {"samples": len(records), "unreadable": report["unreadable"]}
    for name, found in report["summary"].items():
        main = "hit" if name == "grounding" else "step"
        for measure in (main, "type", "format", "reward"):
            if measure in found:
                counts[f"{name} {measure}"] = found[measure]["mean"]
        counts[f"{name} unreadable_share"] = found["unreadable_share"]
    checks = [
        ALL_SAMPLES_PUT.check(len(records) + report["unreadable"] == len(rows), len(records), len(rows)),
        CONTROLS_BESIDE_GROUNDING.check(
            _controlled(report["summary"]),
            str(sorted(report["summary"])),
            "blind, random element and swapped screen measured",
        ),
    ]
    return StageResult(folder, counts, checks)


def _controlled(summary: dict[str, Any]) -> bool:
    # Without grounding questions there is nothing to control.
    if "grounding" not in summary or summary["grounding"]["present"]["n"] == 0:
        return True
    return all(summary["grounding"]["controls"][name]["n"] > 0 for name in ("blind", "random_element", "swapped"))


def _table(records: list[dict[str, object]]) -> pa.Table:
    """One row per sample, columns by name; a measure that a sample has not is null. Raises `ValueError` for one that
    `Records` doesn't say."""
    names = sorted({name for record in records for name in record})
    if unknown := set(names) - set(Records.schema.names):
        raise ValueError(f"records: unknown column {sorted(unknown)}; known are {Records.schema.names}")
    # Types of the declared schema, so that versions of different code concatenate.
    types = {name: Records.schema.field(name).type for name in names}
    return pa.table({name: pa.array([record.get(name) for record in records], types[name]) for name in names})
