"""The loop over updates that offline RL and distillation share: looks at validation, the weights of the peak, and a
state that a killed run goes on from exactly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.sampler import Sampler
from trainer.rl.learner import Learner
from trainer.rl.sampled_replies import Reply, as_served
from trainer.rl.weight_change import in_memory
from trainer.runtime.memory import give_back
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.settings.distill import DistillSettings
from trainer.settings.offline import OfflineSettings

Event = dict[str, Any]
Task = TypeVar("Task")
Pace = OfflineSettings | DistillSettings


@dataclass
class PeakState:
    """All that changes during a run; what is saved and restored."""

    update: int = 0
    curve: list[Event] = field(default_factory=list)
    looks: list[Event] = field(default_factory=list)
    peak: tuple[float, ...] = ()
    peak_update: int = 0
    peak_weights: dict[str, torch.Tensor] = field(default_factory=dict)


class PeakRun:
    """A run of updates; `_update` makes one and `_look` measures."""

    state: PeakState
    learner: Learner

    def __init__(self, loaded: Checkpoint, sampler: Sampler, pace: Pace, emit: OnEvent, file: StateFile) -> None:
        self.model, self.processor, self.sampler = loaded.model, loaded.processor, sampler
        self.pace, self.emit, self.file = pace, emit, file
        # Before adapters: what a run changed is told against the weights it began with.
        self.start = in_memory(self.model.named_parameters())

    def go(self) -> None:
        """Train to the bound or past the peak, then put the weights of the peak in place."""
        pace = self.pace
        if not self._restore():
            self._look()
        while self.state.update < pace.updates and not self._over():
            self._update()
            self.sampler.renew(self.state.update)
            self.file.saves.check()
            if self.state.update % pace.eval_steps == 0 or self.state.update == pace.updates:
                self._look()
            if self.state.update % pace.save_steps == 0:
                self._save()
        self.file.saves.check(wait=True)
        self.model.load_state_dict(self.state.peak_weights)
        self.model.eval()
        self.sampler.renew(self.state.peak_update)

    def _over(self) -> bool:
        """Whether to stop before the last update."""
        return False

    def _update(self) -> None:
        raise NotImplementedError

    def _look(self) -> None:
        raise NotImplementedError

    def _keep_peak(self, score: tuple[float, ...]) -> bool:
        """Keep the weights if this is the peak so far, or the last is wanted; whether they were kept."""
        state = self.state
        if state.peak and score <= state.peak and self.pace.keep != "last":
            return False
        state.peak, state.peak_update = score, state.update
        state.peak_weights = in_memory(self.model.state_dict().items())
        return True

    def _compared(self, replies: list[Reply]) -> list[Reply]:
        """Replies as the learner takes them: those of servers are corrected, and their gap is told."""
        return [as_served(one) for one in replies] if self.sampler.served else replies

    def _looked(self, event: Mapping[str, object]) -> None:
        """Note a look, with what stands in every one of them before its figures."""
        whole = {"kind": "look", "update": self.state.update, "peak_update": self.state.peak_update, **event}
        self.state.looks.append(whole)
        # validation leaves a large heap behind
        give_back()
        self.emit(whole)

    def _save(self) -> None:
        if self.file.path is None:
            return
        self.file.saves.check(wait=True)
        saved = self.learner.state(self.file)
        self.file.save(saved["folder"], self.learner.written, learner=saved, state=vars(self.state))
        self.emit({"kind": "saved", "update": self.state.update})

    def _restore(self) -> bool:
        """Go on from a saved state of this very run."""
        saved = self.file.load()
        if saved is None:
            return False
        self.learner.load(saved["learner"], self.file)
        self.state = type(self.state)(**saved["state"])
        self.sampler.renew(self.state.update)
        self._resumed()
        self.emit({"kind": "resumed", "update": self.state.update})
        return True

    def _resumed(self) -> None:
        """What a subclass derives anew from a restored state."""


def in_epoch_order(tasks: Sequence[Task], seed: int, epoch: int, place: int) -> Task:
    """The task at a place of an epoch, whose order is a function of (seed, epoch) alone."""
    # so that a run that goes on finds its place; the factor is a prime
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return tasks[int(torch.randperm(len(tasks), generator=generator)[place])]
