"""The loop over updates of distillation, with its state.

Update u draws its prompts and replies from (seed, u) and what is saved alone, so a run that was killed goes on exactly
where its last state was saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from schemas.ids import digest
from trainer.distill.hints import with_hindsight, with_type
from trainer.distill.learner import Distiller, TaughtReply
from trainer.distill.pushes import Pushes, all_pushed, span_pushes
from trainer.distill.teachers import TeacherPanel
from trainer.modeling.batches import Row
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import Completion, generate, reply_limit
from trainer.modeling.tensors import WeightFiles
from trainer.offline.held_out import measure
from trainer.offline.tasks import REPLIES, RlTask
from trainer.rl.grpo import Advantages
from trainer.rl.learner import STATE_VERSION
from trainer.rl.trust_region.assign import update_options
from trainer.rl.weight_change import in_memory
from trainer.runtime.memory import give_back
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DomainName

Event = dict[str, Any]
Tasks = Mapping[DomainName, list[RlTask]]
FILE = "distillation.pt"


@dataclass
class DistillState:
    """All that changes during a run; what is saved and restored."""

    update: int = 0
    curve: list[Event] = field(default_factory=list)
    looks: list[Event] = field(default_factory=list)
    peak: tuple[float, ...] = ()
    peak_update: int = 0
    peak_weights: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Asked:
    """A student's reply, what is wrong with it, and the prompt that its teacher reads."""

    reply: TaughtReply
    pushes: Pushes
    context: Row
    domain: DomainName


class DistillRun:
    """The training loop with its state. `teachers`: checkpoint folders by name."""

    def __init__(
        self,
        loaded: Checkpoint,
        start: Path,
        settings: DistillSettings,
        teachers: Mapping[str, Path],
        train: Tasks,
        validation: Tasks,
        emit: OnEvent,
        folder: Path | None,
        device: str,
    ) -> None:
        self.model, self.processor, self.settings = loaded.model, loaded.processor, settings
        self.train, self.validation, self.emit = train, validation, emit
        self.start = in_memory(self.model.named_parameters())
        self.learner = Distiller(loaded.model, loaded.processor, settings)
        self.panel = TeacherPanel(teachers, settings, device)
        weights = {name: WeightFiles(path).digest() for name, path in {"start": start, **teachers}.items()}
        # in the order that the settings name them in
        ids = [[str(task.row["sample_id"]) for task in some] for part in (train, validation) for some in part.values()]
        identity = digest([STATE_VERSION, weights, settings.run_part(), ids])
        self.file = StateFile(folder / FILE if folder else None, identity)
        self.state = DistillState()

    def go(self) -> None:
        """Train to the last update, then put the weights of the peak in place."""
        if not self._restore():
            self._look()
        while self.state.update < self.settings.updates:
            self._update()
            if self.state.update % self.settings.eval_steps == 0 or self.state.update == self.settings.updates:
                self._look()
            if self.state.update % self.settings.save_steps == 0:
                self._save()
        self.model.load_state_dict(self.state.peak_weights)
        self.model.eval()

    def _update(self) -> None:
        settings, update = self.settings, self.state.update
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
        taught = [replace(reply, trajectory=at) for at, reply in enumerate(taught)]
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
        settings = self.settings
        tasks = self._prompts(domain)
        objective = tasks[0].truth.objective
        limit = reply_limit(
            self.processor.preset.max_answer_tokens, objective, settings.rewards.wide, settings.rewards.free_form
        )
        device = next(self.model.parameters()).device
        # of what changes alone, so that a run that goes on draws the same
        seed = int(digest([settings.seed, domain, self.state.update])[:8], 16)
        replies = generate(
            self.model,
            self.processor,
            [task.row for task in tasks],
            group=settings.num_generations,
            temperature=1.0,
            max_new_tokens=limit,
            generator=torch.Generator(device=device).manual_seed(seed),
            batch_size=REPLIES,
        )
        return [self._asked(tasks[one.row], domain, one) for one in replies]

    def _prompts(self, domain: DomainName) -> list[RlTask]:
        """Prompts of this update: the domain's tasks in an order drawn anew each epoch."""
        tasks, chosen = self.train[domain], []
        for place in range(self.state.update * self.settings.prompts, (self.state.update + 1) * self.settings.prompts):
            epoch, at = divmod(place, len(tasks))
            # a prime, as in offline RL; the order is a function of (seed, epoch)
            generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + epoch)
            chosen.append(tasks[int(torch.randperm(len(tasks), generator=generator)[at])])
        return chosen

    def _asked(self, task: RlTask, domain: DomainName, said: Completion) -> _Asked:
        settings, context, text, ids = self.settings, task.row, said.text, said.token_ids
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
        settings, state = self.settings, self.state
        found = {
            domain: measure(
                self.model,
                self.processor,
                tasks,
                samples=settings.validation_samples,
                seed=settings.seed + 29,
                config=settings.rewards,
            ).summary()
            for domain, tasks in self.validation.items()
        }
        # greedy success decides, and the expected reward between equals
        score = tuple(_mean([float(one[word] or 0.0) for one in found.values()]) for word in ("step_success", "reward"))
        if not state.peak or score > state.peak or settings.keep == "last":
            state.peak, state.peak_update = score, state.update
            state.peak_weights = in_memory(self.model.state_dict().items())
        event = {
            "kind": "look",
            "update": state.update,
            "peak_update": state.peak_update,
            "step_success": score[0],
            "reward": score[1],
            **{f"{domain}_success": one["step_success"] for domain, one in found.items()},
        }
        state.looks.append(event)
        give_back()
        self.emit(event)

    def _save(self) -> None:
        if self.file.path is None:
            return
        saved = self.learner.state(self.file)
        self.file.save(saved["folder"], learner=saved, state=vars(self.state))
        self.emit({"kind": "saved", "update": self.state.update})

    def _restore(self) -> bool:
        """Go on from a saved state of this very run."""
        saved = self.file.load()
        if saved is None:
            return False
        self.learner.load(saved["learner"], self.file)
        self.state = DistillState(**saved["state"])
        self.emit({"kind": "resumed", "update": self.state.update})
        return True


def _mean_gap(replies: Sequence[TaughtReply]) -> float:
    """Mean of log π_T − log π_S (nats) over the pushed tokens; 0 of none."""
    gaps = [
        taught - own
        for one in replies
        for weight, taught, own in zip(one.pushes, one.taught, one.logprobs, strict=True)
        if weight > 0
    ]
    return _mean(gaps) if gaps else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
