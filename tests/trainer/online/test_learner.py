"""The update: what a stale reply counts for, that micro-batches don't matter, that lost weights leave no trace."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from online_runs import plain_grpo as config
from online_runs import two_rollouts as rollouts
from online_runs import update

from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.model import reply_logprobs
from trainer.online.learner import replies_of
from trainer.online.rollouts import Rollout
from trainer.rl.grpo import group_advantages, grpo_loss
from trainer.rl.learner import Learner
from trainer.rl.sampled_replies import by_step
from trainer.runtime.training_state import StateFile
from trainer.settings.online import OnlineConfig

pytestmark = pytest.mark.slow


@pytest.fixture
def loaded(start: Path) -> Checkpoint:
    return load_checkpoint(start)


def gradients(loaded: Checkpoint, config: OnlineConfig, made: list[Rollout], version: int = 0) -> dict[str, Any]:
    """Of one update, clipped to no norm, the optimiser's step undone."""
    model = copy.deepcopy(loaded.model)
    learner = Learner(model, loaded.processor, config.changed(max_grad_norm=math.inf))
    update(learner, made, group_advantages([[1.0, 0.0]], config.grpo), version)
    return {name: tensor.grad.clone() for name, tensor in model.named_parameters() if tensor.grad is not None}


@pytest.mark.parametrize(("shift", "factor"), [(math.log(2) / 2, 2**-0.5), (-0.1, math.exp(0.1)), (-3.0, 2.0)])
def test_a_stale_reply_is_corrected_by_the_truncated_ratio(loaded: Checkpoint, shift: float, factor: float) -> None:
    fresh = gradients(loaded, config(), rollouts(loaded))
    stale = gradients(loaded, config(), rollouts(loaded, shift, version=0), 2)
    replayed = gradients(loaded, config(), [replace(one, replayed=True) for one in rollouts(loaded, shift)])
    # an asynchronous run corrects all of them: their version may be of weights that were lost
    asynchronous = gradients(loaded, config(mode="async"), rollouts(loaded, shift, version=2), 2)
    # a server's kernels aren't the learner's: what it tells is the behaviour policy's, however fresh
    served = gradients(loaded, config(rollout_engine="vllm"), rollouts(loaded, shift, version=2), 2)
    for name, gradient in fresh.items():
        for other in (stale, replayed, asynchronous, served):
            torch.testing.assert_close(other[name], gradient * factor, rtol=1e-3, atol=1e-6)


def test_the_sum_over_micro_batches_is_the_loss_of_the_trajectories(loaded: Checkpoint) -> None:
    made = rollouts(loaded)
    whole, single = (gradients(loaded, config(micro_batch=size), made) for size in (32, 1))
    by_tokens = gradients(loaded, config(micro_batch_tokens=200), made)
    samples = [(one, index) for index, rollout in enumerate(made) for one in rollout.samples]
    advantages = group_advantages([[1.0, 0.0]], config().grpo)
    loaded.model.zero_grad()
    for sample, index in samples:  # by hand: -1/N sum_i 1/|tau_i| sum_t A_i log p
        batch = loaded.processor.reply_batch([sample.row()], [sample.token_ids])
        found = reply_logprobs(loaded.model, batch, never=loaded.processor.never)
        (-found.logprobs.sum() * advantages.values[index] * 0.5 / made[index].tokens).backward()
    for name, tensor in loaded.model.named_parameters():
        if tensor.grad is not None:
            torch.testing.assert_close(whole[name], tensor.grad, rtol=1e-3, atol=1e-6)
            torch.testing.assert_close(single[name], whole[name], rtol=1e-3, atol=1e-6)
            torch.testing.assert_close(by_tokens[name], whole[name], rtol=1e-3, atol=1e-6)


def test_bf16_rounds_passes_and_no_weights(loaded: Checkpoint) -> None:
    plain, rounded = (gradients(loaded, config(bf16=half), rollouts(loaded)) for half in (None, True))
    one, other = (torch.cat([part.flatten() for part in found.values()]) for found in (plain, rounded))
    assert plain.keys() == rounded.keys() and other.dtype == torch.float32
    assert not torch.equal(one, other)
    assert torch.nn.functional.cosine_similarity(one, other, dim=0) > 0.99
    learner = Learner(loaded.model, loaded.processor, config(bf16=True))
    update(learner, rollouts(loaded), group_advantages([[1.0, 0.0]], config().grpo), 0)
    assert {tensor.dtype for tensor in loaded.model.state_dict().values()} == {torch.float32}


