"""One optimiser step of mid-training: losses and gradients of its micro-batches, over all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from trainer.midtrain.global_batch import StepBatches
from trainer.midtrain.loss import token_losses
from trainer.midtrain.perplexity import perplexity_weights
from trainer.midtrain.schedule import learning_rate, sigma_at
from trainer.modeling.batches import Batch
from trainer.modeling.flops import batch_flops
from trainer.modeling.processor import Processor
from trainer.modeling.routing import Balance, routed
from trainer.modeling.sharding import norm_of
from trainer.runtime.parallel import Ranks
from trainer.runtime.precision import autocast
from trainer.runtime.rates import set_rate
from trainer.settings.supervised import MidtrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class OptimiserSteps:
    """One optimiser step after another."""

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Processor,
        optimiser: Any,
        config: MidtrainConfig,
        group: Ranks,
        *,
        bad_before: int,
    ) -> None:
        self._model, self._processor, self._optimiser = model, processor, optimiser
        self._config, self._group = config, group
        self.device = torch.device(group.device) if group.world > 1 else next(model.parameters()).device
        self._bad_before, self._torn = bad_before, 0

    def bad_rows(self, given: StepBatches) -> int:
        """Rows that could not be used so far, in this run and before it was resumed."""
        return self._bad_before + given.after.bad + self._torn

    def step(self, given: StepBatches, step: int) -> dict[str, float]:
        """Train on a step's batches; what goes into the curve, and the `flops` that it took."""
        config = self._config
        set_rate(self._optimiser, learning_rate(step, config))
        # an empty batch only keeps its rank in step with the others
        real = [batch for batch in given.batches if batch.samples]
        own = [
            sum(float(batch.weights.sum(dtype=torch.float64)) for batch in real),
            sum(batch.tokens for batch in real),
            sum(batch.samples for batch in real),
            given.torn,
            sum(batch_flops(self._model.config, batch, frozen_tower=config.freeze_vision) for batch in real),
        ]
        # summed before any gradient: the loss of a step is a mean over the tokens of all ranks and micro-batches
        weight, tokens, samples, torn, flops = self._group.sums(own)
        self._torn += int(torn)
        if not weight:
            raise ValueError(f"mid-training: the batch of step {step} has no answer token with a weight above 0")
        self._optimiser.zero_grad(set_to_none=True)
        balance = Balance(self._model, self._group) if config.router_aux_loss_coef else None
        parts = [
            self._backward(batch.to(self.device), (weight, tokens), sigma_at(step, config), balance)
            for batch in given.batches
        ]
        # each rank's part is a share of the whole, so the sum is the mean
        loss, aux_loss, harder = self._group.sums([sum(some) for some in zip(*parts, strict=True)])
        # the mean factor: divided out, perplexity changes which tokens count and not how large a step is
        if config.perplexity.power:
            loss /= harder
            self._scale_gradients(1.0 / harder)
        norm = norm_of(torch.nn.utils.clip_grad_norm_(self._model.parameters(), config.max_grad_norm))
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"mid-training: loss {loss} has a gradient that is not finite at step {step}; "
                f"lower learning_rate ({config.learning_rate})"
            )
        self._optimiser.step()
        return {
            "step": step + 1,
            "loss": loss,
            "learning_rate": learning_rate(step, config),
            "tokens": int(tokens),
            "samples": int(samples),
            "grad_norm": norm.item(),
            "flops": flops,
            **({"aux_loss": aux_loss} if balance else {}),
            **({"perplexity_weight": harder} if config.perplexity.power else {}),
        }

    def _scale_gradients(self, factor: float) -> None:
        """Weights by perplexity are known after the forward pass: what is divided by is their sum over the step, so
        that neither ranks nor micro-batches change a gradient."""
        for parameter in self._model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def _backward(
        self, batch: Batch, whole: tuple[float, float], sigma: float, balance: Balance | None
    ) -> tuple[float, float, float]:
        """Add a micro-batch's gradient; its parts of the loss, of the experts' balance, which the loss holds, and of
        what perplexity makes of the weights. `whole`: weight and tokens of the step. Parts are averaged over ranks, so
        each is `world` times its share."""
        weight, tokens = whole
        with (
            autocast(batch.input_ids.device, self._config.bf16, self._group.world),
            routed(self._model, balance is not None) as logits,
        ):
            losses, weights, _ = token_losses(self._model, self._processor, batch, sigma, self._config.image_blocks)
            if self._config.perplexity.power:
                width = sigma if self._processor.numbers is not None else 0.0  # else no target is a Gaussian
                # -100 is transformers' mark for a token without a loss
                coordinate = batch.coordinate[batch.labels != -100]
                weights = weights * perplexity_weights(losses, coordinate, width, self._config.perplexity)
            part, aux = (losses * weights).sum() / weight, 0.0
            if balance is not None:  # on ranks and micro-batches without rows, too: the others wait for their counts
                share = balance.loss(logits, batch.attention_mask) * (batch.tokens * bool(batch.samples) / tokens)
                part, aux = part + self._config.router_aux_loss_coef * share, share.item()
        (part * self._group.world).backward()
        return part.item(), aux, float(weights.sum(dtype=torch.float64)) / weight
