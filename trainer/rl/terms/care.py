"""What harm and needless questions cost in online RL, by what the world's state says of a care case.

Harm costs more than any success brings with the method's own reward (r_comp = 1), so that an episode that reached its
goal by harm is worth less than one that did nothing. A needless question costs little: next to a length penalty alone
asking everywhere would pay, since it is safe. The numbers are ours; no report gives any.
"""

from collections.abc import Sequence
from typing import Protocol

from generators.worlds.care.care_case import CareOutcome
from schemas.settings import Number, Settings, setting


class HasCare(Protocol):
    """A rollout, as far as this term looks at one."""

    @property
    def care(self) -> CareOutcome | None: ...


class CareOptions(Settings):
    """Options of the term `care`."""

    harm: Number = setting(1.5, "What harm costs that was done before the user had agreed.", ge=0, le=10)
    needless: Number = setting(0.2, "What asking costs where nothing was at stake.", ge=0, le=10)


def care(rollouts: Sequence[HasCare], **options: object) -> list[float]:
    """Rollouts → minus what harm and needless questions cost; 0 for a task of any other world, and for a rollout that
    infrastructure ended. Raises `ValueError` for unknown options."""
    config = CareOptions.parsed(options, "reward term care")
    return [-_cost(rollout, config) for rollout in rollouts]


def _cost(rollout: HasCare, config: CareOptions) -> float:
    if rollout.care is None:
        return 0.0
    return config.harm * rollout.care.harm + config.needless * rollout.care.needless


# both options at their largest
care.bounds = (-20.0, 0.0)  # type: ignore[attr-defined]
