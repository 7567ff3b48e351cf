"""The functions of the stages `distilled`, several teachers into one agent on its own replies, and `unified`, which is
that or the TIES merge."""

import shutil
from pathlib import Path

from trainer.distill.train import DomainRows, distill
from trainer.modeling.checkpoint import LINEAGE, load_checkpoint, read_lineage, write_lineage
from trainer.modeling.model import parameter_count
from trainer.runtime.tracking import Watch
from trainer.settings.stage_checks import TAUGHT_HELD
from trainer.settings.stages import DISTILLED
from trainer.stages.checkpoints import MODEL, ties_merge
from trainer.stages.checks import did_not_fall, finite, loads, moved_finitely
from trainer.stages.context import Context, StageResult
from trainer.stages.rl_rows import rl_rows


def distilled(context: Context, folder: Path) -> StageResult:
    """Distillation from the mid-trained checkpoint; the teachers are those of `distilled.teachers`."""
    settings = context.settings.distilled
    rows = {}
    taught = settings.teachers.of_domains
    for domain in taught:
        # Rows as for offline RL of the domain: the same questions, another teacher.
        stored = rl_rows(context, settings.of_domain(domain), taught)
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
        # The interval too: a gain is worth nothing without it.
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


def unified(context: Context, folder: Path) -> StageResult:
    """The agent: the TIES merge, or the distilled checkpoint with a lineage of its own, as `merge.unified` says."""
    if context.settings.merge.unified != DISTILLED.name:
        return ties_merge(context, folder)
    source, target = context.folder(DISTILLED.name), folder / MODEL
    # Everything but the lineage, which says whose checkpoint it was.
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(LINEAGE))
    write_lineage(target, {**read_lineage(source), "stage": context.stage, "parents": context.parents})
    model = load_checkpoint(target).model
    counts = {"parameters": parameter_count(model), "models": 1, "method": DISTILLED.name}
    return StageResult(folder, counts, [finite(model), loads(target)])
