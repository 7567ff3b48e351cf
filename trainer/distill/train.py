"""Distillation of several teachers into one student, on the student's own replies (docs/method.md §8).

For each update: P prompts of each domain, the student's replies at temperature 1, what is wrong with them by the rules
of the rewards, the teachers' log-probabilities of the tokens that are pushed, one AdamW step on the reverse KL
(`trainer.distill.learner`). The weights of the peak on validation are kept, by the mean success over the domains; the
gain is reported on held-out rows that neither training nor the peak has seen. A run that was killed goes on exactly
where its last state was saved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.ids import canonical_json
from trainer.distill.hints import with_hindsight
from trainer.distill.run import DistillRun, Tasks
from trainer.merging.same_model import check_same_model
from trainer.modeling.batches import Row
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles, check_same
from trainer.offline.held_out import Measure, measure
from trainer.offline.tasks import RlTask
from trainer.offline.train import split_tasks
from trainer.rl.weight_change import weight_delta
from trainer.runtime.deterministic import deterministic
from trainer.runtime.tracking import OnEvent
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DomainName
from trainer.settings.stages import DISTILLED
from trainer.statistics import paired
from trainer.vllm.sampler import sampler_of

METRICS = "distillation.json"


@dataclass(frozen=True)
class DomainRows:
    """Rows with pictures of one domain; without any for validation some are set aside of those to train on."""

    train: Sequence[Row]
    held_out: Sequence[Row]
    validation: Sequence[Row] = ()


@dataclass(frozen=True)
class DistillResult:
    """What a run gave: the checkpoint folder and the metrics that stand in its `distillation.json`."""

    folder: Path
    metrics: dict[str, Any]


def distill(
    start: str | Path,
    teachers: Mapping[str, str | Path],
    rows: Mapping[DomainName, DomainRows],
    out: str | Path,
    settings: DistillSettings,
    *,
    state_dir: str | Path | None = None,
    parents: Mapping[str, str] | None = None,
    on_event: OnEvent | None = None,
    device: str = "cpu",
) -> DistillResult:
    """Train the student from the checkpoint folder `start` towards `teachers` (name → checkpoint folder, those that the
    settings name) and save it, with `distillation.json`, in `out`. `rows`: of every domain that is taught.

    `state_dir` names a folder where progress is kept; with it, a killed run goes on exactly. `on_event` receives dicts
    with a `kind`: start, held_out, update, look, saved, resumed, trained, done.
    Raises `ValueError` where a teacher or the rows of a domain are missing, or none of these can be used, and
    `CheckpointMismatch` where a teacher is of another model than the student.
    """
    emit = on_event or (lambda event: None)
    folders = _folders(start, teachers, settings)
    loaded = load_checkpoint(start, device=device)
    train, validation, held_out, unusable = _tasks(loaded, rows, settings)
    counted = {domain: len(tasks) for domain, tasks in train.items()}
    emit({"kind": "start", "train": counted, "teachers": settings.teachers.of_domains, "unusable": unusable})
    place = Path(state_dir) if state_dir else None
    with (
        deterministic(device, settings.threads),
        sampler_of(loaded, settings, lambda: [WeightFiles(start).digest(), settings.run_part()]) as sampler,
    ):
        run = DistillRun(loaded, sampler, Path(start), settings, folders, train, validation, emit, place, device)
        # before training, with the same tasks and seeds as after it: the figures are paired
        before = _held_out(sampler, held_out, settings)
        emit({"kind": "held_out", "when": "before", **_success(before)})
        run.go()
        run.learner.close()
        emit({"kind": "trained", "update": run.state.update})
        after = _held_out(sampler, held_out, settings)
    emit({"kind": "held_out", "when": "after", **_success(after)})
    delta = weight_delta(loaded.model, run.start)
    metrics: dict[str, Any] = {
        "teachers": settings.teachers.of_domains,
        "domains": {domain: _gains(before[domain], after[domain], held_out[domain], settings) for domain in held_out},
        "success_gain": _gain_of_all(before, after, held_out, settings),
        "updates": run.state.update,
        "peak_update": run.state.peak_update,
        "weight_delta": delta["relative"],
        "weight_delta_norm": delta["norm"],
        "unusable": unusable,
        "curve": run.state.curve,
        "looks": run.state.looks,
    }
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(canonical_json(metrics) + "\n", encoding="utf-8")
    record = lineage(
        DISTILLED.name,
        loaded.processor.preset,
        config=settings.run_part(),
        seeds={"distillation": settings.seed},
        parents=parents or {name: WeightFiles(path).digest() for name, path in {"start": start, **folders}.items()},
        metrics={key: metrics[key] for key in ("teachers", "success_gain", "weight_delta", "peak_update")},
    )
    save_checkpoint(folder, loaded.model, loaded.processor, record)
    # only now, with the checkpoint whole, is there nothing to go on with
    run.file.forget()
    emit({"kind": "done", **record.metrics})
    return DistillResult(folder, metrics)


def _folders(start: str | Path, teachers: Mapping[str, str | Path], settings: DistillSettings) -> dict[str, Path]:
    """The teachers' folders by name, in the order of the settings."""
    if missing := sorted(set(settings.teachers.names) - set(teachers)):
        raise ValueError(
            f"distillation: expected checkpoints of {', '.join(settings.teachers.names)}, found no {missing[0]}"
        )
    found = {name: Path(teachers[name]) for name in settings.teachers.names}
    check_same_model(Path(start), list(found.values()))
    for folder in found.values():
        check_same(WeightFiles(start), WeightFiles(folder))
    return found


