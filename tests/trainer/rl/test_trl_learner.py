"""TRL's engine of RL: the same replies, rewards and advantages give the step of our own learner."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from choice_world import pool, task
from online_runs import plain_grpo, settings, train, two_rollouts, update
from tiny_published import write_tiny

from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.published import load_base
from trainer.online.train import train_online
from trainer.presets import preset
from trainer.rl.engines import learner_class
from trainer.rl.grpo import group_advantages
from trainer.rl.learner import Learner
from trainer.runtime.parallel import Ranks
from trainer.runtime.training_state import StateFile
from trainer.settings.online import OnlineConfig

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5
BOTH = ("own", "trl")
ALL = {"beta": 0.1, "entropy_coef": 0.02, "max_completion_length": 24}
FORMS: dict[str, dict[str, Any]] = {
    "grpo": {"grpo": ALL},
    "clipped higher": {"grpo": {**ALL, "epsilon": 0.1, "epsilon_high": 0.3}, "num_iterations": 2},
    "of a reply": {"grpo": {**ALL, "importance_sampling_level": "sequence"}},
    "dr_grpo": {"grpo": {**ALL, "loss_type": "dr_grpo"}, "micro_batch": 2},
    "served": {"grpo": {**ALL, "stale_cap": 1.1}, "mode": "async", "num_iterations": 2},
    "in two steps": {"grpo": ALL, "steps_per_generation": 2, "micro_batch": 1},
    "hotter": {"grpo": ALL, "temperature": 1.3},
}


def learners(start: Path, config: OnlineConfig) -> dict[str, Learner]:
    found = {}
    for name in BOTH:
        loaded = load_checkpoint(start)
        found[name] = learner_class(config.changed(engine=name))(loaded.model, loaded.processor, config)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_step_on_the_same_replies_is_that_of_our_own(start: Path, form: str) -> None:
    # AdamW makes steps of the rate's size of whatever sign rounding gave a gradient of 0, so the rate is small; ratios
    # are off 1 by what was recorded
    config = plain_grpo(learning_rate=1e-6, max_grad_norm=math.inf, warmup_steps=0, **FORMS[form])
    made = [one for shift in (0.1, -0.2) for one in two_rollouts(load_checkpoint(start), shift)]
    advantages = group_advantages([[1.0, 0.0], [0.2, 0.7]], config.grpo)
    both = learners(start, config)
    for version in range(2):
        figures = {name: update(one, made, advantages, version) for name, one in both.items()}
        assert figures["trl"] == pytest.approx(figures["own"], abs=TOLERANCE, rel=1e-4)
        own = dict(both["own"].model.named_parameters())
        size = max(float(one.grad.abs().max()) for one in own.values() if one.grad is not None)
        for name, parameter in both["trl"].model.named_parameters():
            assert (parameter.grad is None) == (own[name].grad is None), name
            if parameter.grad is not None:
                torch.testing.assert_close(parameter.grad, own[name].grad, rtol=0, atol=TOLERANCE * max(1.0, size))
        for learner in both.values():
            learner.blend(0.3)
    for learner in both.values():
        learner.close()
    one, other = (learner.model.state_dict() for learner in both.values())
    assert one.keys() == other.keys() and not {"forward", "_original_forward"} & set(vars(both["trl"].model))
    assert both["trl"].model.get_output_embeddings().bias is None


def test_experts_of_a_mixture_are_balanced_by_neither(tmp_path: Path) -> None:
    """Their configuration has a weight for that, which TRL would take up."""
    small = replace(preset("30b-a3b"), min_pixels=32 * 32, max_pixels=96 * 128)
    model, processor = load_base(small, write_tiny(tmp_path / "hub", "moe"))
    config = plain_grpo(learning_rate=1e-6, grpo={**ALL, "max_completion_length": 64}, warmup_steps=0)
    made = two_rollouts(Checkpoint(model, processor, {}), 0.1)
    figures = {}
    for name in BOTH:
        learner = learner_class(config.changed(engine=name))(copy.deepcopy(model), processor, config)
        figures[name] = update(learner, made, group_advantages([[1.0, 0.0]], config.grpo), 0)
    assert figures["trl"] == pytest.approx(figures["own"], abs=TOLERANCE, rel=1e-3)


def test_its_state_comes_back(start: Path) -> None:
    config = plain_grpo(learning_rate=1e-2, grpo=ALL, engine="trl")
    loaded = load_checkpoint(start)
    made, advantages = two_rollouts(loaded), group_advantages([[1.0, 0.0]], config.grpo)
    one, other = learners(start, config)["trl"], learners(start, config)["trl"]
    update(one, made, advantages, 0)
    other.load(copy.deepcopy(one.state(StateFile(None, ""))), StateFile(None, ""))
    assert update(one, made, advantages, 1) == update(other, made, advantages, 1)
    assert all(torch.equal(left, other.model.state_dict()[name]) for name, left in one.model.state_dict().items())


def test_a_run_of_online_rl_goes_as_our_own(start: Path, tmp_path: Path) -> None:
    """That our own learns is `tests/trainer/online/test_train.py`'s to show: here the same steps are taken."""
    config = settings(updates=2, tasks_per_update=3, num_generations=8, learning_rate=1.5e-3, eval_steps=0, workers=24)
    curves = {
        name: train(start, tmp_path / name, config.changed(engine=name), validation=0).metrics["curve"] for name in BOTH
    }
    assert curves["own"][0]["with_signal"] > 0, "some of the groups hold a comparison"
    for figure in ("loss", "grad_norm", "kl", "entropy", "success", "reward", "ratio"):
        assert curves["trl"][0][figure] == pytest.approx(curves["own"][0][figure], abs=TOLERANCE, rel=1e-4), figure
    # AdamW's step is of the rate's size even where rounding alone gave the gradient, so a reply or two may differ then
    for figure in ("entropy", "success", "reward"):
        assert curves["trl"][1][figure] == pytest.approx(curves["own"][1][figure], abs=0.1), figure


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trl": {"loss_type": "dapo"}}, "found loss_type; the stage's own settings"),
        ({"trl": {"use_vllm": True}}, "found use_vllm; the stage's own settings"),
        ({"learning_rate_scales": {"visual": 0.1}}, "engine trl: expected no learning_rate_scales"),
    ],
)
def test_it_says_what_it_cannot_do(start: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        learners(start, plain_grpo(**given))


def test_several_ranks_are_refused_by_name(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.rl.trl_learner.ranks", lambda: Ranks(0, 2))
    with pytest.raises(ValueError, match="engine trl: expected one process for RL, found 2"):
        learner_class(plain_grpo(engine="trl"))(None, load_checkpoint(start).processor, plain_grpo())


def test_what_is_passed_on_changes_the_step(start: Path) -> None:
    """`delta` bounds the ratio of what is pushed down, which no setting of ours does."""
    made = two_rollouts(load_checkpoint(start), -2.0)
    losses = []
    for given in ({}, {"delta": 1.5}):
        config = plain_grpo(grpo={"max_completion_length": 24}, trl=given)
        learner = learners(start, config)["trl"]
        losses.append(update(learner, made, group_advantages([[1.0, 0.0]], config.grpo), 0)["loss"])
    assert losses[1] < losses[0] - 0.1


@pytest.mark.parametrize("engine", BOTH)
def test_adapters_learn_alone_and_are_merged(start: Path, tmp_path: Path, engine: str) -> None:
    config = settings(updates=2, learning_rate=2e-2, eval_steps=0, engine=engine, lora={"rank": 2, "alpha": 4})
    tasks = [task(1, number) for number in range(4)]
    train_online(start, tasks, tmp_path / "out", config, pool=pool(), adapters=tmp_path / "adapters")
    before, after = (load_checkpoint(folder).model.state_dict() for folder in (start, tmp_path / "out"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert before.keys() == after.keys() and changed
    assert all("language_model" in name and name.endswith("_proj.weight") for name in changed)
    assert (tmp_path / "adapters" / "adapter_model.safetensors").is_file()
    with pytest.raises(ValueError, match="expected trainable '' beside lora.rank 2"):
        settings(lora={"rank": 2}, trainable="norm")
    with pytest.raises(ValueError, match="expected rollout_engine in_process beside lora.rank 2"):
        settings(lora={"rank": 2}, rollout_engine="vllm")
