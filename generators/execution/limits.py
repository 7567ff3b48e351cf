"""When an execution of a task ends: the limits of its steps, its calls and its retries."""

import math
from dataclasses import dataclass

from generators.tasks.task_spec import TaskSpec

DECIDE_S = 900.0
"""Seconds that one of `execute.POLICY_CALLS` may take (`AttemptLimits.call_s`, where that is more). A model's server
has a deadline of its own (`ChatEndpoint`: 5 minutes a question, rate limits apart), and a policy may ask it more than
once a turn."""


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """When an execution ends. Most steps = `step_factor` x expected + `step_extra`. `unreadable` and `invalid`: so many
    replies in a row that can't be read, or actions that can't be carried out. Seconds of wall time: `call_s` for one
    look or action (a decision may take `DECIDE_S`), `attempt_s` for all of a try. `retries`: an attempt is given up
    after more infrastructure failures than that without a step between them, or after more restarts. `pause_s`:
    before the first retry; it doubles up to 32 times that. `device_s`: how long to go on asking for a device while none
    is to be had."""

    step_factor: float = 2.0
    step_extra: int = 5
    unreadable: int = 3
    invalid: int = 5
    call_s: float = 120.0
    attempt_s: float = 1800.0
    retries: int = 4
    pause_s: float = 0.1
    device_s: float = 300.0

    def __post_init__(self) -> None:
        least = {
            "step_factor": 0,
            "step_extra": 0,
            "unreadable": 1,
            "invalid": 1,
            "call_s": 0,
            "attempt_s": 0,
            "retries": 0,
            "pause_s": 0,
            "device_s": 0,
        }
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                # `not >=`, so that nan is refused as well
                raise ValueError(f"limits: expected {name} of {bound} or more, found {getattr(self, name)!r}")

    def most_steps(self, contract: TaskSpec) -> int:
        return max(1, math.ceil(self.step_factor * contract.expected_steps) + self.step_extra)
