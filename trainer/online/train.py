"""Online RL: a checkpoint acts in worlds, and learns from whole trajectories (docs/method.md §7).

For each update: groups of rollouts of tasks drawn from the strata, their rewards, group advantages, trajectory-level
GRPO. In mode "sync" with the in-process engine a run is a function of (start, tasks, config, worlds): killed and called
again with the same `state_dir` it gives the same curve and weights bit for bit (a lost device aside: a rollout that is
made again may share its batches with others). In mode "async" no finished rollout is lost or used twice. Wall time
reaches `on_event` and `OnlineResult.timing` only.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from generators.execution.device_pool import DevicePool
from generators.tasks.task_spec import Contract, has_rule
from schemas.ids import canonical_json, digest
from trainer.evaluation.statistics import mean_or_none
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, load_processor, save_checkpoint
from trainer.modeling.tensors import WeightFiles
from trainer.offline.rl_metrics import in_memory, weight_delta
from trainer.online.asynchronous import AsyncCollector
from trainer.online.collect import Collector, Group, SyncCollector
from trainer.online.config import OnlineConfig
from trainer.online.engine import ReplyEngine
from trainer.online.figures import Event, metrics_of, rollout_figures, update_figures
from trainer.online.learner import OnlineLearner
from trainer.online.pictures import filmstrip, telling
from trainer.online.reference import compare, validation_jobs, validation_tasks
from trainer.online.replay import ReplayBuffer
from trainer.online.rewards import trajectory_scores
from trainer.online.rollout_engine import RolloutEngine
from trainer.online.rollouts import POLICY, REFERENCE, Job, Rollout
from trainer.online.state import Progress, StateFile
from trainer.online.strata import StratifiedBatches
from trainer.online.success import FinalFrameJudge, judge_of
from trainer.online.workers import RolloutWorkers
from trainer.rl.grpo import Advantages, group_advantages, shrunk_negatives
from trainer.rl.learner import STATE_VERSION
from trainer.rl.reward_figures import totals
from trainer.runtime.deterministic import deterministic
from trainer.runtime.memory import give_back
from trainer.runtime.parallel import ranks
from trainer.runtime.tracking import OnEvent

METRICS = "online_rl.json"
SHOW_EVERY = 10
"""Updates between two pictures of a rollout."""


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
    tasks: Sequence[Contract],
    out: str | Path,
    config: OnlineConfig,
    *,
    pool: DevicePool,
    validation: Sequence[Contract] = (),
    state_dir: str | Path | None = None,
    parents: Mapping[str, str] | None = None,
    stage: str = "online",
    on_event: OnEvent | None = None,
    device: str = "cpu",
    judge_of: Callable[[str], FinalFrameJudge | None] = judge_of,
) -> OnlineResult:
    """Train the checkpoint folder `start` on tasks that devices of `pool` run; save it, with `online_rl.json`, in
    `out`.

    `validation` tasks are apart from `tasks`: the policy does each once, greedily, at the beginning, every `eval_steps`
    updates and at the end; and again, sampled, where its reference needs more episodes. Under torchrun this is what the
    first rank does, while the others follow its learner (`trainer.runtime.launch`). With a `state_dir` a killed run
    goes on. `on_event` receives dicts with a `kind`: start, rollouts, picture, update, validation, reference, saved,
    resumed, trained, done. `stage` and `parents` go into the lineage; `judge_of` makes the success judge. Raises
    `ValueError` for tasks that can't be used, `RuntimeError` where an update loses all its rollouts, and what keeps
    devices from ever opening.
    """
    emit = on_event or (lambda event: None)
    checked = _usable(tasks, validation, pool, config)
    judge = judge_of(config.success_judge)
    batches = StratifiedBatches(tasks, config.edges, config.seed)
    loaded = load_checkpoint(start, device=device)
    config = _asking(loaded, config)
    state = StateFile(Path(state_dir) if state_dir else None, _identity(start, tasks, checked, config))
    run = _assembled(start, loaded, batches, checked, pool, judge, state, config, emit)
    before = in_memory(loaded.model.named_parameters())
    emit(
        {
            "kind": "start",
            "tasks": len(tasks),
            "strata": batches.sizes,
            "validation": len(checked),
            "updates": config.updates,
            "mode": config.mode,
        }
    )
    group = ranks()
    # a learner in parts computes on its rank's device, wherever the whole policy lies
    computes_on = group.device if group.world > 1 else device
    with deterministic(computes_on, config.threads), nullcontext() if judge is None else closing(judge):
        run.go()
        run.learner.close()
    emit({"kind": "trained", "update": run.progress.update})
    ids = [task.task_id for task in checked]
    metrics = metrics_of(config, run.progress, ids, batches.sizes, weight_delta(loaded.model, before))
    parents = parents or {"checkpoints/start": WeightFiles(start).digest()}
    brief = _write(Path(out), loaded, metrics, config, stage, parents)
    state.forget()
    emit({"kind": "done", **brief, **run.timing})
    return OnlineResult(Path(out), metrics, base64.b64decode(run.progress.picture), run.timing)


def _usable(
    tasks: Sequence[Contract], validation: Sequence[Contract], pool: DevicePool, config: OnlineConfig
) -> list[Contract]:
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


def _repeated(validation: Sequence[Contract], config: OnlineConfig) -> bool:
    """Whether validation tasks are tried more than once."""
    return config.adaptive and 0 < len(validation) < config.reference.episodes


def _asking(loaded: Checkpoint, config: OnlineConfig) -> OnlineConfig:
    """The settings with `thinking` decided, as the checkpoint was trained where they don't say; its preset then tells
    how it is trained here."""
    preset = loaded.processor.preset
    thinking = preset.thinking if config.thinking is None else config.thinking
    loaded.processor.preset = replace(preset, thinking=thinking)
    return replace(config, thinking=thinking)


def _identity(
    start: str | Path, tasks: Sequence[Contract], validation: Sequence[Contract], config: OnlineConfig
) -> str:
    """What a saved state must have been made with to be gone on from."""
    ids = [sorted(task.task_id for task in some) for some in (tasks, validation)]
    asked = {name: value for name, value in config.plain().items() if name != "budget_s"}  # one with more time left
    if _repeated(validation, config):
        asked["validation"] = "repeated"  # a state of when they weren't holds fewer successes
    return digest([STATE_VERSION, WeightFiles(start).digest(), asked, ids])


def _assembled(
    start: str | Path,
    loaded: Checkpoint,
    batches: StratifiedBatches,
    validation: Sequence[Contract],
    pool: DevicePool,
    judge: FinalFrameJudge | None,
    state: StateFile,
    config: OnlineConfig,
    emit: OnEvent,
) -> _Run:
    """The parts of a run, each given those that it works with: what learns, what replies, what acts, what collects."""
    name = state.identity[:16]
    learner = OnlineLearner(loaded.model, loaded.processor, config)
    engine = _engine(start, learner, config, name)
    workers = RolloutWorkers(
        loaded, engine, pool, config.limits, workers=config.workers, thinking=config.thinking, judge=judge
    )
    collector: Collector
    if config.mode == "sync":
        collector = SyncCollector(workers, batches, config)
    else:
        collector = AsyncCollector(workers, batches, config, state.path.parent / name if state.path else None)
    return _Run(config, learner, engine, workers, collector, validation, state, emit)


def _write(
    folder: Path,
    trained: Checkpoint,
    metrics: Mapping[str, Any],
    config: OnlineConfig,
    stage: str,
    parents: Mapping[str, str],
) -> dict[str, Any]:
    """Put the trained checkpoint into a folder, with its metrics and lineage; → the few metrics that the lineage
    tells."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(canonical_json(metrics) + "\n", encoding="utf-8")
    brief = {key: metrics[key] for key in ("updates", "groups", "zero_variance_share", "weight_delta")}
    made = lineage(
        stage,
        trained.processor.preset,
        config=config.plain(),
        seeds={"online_rl": config.seed},
        parents=parents,
        metrics=brief,
    )
    save_checkpoint(folder, trained.model, trained.processor, made)
    return brief