def _tasks(
    loaded: Checkpoint, rows: Mapping[DomainName, DomainRows], settings: DistillSettings
) -> tuple[Tasks, Tasks, Tasks, dict[DomainName, dict[str, dict[str, int]]]]:
    """Domain → tasks to train on, to find the peak on, to report on, and why others couldn't be used."""
    train: dict[DomainName, list[RlTask]] = {}
    validation, held_out = dict(train), dict(train)
    unusable: dict[DomainName, dict[str, dict[str, int]]] = {}
    for domain in settings.teachers.of_domains:
        if domain not in rows:
            raise ValueError(f"distillation: expected rows of {domain}, which is taught, found those of {sorted(rows)}")
        own = rows[domain]
        train[domain], validation[domain], held_out[domain], unusable[domain] = split_tasks(
            loaded.processor, own.train, own.validation or None, own.held_out, settings.of_domain(domain)
        )
        if settings.objective == "hindsight":
            train[domain] = _hinted(domain, train[domain], unusable[domain]["train"])
    return train, validation, held_out, unusable


def _hinted(domain: DomainName, tasks: Sequence[RlTask], unusable: dict[str, int]) -> list[RlTask]:
    """The tasks of which is known what followed; the others are counted."""
    found = [task for task in tasks if with_hindsight(task.row, task.truth) is not None]
    unusable["no_hint"] = len(tasks) - len(found)
    if not found:
        raise ValueError(f"distillation {domain}: expected a row with a conclusion, found none of {len(tasks)}")
    return found


def _held_out(sampler: Sampler, tasks: Tasks, settings: DistillSettings) -> dict[DomainName, Measure]:
    return {
        domain: measure(
            sampler,
            some,
            samples=settings.held_out_samples,
            # held-out draws have an offset of their own, as in offline RL
            seed=settings.seed + 17,
            config=settings.rewards,
        )
        for domain, some in tasks.items()
    }


def _success(found: Mapping[DomainName, Measure]) -> dict[str, float | int | None]:
    return {f"{domain}_success": one.summary()["step_success"] for domain, one in found.items()}


def _gains(before: Measure, after: Measure, tasks: Sequence[RlTask], settings: DistillSettings) -> dict[str, Any]:
    clusters = [task.cluster for task in tasks]
    return {
        "before": before.summary(),
        "after": after.summary(),
        "reward_gain": paired(after.sampled, before.sampled, clusters, seed=settings.seed).plain(),
        "success_gain": paired(after.success, before.success, clusters, seed=settings.seed).plain(),
    }


def _gain_of_all(
    before: Mapping[DomainName, Measure], after: Mapping[DomainName, Measure], tasks: Tasks, settings: DistillSettings
) -> dict[str, Any]:
    """Of greedy success, over the tasks of all domains together."""
    first, second = ([done for domain in tasks for done in found[domain].success] for found in (after, before))
    clusters = [task.cluster for some in tasks.values() for task in some]
    return paired(first, second, clusters, seed=settings.seed).plain()
