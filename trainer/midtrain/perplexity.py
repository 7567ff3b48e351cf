"""Weights of answer tokens by their perplexity: what the model already knows counts less (after LAMO).

A coordinate with a Gaussian target can't be known better than that Gaussian is wide, so what counts is the loss above
the target's own entropy. LAMO publishes no formula; this one is ours: w = min(exp(a · (ℓ − H)), cap), divided by its
mean over the step (`trainer.midtrain.step`). One token, however odd, weighs `cap` times another at most.
"""

import math

import torch

from trainer.settings.supervised import PerplexityWeights


def perplexity_weights(
    losses: torch.Tensor, coordinate: torch.Tensor, sigma: float, config: PerplexityWeights
) -> torch.Tensor:
    """Losses [N] in nats → factors [N] in 1..cap, without gradient; all 1 at power 0. `coordinate` [N]: which losses
    are against a Gaussian of width `sigma`, in units of 0..1000; 0: none is."""
    floor = max(0.0, 0.5 * math.log(2 * math.pi * math.e * sigma**2)) if sigma > 0 else 0.0  # in nats, of a Gaussian
    excess = (losses.detach() - floor * coordinate).clamp(min=0.0)
    # clamped before exp, so that one odd token can't overflow
    return torch.exp((config.power * excess).clamp(max=math.log(config.cap)))