def test_a_frozen_tower_sees_a_picture_once_for_policy_and_reference(loaded: Checkpoint) -> None:
    given, made = config(freeze_vision=True, grpo=config().grpo.changed(beta=0.1)), rollouts(loaded)
    seen: list[int] = []
    loaded.model.model.visual.register_forward_hook(lambda *_: seen.append(1))
    learner = Learner(loaded.model, loaded.processor, given)
    assert learner.reference is not None
    learner.reference.model.visual.register_forward_hook(lambda *_: seen.append(1))
    for number in range(2):
        update(learner, made, group_advantages([[1.0, 0.0]], given.grpo), number)
    assert len(seen) == len({sample.picture for one in made for sample in one.samples})


def test_more_iterations_go_on_from_the_proximal_policy(loaded: Checkpoint) -> None:
    learner = Learner(loaded.model, loaded.processor, config(learning_rate=5e-2, num_iterations=3))
    made = rollouts(loaded, -0.1, version=0)
    figures = update(learner, made, group_advantages([[1.0, 0.0]], learner.config.grpo), 4)
    assert figures["ratio"] != pytest.approx(1.0, abs=1e-3) and figures["clip_low"] + figures["clip_high"] > 0


def test_steps_of_a_generation_share_out_its_trajectories(loaded: Checkpoint) -> None:
    made = [one for version in (0, 0) for one in rollouts(loaded, version=version)]
    advantages = group_advantages([[1.0, 0.0], [1.0, 0.0]], config().grpo)
    replies = replies_of(made, advantages, 0, config())
    for steps in (1, 2, 3, 9):
        dealt = by_step(replies, advantages, steps)
        assert len(dealt) == min(steps, 4)
        assert sorted(one.trajectory for some, _ in dealt for one in some) == [one.trajectory for one in replies]
        for some, weighted in dealt:
            assert math.fsum(weighted.weights) == pytest.approx(1.0) and weighted.values == advantages.values
            assert {one.trajectory for one in some} == {i for i, weight in enumerate(weighted.weights) if weight > 0}
    for steps, on_policy in ((1, True), (2, False)):
        settings = config(learning_rate=5e-2, steps_per_generation=steps)
        learner = Learner(copy.deepcopy(loaded.model), loaded.processor, settings)
        figures = update(learner, made, advantages, 0)  # of the last step
        assert {int(state["step"]) for state in learner.optimizer.state.values()} == {steps}
        assert (figures["ratio"] == pytest.approx(1.0, abs=1e-3)) == on_policy


@pytest.mark.parametrize("iterations", [1, 2])
def test_the_gap_between_sampler_and_learner_is_told(loaded: Checkpoint, iterations: int) -> None:
    served = config(rollout_engine="vllm", num_iterations=iterations)
    made, advantages = rollouts(loaded, -0.2, version=3), group_advantages([[1.0, 0.0]], served.grpo)
    figures = update(Learner(loaded.model, loaded.processor, served), made, advantages, 3)
    assert figures["sampling_logp_difference_mean"] == pytest.approx(0.2, abs=1e-4)
    assert figures["sampling_logp_difference_max"] == pytest.approx(0.2, abs=1e-4)
    older = update(Learner(loaded.model, loaded.processor, served), made, advantages, 4)
    assert "sampling_logp_difference_mean" not in older  # other weights sampled them


def test_kernels_that_round_by_the_batch_are_corrected_and_told(loaded: Checkpoint) -> None:
    """As a GPU's do: what sampling recorded is the behaviour's figure, and the learner's own is the old policy's."""
    made, advantages = rollouts(loaded, -0.2), group_advantages([[1.0, 0.0]], config().grpo)
    learner = Learner(loaded.model, loaded.processor, config())
    learner._rounds_otherwise = True
    figures = update(learner, made, advantages, 0)
    assert figures["sampling_logp_difference_mean"] == pytest.approx(0.2, abs=1e-4)
    assert figures["ratio"] == pytest.approx(1.0, abs=1e-5), "to the learner's own figure of the same weights"


