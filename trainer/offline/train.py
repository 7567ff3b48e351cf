"""Offline RL: a specialist (grounding, mobile or web) from the mid-trained checkpoint by single-step GRPO.

For each update: P prompts, G replies each at temperature 1, rewards of docs/method.md §6, group advantages, one or more
AdamW steps on the clipped loss of docs/method.md §7 with T = 1. Nothing here needs a device: truth stands in the rows.
Offline, step success keeps rising while whole traces peak and fall (UI-Venus-1.5, Fig. 6): a validation set that is
neither trained on nor reported watches both, training stops after the peak, and the weights of the peak are kept.
The gain is reported on held-out rows that neither training nor stopping has seen. Between epochs a navigation
specialist's histories are aligned (`epoch_alignment`, by default for published presets); with `semi_online` whole
episodes are replayed with the policy's own history instead of single steps (`trainer.offline.semi_online`). Update u
draws its prompts and replies from (seed, u) and what is saved alone, so a run that was killed goes on exactly where its
last state was saved. Weights stay fp32: bf16 rounding eats RL-sized deltas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.ids import canonical_json
from trainer.modeling.adapters import take_off_adapters
from trainer.modeling.batches import Row
from trainer.modeling.checkpoint import Checkpoint, Lineage, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.processor import Processor
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles
from trainer.offline.epoch_alignment import as_trained
from trainer.offline.held_out import Measure, measure
from trainer.offline.pass_band import in_band, write_grades
from trainer.offline.rl_metrics import metrics_of
from trainer.offline.run import OfflineRun, traces_decide
from trainer.offline.tasks import RlTask, choose, complete_episodes, tasks_of
from trainer.rl.weight_change import weight_delta
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import ranks
from trainer.runtime.tracking import OnEvent
from trainer.settings.offline import OfflineConfig
from trainer.settings.stages import MID_TRAINED
from trainer.vllm.sampler import sampler_of

METRICS = "rl.json"


@dataclass(frozen=True)
class OfflineResult:
    """What a run gave: the checkpoint folder and the metrics that stand in its `rl.json`."""

    folder: Path
    metrics: dict[str, Any]


def train_offline(
    start: str | Path,
    train_rows: Sequence[Row],
    held_out_rows: Sequence[Row],
    out: str | Path,
    config: OfflineConfig,
    *,
    validation_rows: Sequence[Row] | None = None,
    state_dir: str | Path | None = None,
    parents: Mapping[str, str] | None = None,
    on_event: OnEvent | None = None,
    device: str = "cpu",
    adapters: Path | None = None,
) -> OfflineResult:
    """Train the specialist `config.domain` from the checkpoint folder `start` and save it, with `rl.json` (and
    `grades.parquet` where tasks are tried before the run), in `out`.

    Rows are dicts of the Samples table with picture bytes; those of other domains are passed over.
    `validation_rows` find the peak; without any, a tenth of the training clusters is set aside. `state_dir` names a
    folder where progress is kept; with it, a killed run goes on exactly. `on_event` receives dicts with a `kind`:
    start, held_out, update, look, saved, resumed, aligned, trained, done. Under torchrun this is what the first rank
    does, while the others follow its learner (`trainer.stages.launch`). `adapters`: where those of LoRA are put.
    Raises `ValueError` when no training or held-out task is left, naming what was found.
    """
    emit = on_event or (lambda event: None)
    loaded = load_checkpoint(start, device=device)
    train, validation, held_out, unusable = split_tasks(
        loaded.processor, train_rows, validation_rows, held_out_rows, config
    )
    band: dict[str, int] = {}
    tried, successes = train, list[int]()
    # a learner in parts computes on its rank's device, wherever the whole policy lies
    group = ranks()
    with (
        deterministic(group.device if group.world > 1 else device, config.threads),
        sampler_of(loaded, config, lambda: [WeightFiles(start).digest(), config.run_part()]) as sampler,
    ):
        if config.pass_band:
            train, successes, band = in_band(sampler, train, config, config.pass_band)
        sizes = {"train": len(train), "validation": len(validation), "held_out": len(held_out)}
        told = {"unusable": unusable, **({"pass_band": band} if band else {})}
        emit({"kind": "start", "domain": config.domain, **sizes, **told, "updates": config.updates})
        place = Path(state_dir) if state_dir else None
        run = OfflineRun(loaded, sampler, config, train, validation, emit, place, start)
        # before training, with the same tasks and seeds as after it: the figures are paired
        before = _held_out(sampler, held_out, config)
        emit({"kind": "held_out", "when": "before", **before.summary()})
        run.go()
        run.learner.close()
        if config.lora.rank:
            take_off_adapters(loaded.model, config.lora, adapters)
        emit({"kind": "trained", "update": run.state.update})
        after = _held_out(sampler, held_out, config)
    emit({"kind": "held_out", "when": "after", **after.summary()})
    counted = {
        "tasks": sizes,
        "validation_traces": len(complete_episodes(validation)),
        "peak_criterion": run.criterion,
        **told,
    }
    delta = weight_delta(loaded.model, run.start)
    metrics = metrics_of(config, run.state, delta, before, after, held_out, counted)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(canonical_json(metrics) + "\n", encoding="utf-8")
    if config.pass_band:
        write_grades(folder, tried, successes, config.pass_band.tries)
    begun = parents or {f"checkpoints/{MID_TRAINED.name}": WeightFiles(start).digest()}
    record = _save(loaded, folder, run, metrics, begun)
    # only now, with the checkpoint whole, is there nothing to go on with
    run.file.forget()
    emit({"kind": "done", "domain": config.domain, **record.metrics})
    return OfflineResult(folder, metrics)


def _save(
    loaded: Checkpoint, folder: Path, run: OfflineRun, metrics: Mapping[str, Any], parents: Mapping[str, str]
) -> Lineage:
    """The trained specialist into a folder, with the lineage that stands there."""
    # How histories are to be written goes with the weights that learned from them.
    loaded.processor.preset = as_trained(loaded.processor.preset, run.state.shown, run.state.peak_update)
    record = lineage(
        f"offline_{run.config.domain}",
        loaded.processor.preset,
        config=run.config.run_part(),
        seeds={"offline_rl": run.config.seed},
        parents=parents,
        metrics={
            key: metrics[key]
            for key in ("reward_gain", "zero_variance_share", "weight_delta", "peak_update", "alignments")
        },
    )
    save_checkpoint(folder, loaded.model, loaded.processor, record)
    return record


def split_tasks(
    processor: Processor,
    train_rows: Sequence[Row],
    validation_rows: Sequence[Row] | None,
    held_out_rows: Sequence[Row],
    config: OfflineConfig,
) -> tuple[list[RlTask], list[RlTask], list[RlTask], dict[str, dict[str, int]]]:
    """→ tasks to train on, to find the peak on, to report on; no picture or episode is in two of them."""
    train, bad_train = tasks_of(train_rows, config.domain, processor, config.rewards)
    held_out, bad_held_out = tasks_of(held_out_rows, config.domain, processor, config.rewards)
    validation, bad_validation = tasks_of(validation_rows or [], config.domain, processor, config.rewards)
    # held-out tasks first, then validation, then what is left trains: what is reported on is chosen freely
    held_out = choose(held_out, config.held_out_limit, config.seed)
    if not validation:
        share = max(1, min(config.validation_limit, len(train) // 10))
        validation = choose(train, share, config.seed + 1)
    validation = _apart(validation, held_out)
    traces = config.min_traces if traces_decide(validation, config) else 0  # too few decide nothing: none cost extra
    validation = choose(validation, config.validation_limit, config.seed, traces=traces)
    train = choose(_apart(train, [*held_out, *validation]), config.train_limit, config.seed)
    for name, found, rows in (("train", train, train_rows), ("held-out", held_out, held_out_rows)):
        if not found:
            raise ValueError(
                f"offline RL {config.domain}: no {name} task left of {len(rows)} rows "
                f"(unusable: {bad_train if name == 'train' else bad_held_out}); is there data of this domain?"
            )
    return train, validation, held_out, {"train": bad_train, "validation": bad_validation, "held_out": bad_held_out}


def _apart(tasks: Sequence[RlTask], others: Sequence[RlTask]) -> list[RlTask]:
    taken = {task.cluster for task in others}
    return [task for task in tasks if task.cluster not in taken]


def _held_out(sampler: Sampler, tasks: Sequence[RlTask], config: OfflineConfig) -> Measure:
    return measure(
        sampler, tasks, samples=config.held_out_samples, seed=config.seed + 17, config=config.rewards, own_history=True
    )
