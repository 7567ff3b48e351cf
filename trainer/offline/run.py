"""The loop over updates of offline RL, with its state.

Update u draws its prompts and replies from (seed, u) and what is saved alone, so a run that was killed goes on exactly
where its last state was saved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from schemas.ids import digest
from trainer.modeling.adapters import add_adapters
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import reply_limit
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles
from trainer.offline.epoch_alignment import aligned_rows, wanted, with_aligned
from trainer.offline.flat import is_flat
from trainer.offline.held_out import measure
from trainer.offline.peak_run import Event, PeakRun, PeakState, in_epoch_order
from trainer.offline.semi_online import Update, answering, prompts_with_thoughts, roll, update_of, whole_episodes
from trainer.offline.tasks import REPLIES, RlTask, complete_episodes
from trainer.rl.box_reward import difficulty_weights
from trainer.rl.engines import learner_class
from trainer.rl.grpo import group_advantages, scaled_groups, shrunk_negatives
from trainer.rl.learner import STATE_VERSION
from trainer.rl.reward_figures import reward_figures, totals
from trainer.rl.rewards import group_scores, succeeds
from trainer.rl.sampled_replies import SampledReply
from trainer.rl.trust_region.assign import update_options
from trainer.rl.unreadable import unreadable_share
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.offline import OfflineConfig

FILE = "offline_rl.pt"


@dataclass
class OfflineState(PeakState):
    """The state, with how often a look was no peak, and where the run stands in its epoch."""

    below: int = 0
    groups: int = 0
    zero_variance: int = 0
    epoch: int = 0
    offset: int = 0
    """Prompts of this epoch that were used."""
    aligned: list[dict[str, Any]] = field(default_factory=list)
    """New rows of this epoch, without their pictures."""
    alignments: list[Event] = field(default_factory=list)
    shown: list[tuple[int, int, int]] = field(default_factory=list)
    """Where thoughts stood in histories, see `as_trained`."""


def traces_decide(validation: Sequence[RlTask], config: OfflineConfig) -> bool:
    """Whether the peak is that of trace success: these tasks hold enough whole episodes."""
    return len(complete_episodes(validation)) >= max(1, config.min_traces)


def _identity(start: str | Path, config: OfflineConfig, *tasks: Sequence[RlTask]) -> str:
    """What a saved state must have been made with to be gone on from."""
    ids = [[str(task.row["sample_id"]) for task in some] for some in tasks]
    return digest([STATE_VERSION, WeightFiles(start).digest(), config.run_part(), ids])


class OfflineRun(PeakRun):
    """The training loop with its state."""

    state: OfflineState

    def __init__(
        self,
        loaded: Checkpoint,
        sampler: Sampler,
        config: OfflineConfig,
        train: list[RlTask],
        validation: list[RlTask],
        emit: OnEvent,
        folder: Path | None,
        start: str | Path,
    ) -> None:
        identity = _identity(start, config, train, validation)
        file = StateFile(folder / FILE if folder else None, identity, config.async_save)
        super().__init__(loaded, sampler, config, emit, file)
        self.config, self.train, self.validation = config, train, validation
        if config.lora.rank:
            add_adapters(loaded.model, config.lora, config.seed)
        self.learner = learner_class(config)(loaded.model, loaded.processor, config)
        self.state = OfflineState()
        # semi-online histories are in the policy's own words already
        self.align = config.semi_online is None and wanted(config.align, config.domain, loaded.processor.preset)
        self.episodes = whole_episodes(train) if config.semi_online else {}
        self.epoch_tasks = [steps[0] for steps in self.episodes.values()] or train  # which stand for their episodes
        self.criterion = "trace_success" if traces_decide(validation, config) else "reward"

    def _over(self) -> bool:
        """Past the peak, or flat."""
        config, rewards = self.config, [float(look["reward"] or 0.0) for look in self.state.looks]
        return self.state.below >= config.patience or is_flat(rewards, config.patience, config.flat_gain)

    def _prompts(self) -> list[RlTask]:
        """Prompts of this update: the training tasks in an order drawn anew each epoch."""
        state, chosen = self.state, []
        for _ in range(self.config.prompts):
            if state.offset == len(self.epoch_tasks):
                state.epoch, state.offset = state.epoch + 1, 0
                if self.align:
                    self._align()
            chosen.append(in_epoch_order(self.epoch_tasks, self.config.seed, state.epoch, state.offset))
            state.offset += 1
        return chosen

    def _align(self) -> None:
        """The tasks of the epoch that begins: histories in the words of the policy as it is now."""
        state, config = self.state, self.config
        # another seed each epoch, or the same weights would give the same thoughts
        settings = config.alignment.changed(rewards=config.rewards, seed=config.alignment.seed + state.epoch)
        rows, found = aligned_rows(self.sampler, self.train, settings)
        state.aligned = rows
        self.epoch_tasks, used = with_aligned(self.train, rows, self.processor)
        event = {
            "kind": "aligned",
            "epoch": state.epoch,
            "update": state.update,
            **found,
            **used,
            "rows": digest(rows)[:16],
        }
        state.alignments.append(event)
        state.shown.append((state.update, used["changed"], used["thinking"]))
        self.emit(event)

    def _update(self) -> None:
        config = self.config
        made = self._replayed() if config.semi_online else self._single_steps()
        replies, advantages = made.replies, made.advantages
        compared = [
            SampledReply(made.tasks[one.row].row, one.token_ids, one.logprobs, place)
            # the others have no comparison, and would only cost a pass
            for place, one in enumerate(replies)
            if advantages.weights[place] > 0
        ]
        rate = self.learner.learning_rate(self.state.update)
        figures = self.learner.step(
            self._compared(compared),
            advantages,
            [len(one.token_ids) for one in replies],
            self.state.update,
            grpo=update_options(config, self.state.curve),
        )
        self.state.groups += advantages.groups
        self.state.zero_variance += advantages.zero_variance
        self.state.update += 1
        event = {
            "kind": "update",
            "update": self.state.update,
            **reward_figures(made.scores),
            "unreadable_share": unreadable_share(
                [(one.text, made.tasks[one.row].truth) for one in replies],
                config.rewards,
                f"offline RL, update {self.state.update}",
            ),
            "zero_variance": advantages.zero_variance,
            "groups": advantages.groups,
            "learning_rate": rate,
            "reply_tokens": sum(len(reply.token_ids) for reply in replies) / len(replies),
            "unfinished": sum(not reply.finished for reply in replies) / len(replies),
            **figures,
        }
        self.state.curve.append(event)
        self.emit(event)

    def _generator(self) -> torch.Generator:
        """What this update's replies are drawn with."""
        # another prime than that of the epochs, so that the two never share a generator's seed
        return self.sampler.seeded(self.config.seed * 7_368_787 + self.state.update + 1)

    def _replayed(self) -> Update:
        """Rollouts through stored episodes, see `semi_online`."""
        config = self.config
        assert config.semi_online is not None
        episodes = [self.episodes[str(task.episode)] for task in self._prompts()]
        answer = answering(self.sampler, self._generator())
        rollouts = roll(
            episodes, answer, group=config.num_generations, rewards=config.rewards, config=config.semi_online
        )
        self.state.shown.append((self.state.update, *prompts_with_thoughts(rollouts, config.semi_online)))
        return update_of(rollouts, config.grpo, config.semi_online)

    def _single_steps(self) -> Update:
        """Groups of replies to one step each."""
        config = self.config
        tasks = self._prompts()
        rewards, most = config.rewards, self.processor.preset.max_answer_tokens
        limit = reply_limit(most, tasks[0].truth.objective, rewards.wide, rewards.free_form)
        replies = self.sampler.draw(
            [task.row for task in tasks],
            group=config.num_generations,
            temperature=1.0,
            max_new_tokens=limit,
            generator=self._generator(),
            batch_size=REPLIES,
        )
        groups = [[reply.text for reply in replies if reply.row == row] for row in range(len(tasks))]
        asked = list(zip(groups, tasks, strict=True))
        grouped = [group_scores(texts, task.truth, config.rewards) for texts, task in asked]
        done = [[succeeds(text, task.truth, config.rewards) for text in texts] for texts, task in asked]
        # compared within the group first; what follows only scales the result
        advantages = group_advantages(totals(grouped), config.grpo)
        advantages = shrunk_negatives(advantages, done, config.grpo.negative_floor)
        harder = difficulty_weights([task.truth.boxes for task in tasks], config.difficulty)
        advantages = scaled_groups(advantages, [len(group) for group in groups], harder)
        return Update(tasks, replies, advantages, [one for group in grouped for one in group])

    def _look(self) -> None:
        """Measure on validation, and keep the weights if this is the peak so far."""
        found = measure(
            self.sampler,
            self.validation,
            samples=self.config.validation_samples,
            # the same draws at every look, so that a difference is the policy's
            seed=self.config.seed + 29,
            config=self.config.rewards,
        )
        summary = found.summary()
        # traces rule where there are enough of them; the expected reward, which is far less noisy, decides the rest
        traces = summary["trace_success"] if self.criterion == "trace_success" else None
        score = (float(traces or 0.0), float(summary["reward"] or 0.0))
        self.state.below = 0 if self._keep_peak(score) else self.state.below + 1
        self._looked({"criterion": self.criterion, **summary})

    def _resumed(self) -> None:
        if self.state.aligned:
            # rows of this epoch were saved without their pictures, which the tasks have
            self.epoch_tasks, _ = with_aligned(self.train, self.state.aligned, self.processor)