def test_entropy_decays_and_the_rate_warms_up(loaded: Checkpoint) -> None:
    learner = Learner(
        loaded.model,
        loaded.processor,
        OnlineConfig.parsed(
            {"entropy_decay": 0.5, "warmup_steps": 4, "learning_rate": 0.01, "grpo": {"entropy_coef": 0.08}}
        ),
    )
    made, advantages = rollouts(loaded, version=3), group_advantages([[1.0, 0.0]], learner.config.grpo)
    figures = update(learner, made, advantages, 3)
    assert figures["entropy_coef"] == pytest.approx(0.01) and figures["learning_rate"] == pytest.approx(0.01)
    assert learner.learning_rate(0) == pytest.approx(0.0025)
    assert figures["kl"] == pytest.approx(0.0, abs=1e-9)  # the reference is the start
    assert update(learner, made, advantages, 4)["kl"] > 0
    nothing = group_advantages([[0.0, 0.0]], learner.config.grpo)
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    assert update(learner, made, nothing, 5) == {}
    assert all(torch.equal(tensor, loaded.model.state_dict()[name]) for name, tensor in before.items())


def test_the_state_comes_back(loaded: Checkpoint) -> None:
    settings = OnlineConfig.parsed({"learning_rate": 1e-2})
    made, advantages = rollouts(loaded), group_advantages([[1.0, 0.0]], settings.grpo)
    learner = Learner(loaded.model, loaded.processor, settings)
    update(learner, made, advantages, 0)
    file = StateFile(None, "")
    state = copy.deepcopy(learner.state(file))
    update(learner, made, advantages, 1)
    other = Learner(copy.deepcopy(loaded.model), loaded.processor, settings)
    other.load(state, file)
    update(other, made, advantages, 1)
    ours, theirs = learner.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_parts_that_are_saved_beside_training_are_those_of_then(loaded: Checkpoint, tmp_path: Path) -> None:
    """A process group of one writes as several ranks do; the learner goes on while its state is written."""
    settings = OnlineConfig.parsed({"learning_rate": 1e-2, "async_save": True})
    made, advantages = rollouts(loaded), group_advantages([[1.0, 0.0]], settings.grpo)
    file = StateFile(tmp_path / "rl.pt", "a run", background=True)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        learner, other = (
            Learner(one, loaded.processor, settings) for one in (loaded.model, copy.deepcopy(loaded.model))
        )
        update(learner, made, advantages, 0)
        saved = learner._state(file.folder())
        file.save(saved["folder"], learner.written, learner=saved)
        update(learner, made, advantages, 1)
        file.saves.check(wait=True)
        assert {path.name for path in tmp_path.iterdir()} == {"rl.pt", "rl-1"}
        kept = file.load()
        assert kept is not None
        other._load(file.folder(kept["learner"]["folder"]))
    finally:
        dist.destroy_process_group()
    update(other, made, advantages, 1)
    ours, theirs = learner.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_loss_is_that_of_grpo(loaded: Checkpoint) -> None:
    """One entry of the stale correction against `grpo_loss` with all replies stale."""
    made = rollouts(loaded, 0.2)
    advantages = group_advantages([[1.0, 0.0]], config().grpo)
    samples = [(sample, index) for index, one in enumerate(made) for sample in one.samples]
    batch = loaded.processor.reply_batch([s.row() for s, _ in samples], [s.token_ids for s, _ in samples])
    found = reply_logprobs(loaded.model, batch, never=loaded.processor.never)
    from trainer.rl.grpo import padded

    recorded = padded([s.logprobs for s, _ in samples], found.logprobs)
    loss = grpo_loss(
        found.logprobs,
        found.logprobs.detach(),
        found.mask,
        [i for _, i in samples],
        advantages,
        [one.tokens for one in made],
        config().grpo,
        behaviour_SL=recorded,
    )
    learner = Learner(copy.deepcopy(loaded.model), loaded.processor, config())
    assert update(learner, made, advantages, 1)["loss"] == pytest.approx(float(loss.loss.detach()), abs=1e-6)
