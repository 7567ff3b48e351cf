"""What changes during a run of online RL, beside the learner, and how both are kept."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from trainer.rl.learner import Learner
from trainer.runtime.training_state import StateFile

FILE = "online_rl.pt"


@dataclass
class TrainingProgress:
    """Plain JSON data. `curve` has an event per update, `validations` one per look, `blends` one per step of the
    reference; `policy`, `reference` and `first`: successes of the last, the reference's and the first look, in the
    order of `validation_jobs`. `replay` and `collected`: what the replay buffer and the collector hold. `picture`: the
    last one of a rollout, base64."""

    update: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    blends: list[dict[str, Any]] = field(default_factory=list)
    first: list[bool | None] = field(default_factory=list)
    policy: list[bool | None] = field(default_factory=list)
    reference: list[bool | None] = field(default_factory=list)
    replay: dict[str, Any] = field(default_factory=dict)
    collected: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    elapsed_s: float = 0.0


def save_run(
    file: StateFile, learner: Learner, progress: TrainingProgress, then: Callable[[], object] = lambda: None
) -> None:
    """Learner, RNG and progress; `then` is called once they are on the disk."""
    if file.path is None:  # the other ranks would gather a state that nobody wants
        then()
        return
    saved, plain = learner.state(file), json.dumps(asdict(progress))
    file.save(saved["folder"], learner.written, then, learner=saved, rng=torch.get_rng_state(), progress=plain)


def load_run(file: StateFile, learner: Learner) -> TrainingProgress | None:
    """The saved progress, after learner and RNG have their states; None if there is none of this run."""
    saved = file.load()
    if saved is None:
        return None
    learner.load(saved["learner"], file)
    torch.set_rng_state(saved["rng"])
    return TrainingProgress(**json.loads(saved["progress"]))
