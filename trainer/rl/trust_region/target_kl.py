"""β follows a target: it rises while the policy is farther from the reference than that, and falls while it is nearer.

The proportional controller of Ziegler et al. (2019, arXiv 1909.08593, §2.2): with e = clip((KL − target)/target,
−`error_clip`, `error_clip`), β ← β · (1 + `gain` · e). Theirs clips at 0.2, for thousands of updates; runs here have
hundreds at most, so that ours turns faster. The faster it turns, the more it overshoots.
"""

from collections.abc import Sequence

from schemas.settings import Number, Settings, setting
from trainer.rl.trust_region import UpdateMeasures


class TargetKlOptions(Settings):
    """Options of `target_kl`."""

    target: Number = setting(0.05, "KL to the reference that is aimed at, in nats a token.", gt=0)
    gain: Number = setting(0.1, "How far β moves for an error of 1.", gt=0, lt=1)
    error_clip: Number = setting(0.5, "Relative errors count as no more than this, either way.", gt=0, le=1)
    largest: Number = setting(10.0, "β never rises above this; below that of the settings it never falls.", gt=0)


def target_kl(beta: float, measured: Sequence[UpdateMeasures], **options: object) -> float:
    """β after all that was measured; updates without a KL leave it. Raises `ValueError` for unknown options."""
    config, least = TargetKlOptions.parsed(options, "kl_weight target_kl"), beta
    for one in measured:
        if one.kl is None:  # no reply held a comparison: the policy didn't move, nothing is known
            continue
        error = (one.kl - config.target) / config.target
        beta *= 1.0 + config.gain * max(-config.error_clip, min(config.error_clip, error))
        # a policy that is near for long would wind β down to nothing, and need as long to be caught again
        beta = max(least, min(beta, config.largest))
    return beta
