"""The loop over updates of distillation, with its state.

Update u draws its prompts and replies from (seed, u) and what is saved alone, so a run that was killed goes on exactly
where its last state was saved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from schemas.ids import digest
from trainer.distill.hints import with_hindsight, with_type
from trainer.distill.learner import Distiller, TaughtReply
from trainer.distill.pushes import Pushes, all_pushed, span_pushes
from trainer.distill.teachers import TeacherPanel
from trainer.modeling.batches import Row
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import Completion, reply_limit
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles
from trainer.offline.held_out import measure
from trainer.offline.peak_run import PeakRun, PeakState, in_epoch_order
from trainer.offline.tasks import REPLIES, RlTask
from trainer.rl.grpo import Advantages
from trainer.rl.learner import STATE_VERSION
from trainer.rl.trust_region.assign import update_options
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DomainName

Tasks = Mapping[DomainName, list[RlTask]]
FILE = "distillation.pt"


@dataclass(frozen=True)
class _Asked:
    """A student's reply, what is wrong with it, and the prompt that its teacher reads."""

    reply: TaughtReply
    pushes: Pushes
    context: Row
    domain: DomainName


class DistillRun(PeakRun):
    """The training loop with its state. `teachers`: checkpoint folders by name."""

    def __init__(
        self,
        loaded: Checkpoint,
        sampler: Sampler,
        start: Path,
        settings: DistillSettings,
        teachers: Mapping[str, Path],
        train: Tasks,
        validation: Tasks,
        emit: OnEvent,
        folder: Path | None,
        device: str,
    ) -> None:
        weights = {name: WeightFiles(path).digest() for name, path in {"start": start, **teachers}.items()}
        # in the order that the settings name them in
        ids = [[str(task.row["sample_id"]) for task in some] for part in (train, validation) for some in part.values()]
        identity = digest([STATE_VERSION, weights, settings.run_part(), ids])
        file = StateFile(folder / FILE if folder else None, identity, settings.async_save)
        super().__init__(loaded, sampler, settings, emit, file)
        self.config, self.train, self.validation = settings, train, validation
        self.learner = Distiller(loaded.model, loaded.processor, settings)
        self.panel = TeacherPanel(teachers, settings, device)
        self.state = PeakState()

    def _update(self) -> None:
        settings, update = self.config, self.state.update
        asked = [one for domain in self.train for one in self._replies(domain)]
        # what nobody pushes needs no teacher, but counts in the mean
        pushed = [one for one in asked if one.pushes.any]
        taught = self.panel.ask(
            [one.reply for one in pushed], [one.context for one in pushed], [one.domain for one in pushed]
        )
        count = len(asked)
        # advantages are of tokens (`_of_tokens`); replies weigh alike
        alike = Advantages((0.0,) * count, (1.0 / max(1, count),) * count, count, 0, 0)
        # numbered as `tokens` is: those that are pushed come first
        taught = self._compared([replace(reply, trajectory=at) for at, reply in enumerate(taught)])
        tokens = [len(one.reply.token_ids) for one in (*pushed, *(one for one in asked if not one.pushes.any))]
        grpo = update_options(settings, self.state.curve)
        figures = self.learner.step(taught, alike, tokens, update, grpo=grpo)
        self.state.update += 1
        faults = Counter(one.pushes.fault for one in asked)
        event = {
            "kind": "update",
            "update": self.state.update,
            "replies": count,
            "pushed": len(pushed),
            "right": faults["none"] / max(1, count),
            "wrong_type": faults["type"] / max(1, count),
            "wrong_parameters": faults["parameters"] / max(1, count),
            "unreadable_share": faults["unreadable"] / max(1, count),
            "learning_rate": self.learner.learning_rate(update),
            **figures,
        }
        if settings.divergence == "sampled":
            event["teacher_gap"] = _mean_gap(taught)
        self.state.curve.append(event)
        self.emit(event)

    def _replies(self, domain: DomainName) -> list[_Asked]:
        """The student's replies to this update's prompts of a domain."""
        settings = self.config
        tasks = self._prompts(domain)
        objective = tasks[0].truth.objective
        limit = reply_limit(
            self.processor.preset.max_answer_tokens, objective, settings.rewards.wide, settings.rewards.free_form
        )
        # of what changes alone, so that a run that goes on draws the same
        seed = int(digest([settings.seed, domain, self.state.update])[:8], 16)
        replies = self.sampler.draw(
            [task.row for task in tasks],
            group=settings.num_generations,
            temperature=1.0,
            max_new_tokens=limit,
            generator=self.sampler.seeded(seed),
            batch_size=REPLIES,
        )
        return [self._asked(tasks[one.row], domain, one) for one in replies]

    def _prompts(self, domain: DomainName) -> list[RlTask]:
        """Prompts of this update: the domain's tasks in an order drawn anew each epoch."""
        tasks, chosen = self.train[domain], []
        for place in range(self.state.update * self.config.prompts, (self.state.update + 1) * self.config.prompts):
            epoch, at = divmod(place, len(tasks))
            chosen.append(in_epoch_order(tasks, self.config.seed, epoch, at))
        return chosen

    def _asked(self, task: RlTask, domain: DomainName, said: Completion) -> _Asked:
        settings, context, text, ids = self.config, task.row, said.text, said.token_ids
        if settings.objective == "hindsight":
            pushes = all_pushed(text, ids, task.truth, settings.rewards)
            # without a hint the teacher reads what the student read
            context = with_hindsight(task.row, task.truth) or task.row
        else:
            pushes = span_pushes(text, ids, task.truth, self.processor, settings.pushes, settings.rewards)
            if settings.told_type and pushes.fault in ("type", "unreadable"):
                context = with_type(task.row, task.truth)
        reply = TaughtReply(task.row, ids, said.logprobs, 0, pushes=pushes.weights)
        return _Asked(reply, pushes, context, domain)

    def _look(self) -> None:
        """Measure on validation, and keep the weights if this is the peak so far."""
        settings = self.config
        found = {
            domain: measure(
                self.sampler,
                tasks,
                samples=settings.validation_samples,
                seed=settings.seed + 29,
                config=settings.rewards,
            ).summary()
            for domain, tasks in self.validation.items()
        }
        # greedy success decides, and the expected reward between equals
        score = tuple(fmean([float(one[word] or 0.0) for one in found.values()]) for word in ("step_success", "reward"))
        self._keep_peak(score)
        by_domain = {f"{domain}_success": one["step_success"] for domain, one in found.items()}
        self._looked({"step_success": score[0], "reward": score[1], **by_domain})


def _mean_gap(replies: Sequence[TaughtReply]) -> float:
    """Mean of log π_T − log π_S (nats) over the pushed tokens; 0 of none."""
    gaps = [
        taught - own
        for one in replies
        for weight, taught, own in zip(one.pushes, one.taught, one.logprobs, strict=True)
        if weight > 0
    ]
    return fmean(gaps) if gaps else 0.0
