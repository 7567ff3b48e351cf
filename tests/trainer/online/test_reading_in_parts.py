"""Online RL of a policy that reads screens by windows: what it learns from is the window that was acted by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from guided import tasks_of
from red_seer import RedSeer, hits, screen

from generators.policies.policy import PolicyView
from pipelines.store.images import open_image
from schemas.actions import Click
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import Completion
from trainer.online.engine import RolloutPolicy
from trainer.online.rollouts import RolloutClaim, RolloutJob, SampleRecorder
from trainer.settings.reading import Reading


class SeeingEngine:
    """Answers each row as `RedSeer` does."""

    def __init__(self) -> None:
        self.seer = RedSeer("<think></think><action>Click(box=({x},{y}))</action><conclusion></conclusion>")

    def ask(self, job: RolloutJob, row: Mapping[str, Any], seed: int) -> tuple[Completion, int, int]:
        return self.seer.answer(row), 10, 3


def test_the_recorded_sample_is_that_of_the_chosen_window(processor: Any, model: Any) -> None:
    seeing = processor.apart()
    seeing.preset = replace(seeing.preset, max_pixels=320 * 448, reading=Reading(mode="windows"))
    [task] = tasks_of(["shop"], 1)
    job, recorder, engine = RolloutJob(task, "u0-t0", 0, 1), SampleRecorder(), SeeingEngine()
    claim = RolloutClaim(job, "online", "here")
    checkpoint = Checkpoint(model, seeing, {"stage": "tiny"})
    policy = RolloutPolicy(checkpoint, engine, job, recorder, claim, thinking=False)  # type: ignore[arg-type]
    policy.begin("press the red one", "mobile", 1)
    for turn in (1, 2):
        decision = policy.decide(PolicyView("press the red one", screen(), (540, 960), "mobile", ()))
        assert isinstance(decision.action, Click) and hits(*decision.action.box)
        assert len(recorder.samples) == turn and len(engine.seer.asked) == 6 * turn, "one sample a turn"
        sample = recorder.samples[-1]
        shown = np.asarray(open_image(sample.picture))
        assert shown.shape[:2] == (448, 320) and (shown[..., 1] < 128).any(), "the window that shows it"
        assert sample.token_ids == (2, 3) and sample.logprobs == (-0.5, -4.0) and sample.version == 3
