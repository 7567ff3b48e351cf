"""Teachers: checkpoints of the student's own model, each asked about the replies of its domains.

They are asked one after the other: all stay in memory, or each is loaded for its replies and dropped again. No served
teacher is asked: a server scores given tokens by its whole vocabulary, with the control tokens that no reply may hold,
and nobody here has given it the weights that it would have to acknowledge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trainer.distill.learner import TaughtReply, log_distributions, pushed_only
from trainer.modeling.batches import Row
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.model import label_terms, reply_logprobs
from trainer.modeling.shared_prompts import replies_laid_out
from trainer.rl.micro_batches import micro_batches
from trainer.runtime.memory import give_back
from trainer.runtime.precision import autocast
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DomainName


@dataclass(frozen=True)
class _Asked:
    """A reply by its place, to the context `row` that its teacher sees."""

    place: int
    row: Row
    token_ids: Sequence[int]


class TeacherPanel:
    """The teachers of all domains. `folders`: checkpoint folders by name."""

    def __init__(self, folders: Mapping[str, Path], settings: DistillSettings, device: str) -> None:
        self._folders, self._settings, self._device = folders, settings, device
        self._loaded: dict[str, Checkpoint] = {}

    def ask(
        self, replies: Sequence[TaughtReply], contexts: Sequence[Row], domains: Sequence[DomainName]
    ) -> list[TaughtReply]:
        """The replies, in their order, with what the teachers of their domains say of them in their own contexts."""
        found: dict[int, TaughtReply] = {}
        teacher_of = self._settings.teachers.of_domains
        # teacher after teacher, so that one model at a time needs be in memory
        for name in self._settings.teachers.names:
            own = [place for place, domain in enumerate(domains) if teacher_of[domain] == name]
            if not own:
                continue
            teacher = self._teacher(name)
            asked = [_Asked(place, contexts[place], replies[place].token_ids) for place in own]
            settings, length = self._settings, teacher.processor.prompt_length
            for part in micro_batches(asked, settings.micro_batch, settings.micro_batch_tokens, length):
                some = [one.place for one in part]
                answered = self._said(teacher, [replies[place] for place in some], [one.row for one in part])
                found |= zip(some, answered, strict=True)
            # the name would keep the model in memory beyond `clear`
            del teacher
            if not self._settings.keep_teachers:
                self._loaded.clear()
                give_back()
        return [found[place] for place in range(len(replies))]

    def _teacher(self, name: str) -> Checkpoint:
        if name not in self._loaded:
            loaded = load_checkpoint(self._folders[name], device=self._device)
            loaded.model.eval().requires_grad_(False)
            self._loaded[name] = loaded
        return self._loaded[name]

    @torch.no_grad()
    def _said(self, teacher: Checkpoint, replies: Sequence[TaughtReply], contexts: Sequence[Row]) -> list[TaughtReply]:
        model, never = teacher.model, teacher.processor.never
        batch = replies_laid_out(model, teacher.processor, contexts, [one.token_ids for one in replies])
        batch = batch.to(self._device, next(model.parameters()).dtype)
        with autocast(batch.input_ids.device, self._settings.bf16, ranks=1):
            if self._settings.divergence == "sampled":
                taught = reply_logprobs(model, batch, never=never).logprobs.tolist()
                return [
                    # padded to the longest: cut back to each reply's own length
                    replace(one, taught=scores[: len(one.token_ids)])
                    for one, scores in zip(replies, taught, strict=True)
                ]
            chosen = pushed_only(batch, [one.pushes for one in replies])
            whole = label_terms(model, chosen, log_distributions(never)).values.float().cpu()
        # one table of all replies, in their order
        counts = [sum(weight > 0 for weight in one.pushes) for one in replies]
        return [replace(one, distributions=part) for one, part in zip(replies, whole.split(counts), strict=True)]
