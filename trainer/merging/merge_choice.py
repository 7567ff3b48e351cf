"""Which density and lambda a TIES merge gets: those of some with which it does most on validation (docs/method.md
§8)."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.merging.merge import MergeReport, merge
from trainer.modeling.checkpoint import load_checkpoint, load_processor
from trainer.offline.held_out import measure
from trainer.offline.tasks import RlTask, choose, tasks_of
from trainer.runtime.tracking import OnEvent
from trainer.settings.domains import DOMAINS
from trainer.settings.grpo import IN_PROCESS, RepliesConfig
from trainer.settings.rewards import RewardConfig
from trainer.settings.stages import STAGES
from trainer.vllm.sampler import sampler_of

Density = float | Sequence[float]
"""Of all models, or of each."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A merge and the share of validation steps, by domain, that it does greedily; `mean` is over the domains."""

    density: Density
    lam: float
    success: Mapping[str, float]

    @property
    def mean(self) -> float:
        # A mean of the domains' own shares: a domain with more steps doesn't decide the choice.
        return sum(self.success.values()) / len(self.success)

    def plain(self) -> dict[str, Any]:
        """As JSON values, with mergekit's words."""
        return {"density": self.density, "lambda": self.lam, "success": dict(self.success), "mean": self.mean}


def candidates(density: Density | Sequence[Density], lam: float | Sequence[float]) -> list[tuple[Density, float]]:
    """Every density with every lambda, in their order; a number is a list of one. Raises `ValueError` for none."""
    densities = [density] if isinstance(density, int | float) else list(density)
    lambdas = [lam] if isinstance(lam, int | float) else list(lam)
    if not densities or not lambdas:
        raise ValueError(f"merge: expected a density and a lambda at least, found {density!r} and {lam!r}")
    return [(one, other) for one in densities for other in lambdas]


def merged_domains(specialists: Sequence[str]) -> list[str]:
    """The domains that the specialists are of, each once."""
    named = {STAGES[name].domain for name in specialists}
    return [domain for domain in DOMAINS if domain in named]


def validation_tasks(
    rows: Mapping[str, Sequence[Mapping[str, object]]], checkpoint: str | Path, limit: int
) -> dict[str, list[RlTask]]:
    """Domain → rows with pictures, to domain → at most `limit` tasks, where there are any."""
    processor = load_processor(checkpoint)
    found = {domain: choose(tasks_of(some, domain, processor)[0], limit, 0) for domain, some in rows.items()}
    return {domain: tasks for domain, tasks in found.items() if tasks}


def choose_ties(
    base: str | Path,
    models: Sequence[str | Path],
    out: str | Path,
    options: Sequence[tuple[Density, float]],
    tasks: Mapping[str, Sequence[RlTask]],
    *,
    device: str = "cpu",
    replies: RepliesConfig = IN_PROCESS,
    on_event: OnEvent | None = None,
    **how: Any,
) -> tuple[MergeReport, list[Tried]]:
    """Merge with each of `options`, keep the best in the new folder `out`, of equals the first; → its report, and what
    was tried. `replies`: who draws those to validation; `how` is as in `trainer.merging.merge.merge`, which see for
    what it raises. Two merges lie on the disk at most.
    """
    tried: list[Tried] = []
    best: MergeReport | None = None
    folder = Path(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside `out`, so that a move stays within one file system.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="tried-") as room:
        for number, (density, lam) in enumerate(options):
            place = Path(room) / str(number)
            report = merge("ties", base, models, place, density=density, lam=lam, **how)
            found = Tried(density, lam, _success(place, tasks, device, replies, str(folder.absolute())))
            # better, not as good: of equals the first stays
            if best is None or found.mean > max(one.mean for one in tried):
                best = report
                shutil.rmtree(folder, ignore_errors=True)
                # moved, not copied: a merge is as large as a checkpoint
                place.rename(folder)
            else:
                shutil.rmtree(place)
            tried.append(found)
            if on_event:
                on_event({"kind": "merge_tried", "density": density, "lambda": lam, "success": found.mean})
    assert best is not None
    return best, tried


def _success(
    folder: Path, tasks: Mapping[str, Sequence[RlTask]], device: str, replies: RepliesConfig, run: str
) -> dict[str, float]:
    with sampler_of(load_checkpoint(folder, device=device), replies, lambda: run) as sampler:
        measures = {
            domain: measure(sampler, some, samples=0, seed=0, config=RewardConfig()) for domain, some in tasks.items()
        }
    return {domain: sum(one.success) / len(one.success) for domain, one in measures.items()}
