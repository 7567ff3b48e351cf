"""The loop over updates of online RL, with its state: rollouts, their scores, an update of the learner, validation."""

import base64
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from generators.tasks.task_spec import TaskSpec
from trainer.modeling.sampler import POLICY, REFERENCE
from trainer.online.collect import Collector, RolloutGroup
from trainer.online.credit.assign import credit_figures, reply_advantages
from trainer.online.figures import Event, rollout_figures, unread_example, update_figures
from trainer.online.learner import learn
from trainer.online.pictures import filmstrip, telling
from trainer.online.platforms import kept_of, platform_figures, run_advantages
from trainer.online.reference import compare, validation_jobs
from trainer.online.replay import ReplayBuffer
from trainer.online.rewards import trajectory_scores
from trainer.online.rollout_engine import RolloutEngine
from trainer.online.rollouts import Rollout, RolloutJob
from trainer.online.state import TrainingProgress, load_run, save_run
from trainer.online.workers import RolloutWorkers
from trainer.rl.grpo import Advantages, shrunk_negatives
from trainer.rl.learner import Learner
from trainer.rl.reward_figures import totals
from trainer.rl.trust_region.assign import update_options
from trainer.rl.unreadable import warn_unreadable
from trainer.runtime.memory import give_back
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.online import OnlineConfig
from trainer.settings.rewards import UNREADABLE_SHARE
from trainer.statistics import mean_or_none

# updates
SHOW_EVERY = 10
"""Updates between two pictures of a rollout."""


class OnlineRun:
    """The loop over updates with its state."""

    def __init__(
        self,
        config: OnlineConfig,
        learner: Learner,
        engine: RolloutEngine,
        workers: RolloutWorkers,
        collector: Collector,
        validation: Sequence[TaskSpec],
        state: StateFile,
        emit: OnEvent,
    ) -> None:
        self.config, self.learner, self.engine, self.workers = config, learner, engine, workers
        self.collector, self.validation, self.state, self.emit = collector, validation, state, emit
        self.replay = ReplayBuffer(config.replay_per_task)
        self.progress = TrainingProgress()
        self.timing: dict[str, float] = {}
        self._used_s = 0.0
        self._since = time.monotonic()

    def go(self) -> None:
        """To the last update or the end of the budget."""
        saved = load_run(self.state, self.learner)
        if saved is not None:
            self.progress = saved
            self.replay.load(saved.replay)
            self.emit({"kind": "resumed", "update": saved.update})
        self.collector.load(self.progress.collected)
        with self.engine:
            # the engine copied the weights of the start: a resumed run has others by now
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
                self.state.saves.check(wait=last)
            return self.workers.held_s

    def _elapsed(self) -> float:
        return self.progress.elapsed_s + time.monotonic() - self._since

    def _over(self) -> bool:
        done, budget = self.progress.update, self.config.budget_s
        # one update at least, however short the budget
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
        # replayed successes are put in before rewards, which compare the members of a group
        filled = [self._filled(group, update) for group in groups]
        scores = [
            trajectory_scores([one.outcome for one in group.rollouts], self.config.reward, group.rollouts)
            for group in filled
        ]
        event = {
            "kind": "rollouts",
            "update": update + 1,
            **rollout_figures(filled, scores, update),
            **self.collector.figures(),
        }
        self.emit(event)
        if event["unreadable_share"] > UNREADABLE_SHARE:
            warn_unreadable(
                f"{event['unreadable_share']:.0%} of the replies",
                unread_example(filled, self.learner.processor),
                f"online RL, update {update + 1}",
                "vesper",
            )
        self._show(groups)
        if self.config.rollouts > self.config.num_generations:
            filled, scores = kept_of(filled, scores, self.config.num_generations)
        outcomes = [[one.success for one in group.rollouts] for group in filled]
        compared = run_advantages(filled, totals(scores), self.config)
        # members that an earlier update used are compared with, and lose their weight only then
        advantages = _counting(shrunk_negatives(compared, outcomes, self.config.grpo.negative_floor), filled)
        rollouts = [one for group in filled for one in group.rollouts]
        groups_of = [group.rollouts for group in filled]
        own = reply_advantages(groups_of, totals(scores), advantages, self.config.credit, self.config.grpo)
        figures = credit_figures(rollouts, advantages, own) | platform_figures(filled, advantages, self.config)
        grpo = update_options(self.config, self.progress.curve)
        figures |= learn(self.learner, self.config, rollouts, advantages, update, self._decay(), own, grpo)
        # after the update, so that no rollout is replayed beside itself
        for group in filled:
            self.replay.add(group.counted())
        self._used_s += sum(one.seconds for group in groups for one in group.counted() if one.success is not None)
        self.progress.update += 1
        self.engine.publish(self.learner.model.state_dict(), self.progress.update)
        row = {**event, "kind": "update", **update_figures(advantages, figures)}
        self.progress.curve.append(row)
        self.emit(row)

    def _show(self, groups: Sequence[RolloutGroup]) -> None:
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

    def _filled(self, group: RolloutGroup, update: int) -> RolloutGroup:
        # members of a late group have their places: none of them is replaced
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
        # greedy episodes first, then the sampled ones (`validation_jobs`)
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
            # its episodes must be of the weights it has now
            self.engine.publish(self.learner.reference.state_dict(), progress.update, REFERENCE)
            progress.reference = self._successes(REFERENCE)
            self.engine.publish(self.learner.model.state_dict(), progress.update)  # a server has room for one
            again = mean_or_none([one for one in progress.reference if one is not None])
            step = {"update": progress.update, **asdict(found), "blended": again}
            progress.blends.append(step)
            self.emit({"kind": "reference", **step})

    def _jobs(self, slot: str) -> list[RolloutJob]:
        config = self.config
        episodes = config.reference.episodes if config.adaptive else 0
        return validation_jobs(self.validation, self.progress.update, slot, episodes=episodes, seed=config.seed)

    def _successes(self, slot: str) -> list[bool | None]:
        others: list[Rollout] = []
        jobs = self._jobs(slot)
        # by kind of device, so that workers seldom open another one
        by_kind = sorted(jobs, key=lambda job: (self.workers.pool.kind(job.contract), job.key))
        made = {one.key: one.success for one in self.workers.run(by_kind, others)}
        self.collector.taken(others)
        return [made[job.key] for job in jobs]

    # -- state -----------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self.state.saves.check(wait=True)  # what it had collected is forgotten before others are
        self.progress.replay = self.replay.to_plain()
        self.progress.collected = self.collector.state()
        elapsed = self._elapsed()
        # the order is what makes a kill harmless: collected, saved, and only then are files removed
        save_run(self.state, self.learner, replace(self.progress, elapsed_s=elapsed), self.collector.saved)
        # batches of ever different sizes leave holes in the heap (docs/decisions/trainer.md)
        give_back()
        self.emit({"kind": "saved", "update": self.progress.update})


def _counting(advantages: Advantages, groups: Sequence[RolloutGroup]) -> Advantages:
    """No weight for members that an earlier update has used."""
    weights, place = list(advantages.weights), 0
    for group in groups:
        # weights are by rollout, group after group
        for member in range(len(group.rollouts)):
            if group.counting is not None and member not in group.counting:
                weights[place] = 0.0
            place += 1
    return replace(advantages, weights=tuple(weights))
