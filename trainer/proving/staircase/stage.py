"""The staircase as an asset, `staircase/web`: one seed's rows and report; its stages' checkpoints aren't kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import CheckSpec, Manifest
from schemas.ids import digest
from trainer.modeling.tensors import WeightFiles
from trainer.proving.staircase.report import MARKDOWN, PICTURE, RECORDS, REPORT
from trainer.runtime.tracking import OnEvent
from trainer.settings.measuring import StaircaseForm
from trainer.stages.settings import weights_folder

if TYPE_CHECKING:
    from trainer.proving.staircase.config import StaircaseConfig

ASSET, CODE_VERSION = "staircase/web", "2"
ROWS_COUNTED = CheckSpec("attempts of every row counted", "Every attempt of a row was lost to a device")
CHECKS = (ROWS_COUNTED,)


def config_of(wanted: StaircaseForm) -> StaircaseConfig:
    """The staircase that the trainer's settings ask for."""
    from trainer.proving.staircase.config import long_form, short_form

    form = short_form if wanted.form == "short" else long_form
    return form("web", wanted.seed, weights_folder(wanted.base))


def build_staircase(store: Store, config: StaircaseConfig, on_event: OnEvent | None = None) -> Manifest:
    """Climb the staircase, or go on where a killed call stopped; equal settings and weights do no work twice."""

    base = WeightFiles(Path(config.base)).digest() if config.base else ""  # the same folder may hold others tomorrow
    plain = {**config.plain(), "base": base}
    spec = PartSpec("staircase", digest([CODE_VERSION, plain]))
    work = store.home / "cache" / "training" / f"staircase-{spec.inputs_digest[:16]}"

    def climb(out: PartWriter) -> dict[str, object]:
        from trainer.proving.staircase.run import run_staircase, seed_folder

        report = run_staircase(work, config, on_event)
        folder = seed_folder(work, config)
        for name in (REPORT, RECORDS, MARKDOWN, PICTURE):
            out.bytes(name, (folder / name).read_bytes(), hashed=name == RECORDS)  # the others hold seconds, too
        rows = report["rows"]
        return {f"{row} {part}": rows[row][part]["mean"] for row in rows for part in ("greedy", "pass_at_k")}

    with store.build(ASSET, code_version=CODE_VERSION, config=plain, inputs={}, parts=[spec]) as build:
        counts = build.run_part(spec, climb).counts
        lost = [name for name, mean in counts.items() if mean is None]
        checks = [ROWS_COUNTED.check(not lost, ", ".join(lost) or "all", "all rows", len(lost), 0)]
        manifest = build.commit(counts=counts, checks=checks)
    # Only after the commit: until then the folder is what a killed call goes on from.
    shutil.rmtree(work, ignore_errors=True)
    return manifest
