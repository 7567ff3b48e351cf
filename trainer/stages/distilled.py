"""The function of the stage `distilled`: several teachers into one agent, on its own replies."""

from __future__ import annotations

from pathlib import Path

from trainer.distill.train import DomainRows, distill
from trainer.runtime.tracking import Watch
from trainer.settings.stage_checks import TAUGHT_HELD
from trainer.stages.checkpoints import MODEL
from trainer.stages.checks import did_not_fall, loads, moved_finitely
from trainer.stages.context import Context, StageResult
from trainer.stages.rl_rows import rl_rows


def distilled(context: Context, folder: Path) -> StageResult:
    """Distillation from the mid-trained checkpoint; the teachers are those of `distilled.teachers`."""
    settings = context.settings.distilled
    rows = {}
    for domain in settings.teachers.of_domains:
        stored = rl_rows(context, settings.of_domain(domain))
        rows[domain] = DomainRows(stored.train, stored.held_out, stored.validation)
    with Watch(context.state_dir, context.on_event, progress=context.progress, label=context.stage) as watch:
        result = distill(
            context.start,
            {name: context.folder(name) for name in settings.teachers.names},
            rows,
            folder / MODEL,
            settings,
            state_dir=context.state_dir,
            parents=context.parents,
            on_event=watch,
            device=context.device,
        )
    found = result.metrics
    gain = found["success_gain"]
    counts = {
        "teachers": len(settings.teachers.names),
        **{word: found[word] for word in ("updates", "peak_update", "weight_delta", "weight_delta_norm")},
        "success_gain": gain["mean"],
        "success_gain_low": gain["low"],
        "success_gain_high": gain["high"],
    }
    for domain, one in found["domains"].items():
        counts |= {f"{domain}_success_{when}": one[when]["step_success"] for when in ("before", "after")}
    checks = [
        loads(folder / MODEL),
        TAUGHT_HELD.check(*did_not_fall(gain, f"{gain['mean']:.4f}")),
        moved_finitely(found),
    ]
    return StageResult(folder, counts, checks)