def _engine(start: str | Path, learner: OnlineLearner, config: OnlineConfig, run: str) -> RolloutEngine:
    """The engine that the configuration names, with a processor of its own."""
    limit = config.grpo.max_completion_length
    if config.rollout_engine == "vllm":
        from trainer.online.vllm.engine import VllmEngine

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


class _Run:
    """The loop over updates with its state."""

    def __init__(
        self,
        config: OnlineConfig,
        learner: OnlineLearner,
        engine: RolloutEngine,
        workers: RolloutWorkers,
        collector: Collector,
        validation: Sequence[Contract],
        state: StateFile,
        emit: OnEvent,
    ) -> None:
        self.config, self.learner, self.engine, self.workers = config, learner, engine, workers
        self.collector, self.validation, self.state, self.emit = collector, validation, state, emit
        self.replay = ReplayBuffer(config.replay_per_task)
        self.progress = Progress()
        self.timing: dict[str, float] = {}
        self._used_s = 0.0
        self._since = time.monotonic()

    def go(self) -> None:
        """To the last update or the end of the budget."""
        saved = self.state.load(self.learner)
        if saved is not None:
            self.progress = saved
            self.replay.load(saved.replay)
            self.emit({"kind": "resumed", "update": saved.update})
        self.collector.load(self.progress.collected)
        with self.engine:
            self.engine.publish(self.learner.model.state_dict(), self.progress.update)
            held = self._updates(validate_first=saved is None)
        statistics = self.workers.statistics
        self.timing = {
            "seconds": self._elapsed(),
            "device_s": held,
            "used_device_s": self._used_s,
            "used_share": self._used_s / held if held else math.nan,
            "replies": self.engine.replies,
            "reply_batches": self.engine.batches,
            "devices_opened": statistics.opened,
            "hung": statistics.hung,
            "infrastructure_failures": sum(statistics.failures.values()),
            **self.engine.figures(),
        }

    def _updates(self, *, validate_first: bool) -> float:
        """All that are left; → seconds that devices were held open."""
        with self.workers:
            if validate_first:
                self._validate()
            while not self._over():
                self._update()
                last = self._over()
                if last or (self.config.eval_steps and self.progress.update % self.config.eval_steps == 0):
                    self._validate()
                if last or self.progress.update % self.config.save_steps == 0:
                    self._save()
            return self.workers.held_s

    def _elapsed(self) -> float:
        return self.progress.elapsed_s + time.monotonic() - self._since

    def _over(self) -> bool:
        done, budget = self.progress.update, self.config.budget_s
        return done >= self.config.updates or bool(done and budget and self._elapsed() >= budget)

    def _decay(self) -> float:
        """Of the learning rate in this update."""
        config, done = self.config, self.progress.update / self.config.updates
        if config.lr_scheduler_type == "constant":
            return 1.0
        if config.mode == "async" and config.budget_s:  # else a run would hang on wall time
            done = max(done, self._elapsed() / config.budget_s)
        return max(0.0, 1.0 - done)

    # -- an update -------------------------------------------------------------------------------------------------

    def _update(self) -> None:
        update = self.progress.update
        groups = self.collector.collect(update)
        if not any(rollout.success is not None for group in groups for rollout in group.rollouts):
            reasons = sorted({rollout.failure for group in groups for rollout in group.rollouts})
            raise RuntimeError(
                f"online RL: every rollout of update {update + 1} was lost to infrastructure: "
                f"{'; '.join(reasons)[:300]}; look at the devices, then go on"
            )
        filled = [self._filled(group, update) for group in groups]
        scores = [trajectory_scores([one.outcome for one in group.rollouts], self.config.reward) for group in filled]
        event = {
            "kind": "rollouts",
            "update": update + 1,
            **rollout_figures(filled, scores, update),
            **self.collector.figures(),
        }
        self.emit(event)
        self._show(groups)
        outcomes = [[one.success for one in group.rollouts] for group in filled]
        compared = group_advantages(totals(scores), self.config.grpo)
        advantages = _counting(shrunk_negatives(compared, outcomes, self.config.grpo.negative_floor), filled)
        rollouts = [one for group in filled for one in group.rollouts]
        figures = self.learner.update(rollouts, advantages, update, self._decay())
        for group in filled:
            self.replay.add(group.counted())
        self._used_s += sum(one.seconds for group in groups for one in group.counted() if one.success is not None)
        self.progress.update += 1
        self.engine.publish(self.learner.model.state_dict(), self.progress.update)
        row = {**event, "kind": "update", **update_figures(advantages, figures)}
        self.progress.curve.append(row)
        self.emit(row)

    def _show(self, groups: Sequence[Group]) -> None:
        """Now and then, the screens of a rollout."""
        if self.progress.update % SHOW_EVERY == 0 and (one := telling([r for g in groups for r in g.counted()])):
            strip = filmstrip(one)
            self.progress.picture = base64.b64encode(strip).decode("ascii")
            self.emit(
                {
                    "kind": "picture",
                    "update": self.progress.update + 1,
                    "rollout": one.key,
                    "success": bool(one.success),
                    "steps": one.steps,
                    "picture": strip,
                }
            )

    def _filled(self, group: Group, update: int) -> Group:
        if group.counting is not None:
            return group
        filled = self.replay.fill(group.rollouts, f"{self.config.seed}/{update}/{group.key}")
        return replace(group, rollouts=tuple(filled))

    # -- validation and the reference ------------------------------------------------------------------------------

    def _validate(self) -> None:
        """The policy on the validation tasks; the reference follows if the policy has left it behind."""
        if not self.validation:
            return
        progress, tasks = self.progress, len(self.validation)
        progress.policy = self._successes(POLICY)
        greedy, sampled = (
            [one for one in some if one is not None] for some in (progress.policy[:tasks], progress.policy[tasks:])
        )
        look: Event = {"update": progress.update, "episodes": len(greedy), "success": mean_or_none(greedy)}
        if sampled:
            look |= {"sampled_episodes": len(sampled), "sampled_success": mean_or_none(sampled)}
        if not progress.validations:
            progress.first = progress.reference = progress.policy  # the reference starts as the policy
        progress.validations.append(look)
        self.emit({"kind": "validation", **look})
        if self.learner.reference is None or progress.update == 0:
            return
        names = [job.contract.task_id for job in self._jobs(POLICY)]
        found = compare(progress.policy, progress.reference, names, self.config.reference)
        if found.follows:
            self.learner.blend(self.config.reference.alpha)
            self.engine.publish(self.learner.reference.state_dict(), progress.update, REFERENCE)
            progress.reference = self._successes(REFERENCE)
            self.engine.publish(self.learner.model.state_dict(), progress.update)  # a server has room for one
            again = mean_or_none([one for one in progress.reference if one is not None])
            step = {"update": progress.update, **asdict(found), "blended": again}
            progress.blends.append(step)
            self.emit({"kind": "reference", **step})

    def _jobs(self, slot: str) -> list[Job]:
        config = self.config
        episodes = config.reference.episodes if config.adaptive else 0
        return validation_jobs(self.validation, self.progress.update, slot, episodes=episodes, seed=config.seed)

    def _successes(self, slot: str) -> list[bool | None]:
        others: list[Rollout] = []
        jobs = self._jobs(slot)
        by_kind = sorted(jobs, key=lambda job: (self.workers.pool.kind(job.contract), job.key))
        made = {one.key: one.success for one in self.workers.run(by_kind, others)}
        self.collector.taken(others)
        return [made[job.key] for job in jobs]

    # -- state -----------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self.progress.replay = self.replay.to_plain()
        self.progress.collected = self.collector.state()
        elapsed = self._elapsed()
        self.state.save(self.learner, replace(self.progress, elapsed_s=elapsed))
        self.collector.saved()
        give_back()
        self.emit({"kind": "saved", "update": self.progress.update})


def _counting(advantages: Advantages, groups: Sequence[Group]) -> Advantages:
    """No weight for members that an earlier update has used."""
    weights, place = list(advantages.weights), 0
    for group in groups:
        for member in range(len(group.rollouts)):
            if group.counting is not None and member not in group.counting:
                weights[place] = 0.0
            place += 1
    return replace(advantages, weights=tuple(weights))
