"""The trust region: how hard an update is held to the reference, by controllers of the KL term's weight β.

A controller is one function: β of the settings, what past updates measured, and its own options by name → β of the
next update. It holds no state of its own, so that a run that was killed goes on with the very same weights.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class UpdateMeasures:
    """What an update measured: KL to the reference in nats a token (the k3 estimate), mean reward of its replies, and
    the policy's mean entropy in nats a token. None where the run reports no such figure."""

    kl: float | None = None
    reward: float | None = None
    entropy: float | None = None


MEMBERS = {
    "fixed": "trainer.rl.trust_region.fixed:fixed",
    "target_kl": "trainer.rl.trust_region.target_kl:target_kl",
    "reward_guided": "trainer.rl.trust_region.reward_guided:reward_guided",
}
