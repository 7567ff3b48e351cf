"""Online RL: a checkpoint acts in worlds, and learns from whole trajectories (docs/method.md §7).

For each update: groups of rollouts of tasks drawn from the strata, their rewards, group advantages, trajectory-level
GRPO. In mode "sync" with the in-process engine a run is a function of (start, tasks, config, worlds): killed and called
again with the same `state_dir` it gives the same curve and weights bit for bit (a lost device aside: a rollout that is
made again may share its batches with others). In mode "async" no finished rollout is lost or used twice. Wall time
reaches `on_event` and `OnlineResult.timing` only.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from generators.execution.device_pool import DevicePool
from generators.tasks.task_spec import TaskSpec, has_rule
from schemas.ids import canonical_json, digest
from trainer.modeling.adapters import add_adapters, take_off_adapters
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, load_processor, save_checkpoint
from trainer.modeling.sampler import POLICY, REFERENCE
from trainer.modeling.tensors import WeightFiles
from trainer.online.asynchronous import AsyncCollector
from trainer.online.collect import Collector, CurriculumCollector, SyncCollector
from trainer.online.curricula.assign import TaskCurriculum
from trainer.online.engine import ReplyEngine
from trainer.online.figures import metrics_of
from trainer.online.platforms import batches_of
from trainer.online.reference import validation_tasks
from trainer.online.rollout_engine import RolloutEngine
from trainer.online.run import OnlineRun
from trainer.online.state import FILE
from trainer.online.strata import Batches
from trainer.online.success import FinalFrameJudge, judge_of
from trainer.online.workers import RolloutWorkers
from trainer.rl.engines import learner_class
from trainer.rl.learner import STATE_VERSION, Learner
from trainer.rl.weight_change import in_memory, weight_delta
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import ranks
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.online import OnlineConfig
from trainer.vllm.engine import VllmEngine

METRICS = "online_rl.json"


@dataclass(frozen=True)
class OnlineResult:
    """The checkpoint folder, the metrics that stand in its `online_rl.json`, the last picture of a rollout (PNG, b""
    for none), and what is a matter of wall time."""

    folder: Path
    metrics: dict[str, Any]
    picture: bytes
    timing: dict[str, float]


def train_online(
    start: str | Path,
    tasks: Sequence[TaskSpec],
    out: str | Path,
    config: OnlineConfig,
    *,
    pool: DevicePool,
    validation: Sequence[TaskSpec] = (),
    state_dir: str | Path | None = None,
    parents: Mapping[str, str] | None = None,
    stage: str = "online",
    on_event: OnEvent | None = None,
    device: str = "cpu",
    judge_of: Callable[[str], FinalFrameJudge | None] = judge_of,
    adapters: Path | None = None,
) -> OnlineResult:
    """Train the checkpoint folder `start` on tasks that devices of `pool` run; save it, with `online_rl.json`, in
    `out`.

    `validation` tasks are apart from `tasks`: the policy does each once, greedily, at the beginning, every `eval_steps`
    updates and at the end; and again, sampled, where its reference needs more episodes. Under torchrun this is what the
    first rank does, while the others follow its learner (`trainer.stages.launch`). With a `state_dir` a killed run
    goes on. `on_event` receives dicts with a `kind`: start, rollouts, picture, update, validation, reference, saved,
    resumed, trained, done. `stage` and `parents` go into the lineage; `judge_of` makes the success judge; `adapters`:
    where those of LoRA are put. Raises `ValueError` for tasks that can't be used, `RuntimeError` where an update loses
    all its rollouts, and what keeps devices from ever opening.
    """
    emit = on_event or (lambda event: None)
    checked = _usable(tasks, validation, pool, config)
    judge = judge_of(config.success_judge)
    batches: Batches = batches_of(tasks, config)
    if config.curriculum.name:
        batches = TaskCurriculum(tasks, config.curriculum, config.edges, config.seed)
    loaded = load_checkpoint(start, device=device)
    config = _asking(loaded, config)
    path, identity = Path(state_dir) / FILE if state_dir else None, _identity(start, tasks, checked, config)
    state = StateFile(path, identity, config.async_save)
    before = in_memory(loaded.model.named_parameters())  # by the names that they have without adapters
    run = _assembled(start, loaded, batches, checked, pool, judge, state, config, emit)
    sizes = {"tasks": len(tasks), "strata": batches.sizes, "validation": len(checked)}
    emit({"kind": "start", **sizes, "updates": config.updates, "mode": config.mode})
    group = ranks()
    # a learner in parts computes on its rank's device, wherever the whole policy lies
    computes_on = group.device if group.world > 1 else device
    with deterministic(computes_on, config.threads), nullcontext() if judge is None else closing(judge):
        run.go()
        run.learner.close()
        if config.lora.rank:
            take_off_adapters(loaded.model, config.lora, adapters)
    emit({"kind": "trained", "update": run.progress.update})
    ids = [task.task_id for task in checked]
    metrics = metrics_of(config, run.progress, ids, batches.sizes, weight_delta(loaded.model, before))
    parents = parents or {"checkpoints/start": WeightFiles(start).digest()}
    brief = _write(Path(out), loaded, metrics, config, stage, parents)
    # only now, with the checkpoint whole, is there nothing to go on with
    state.forget()
    emit({"kind": "done", **brief, **run.timing})
    return OnlineResult(Path(out), metrics, base64.b64decode(run.progress.picture), run.timing)


def _usable(
    tasks: Sequence[TaskSpec], validation: Sequence[TaskSpec], pool: DevicePool, config: OnlineConfig
) -> list[TaskSpec]:
    """The validation tasks to look at. Raises `ValueError` for a task that no rule decides and no judge, that no device
    runs, or that is both trained on and looked at."""
    undecided = [] if config.success_judge else [task for task in (*tasks, *validation) if not has_rule(task.evaluator)]
    if undecided:
        raise ValueError(
            f"online RL: no rule decides {len(undecided)} tasks, the first "
            f"{undecided[0].instruction!r:.80}; name a success_judge"
        )
    checked = validation_tasks(validation, tasks, config.reference.episodes, config.seed)
    for task in (*tasks, *checked):
        pool.kind(task)  # raises for one that no device runs
    return checked


def _repeated(validation: Sequence[TaskSpec], config: OnlineConfig) -> bool:
    """Whether validation tasks are tried more than once."""
    return config.adaptive and 0 < len(validation) < config.reference.episodes


def _asking(loaded: Checkpoint, config: OnlineConfig) -> OnlineConfig:
    """The settings with `thinking` decided, as the checkpoint was trained where they don't say; its preset then says
    how it is trained here."""
    preset = loaded.processor.preset
    thinking = preset.thinking if config.thinking is None else config.thinking
    loaded.processor.preset = replace(preset, thinking=thinking)
    return config.changed(thinking=thinking)


def _identity(
    start: str | Path, tasks: Sequence[TaskSpec], validation: Sequence[TaskSpec], config: OnlineConfig
) -> str:
    """What a saved state must have been made with to be gone on from."""
    ids = [sorted(task.task_id for task in some) for some in (tasks, validation)]
    asked = {name: value for name, value in config.run_part().items() if name != "budget_s"}  # one with more time left
    if _repeated(validation, config):
        asked["validation"] = "repeated"  # a state of when they weren't holds fewer successes
    return digest([STATE_VERSION, WeightFiles(start).digest(), asked, ids])


def _assembled(
    start: str | Path,
    loaded: Checkpoint,
    batches: Batches,
    validation: Sequence[TaskSpec],
    pool: DevicePool,
    judge: FinalFrameJudge | None,
    state: StateFile,
    config: OnlineConfig,
    emit: OnEvent,
) -> OnlineRun:
    """The parts of a run, each given those that it works with: what learns, what replies, what acts, what collects."""
    name = state.identity[:16]
    if config.lora.rank:
        add_adapters(loaded.model, config.lora, config.seed)
    learner = learner_class(config)(loaded.model, loaded.processor, config)
    engine = _engine(start, learner, config, name)
    workers = RolloutWorkers(
        loaded, engine, pool, config.limits.limits(), workers=config.workers, thinking=config.thinking, judge=judge
    )
    collector: Collector
    if isinstance(batches, TaskCurriculum):
        collector = CurriculumCollector(workers, batches, config)
    elif config.mode == "sync":
        collector = SyncCollector(workers, batches, config)
    else:
        # rollouts of another start or config lie in another folder, and are never taken for this run's
        collector = AsyncCollector(workers, batches, config, state.path.parent / name if state.path else None)
    return OnlineRun(config, learner, engine, workers, collector, validation, state, emit)


def _write(
    folder: Path,
    trained: Checkpoint,
    metrics: Mapping[str, object],
    config: OnlineConfig,
    stage: str,
    parents: Mapping[str, str],
) -> dict[str, Any]:
    """Put the trained checkpoint into a folder, with its metrics and lineage; → the few metrics that stand in the
    lineage."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(canonical_json(metrics) + "\n", encoding="utf-8")
    brief = {key: metrics[key] for key in ("updates", "groups", "zero_variance_share", "weight_delta")}
    record = lineage(
        stage,
        trained.processor.preset,
        config=config.run_part(),
        seeds={"online_rl": config.seed},
        parents=parents,
        metrics=brief,
    )
    save_checkpoint(folder, trained.model, trained.processor, record)
    return brief


def _engine(start: str | Path, learner: Learner, config: OnlineConfig, run: str) -> RolloutEngine:
    """The engine that the configuration names, with a processor of its own."""
    limit = config.grpo.max_completion_length
    if config.rollout_engine == "vllm":
        # the reference has a model here only where the loss has a KL term
        models = {POLICY: learner.model} | ({} if learner.reference is None else {REFERENCE: learner.reference})
        return VllmEngine(
            models, load_processor(start), config.vllm, temperature=config.temperature, max_new_tokens=limit, run=run
        )
    return ReplyEngine(
        learner.model,
        load_processor(start),
        temperature=config.temperature,
        max_new_tokens=limit,
        threads=config.threads,
        lockstep=config.mode == "sync",
        pictures=learner.model.seen_pictures,
    )
