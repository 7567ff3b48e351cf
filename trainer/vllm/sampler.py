"""Who draws the replies to rows, as the settings say (`sampler_of`), and vLLM servers as one who does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch

from schemas.ids import digest
from trainer.modeling.generation import MAX_NEW_TOKENS, Completion
from trainer.modeling.sampler import POLICY, HowDrawn, Sampler
from trainer.settings.grpo import RepliesConfig, VllmConfig
from trainer.vllm.engine import VllmEngine

if TYPE_CHECKING:
    from trainer.modeling.batches import Row
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.modeling.processor import Processor


class ServedSampler(Sampler):
    """See `Sampler`. Servers get a model's weights with the first replies that are asked for after they changed
    (`renew`), under a label that every reply has to carry (`VllmEngine`). The likeliest reply is the server's own
    argmax of each token. `run` names the run, as for the engine. Raises `EngineFailed` where no server takes the
    weights, `PolicyError` where none answers within `wait_s`: a run then goes on from its last saved state."""

    served = True

    def __init__(self, model: Any, processor: Processor, settings: VllmConfig, run: str) -> None:
        super().__init__(model, processor)
        # what a reply is drawn with is said with each
        self._engine = VllmEngine(
            {POLICY: model}, processor.apart(), settings, temperature=1.0, max_new_tokens=MAX_NEW_TOKENS, run=run
        )
        self._version: int | None = 0

    def __enter__(self) -> Self:
        self._engine.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._engine.__exit__(*error)

    def renew(self, version: int) -> None:
        """See `Sampler`."""
        self._version = version

    def draw(self, rows: Sequence[Row], **how: Unpack[HowDrawn]) -> list[Completion]:
        """See `Sampler`; `batch_size`: how many are asked for at a time."""
        if how.get("decided"):
            raise ValueError("servers: expected screens that are read whole or by zoom; windows are ranked in process")
        if self._version is not None:
            self._engine.publish(self.model.state_dict(), self._version)
            self._version = None
        # one number of the generator for all of a call: whoever draws twice with it gets other replies
        first, group, temperature = 0, how.get("group", 1), how.get("temperature", 0.0)
        if generator := how.get("generator"):
            first = int(torch.randint(1 << 40, (1,), generator=generator, device=generator.device))

        def reply(place: int) -> Completion:
            row, member = divmod(place, group)
            said, _, _ = self._engine.reply(rows[row], first + place, temperature, how["max_new_tokens"])
            return replace(said, row=row, member=member)

        threads = ThreadPoolExecutor(how.get("batch_size", 64), thread_name_prefix="served-replies")
        try:
            found = list(threads.map(reply, range(len(rows) * group)))
        finally:
            # where one has failed, those that haven't begun are not waited for
            threads.shutdown(cancel_futures=True)
        return found


def sampler_of(loaded: Checkpoint, settings: RepliesConfig, run: Callable[[], object]) -> Sampler:
    """Who draws a loaded checkpoint's replies: for RL, distillation, evaluation and merges alike. `run`: plain data
    that tell this run from others with the same servers' folder; asked only of servers, since it may read weights.
    Raises `ValueError` where servers aren't named."""
    if settings.rollout_engine == "in_process":
        return Sampler(loaded.model, loaded.processor)
    return ServedSampler(loaded.model, loaded.processor, settings.vllm, digest(run())[:16])
