"""PPO as the reference of GRPO: advantages by hand, what its value head learns, and its part of a run."""

import copy
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from online_runs import plain_grpo, two_rollouts, update

from trainer.modeling.checkpoint import load_checkpoint
from trainer.rl.engines import learner_class
from trainer.rl.grpo import group_advantages
from trainer.rl.ppo import Critic, PpoLearner, explained_variance, token_advantages
from trainer.runtime.training_state import StateFile
from trainer.settings.distill import DistillSettings
from trainer.settings.grpo import CriticConfig, GrpoConfig
from trainer.settings.offline import OfflineConfig
from trainer.settings.online import OnlineConfig

PPO = GrpoConfig(critic=CriticConfig())


def test_advantages_by_hand() -> None:
    values, mask = torch.tensor([[0.5, 0.25], [0.5, 9.0]]), torch.tensor([[1, 1], [1, 0]])
    found = token_advantages(values, mask, torch.tensor([1.0, 0.0]), 0.5)
    # the last token: 1 - 0.25; the first: 0.25 - 0.5 + 0.5 * 0.75; of one token alone: 0 - 0.5; padding: nothing
    torch.testing.assert_close(found, torch.tensor([[0.125, 0.75], [-0.5, 0.0]]))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(-5, 5))
def test_with_lambda_1_an_advantage_is_what_came_against_what_was_expected(values: list[float], reward: float) -> None:
    one = torch.tensor([values])
    found = token_advantages(one, torch.ones_like(one), torch.tensor([reward]), 1.0)
    torch.testing.assert_close(found, reward - one, atol=1e-4, rtol=1e-4)


def test_rewards_are_kept_and_no_group_is_skipped() -> None:
    found = group_advantages([[1.0, 1.0], [0.0, None]], PPO)
    assert found.values == (1.0, 1.0, 0.0, 0.0) and found.used == found.groups == 2
    assert found.weights == (1 / 3, 1 / 3, 1 / 3, 0.0)


def test_a_critic_learns_what_each_state_earns() -> None:
    states, rewards = torch.eye(2).repeat(20, 1), torch.tensor([1.0, 0.2]).repeat(20)
    critic = Critic(2, CriticConfig(learning_rate=0.05, epochs=100))
    assert critic.fit(states, rewards) == 0.0  # a critic that says 0 everywhere explains nothing
    assert critic.fit(states, rewards) > 0.9
    assert critic.values(torch.eye(2)).tolist() == pytest.approx([1.0, 0.2], abs=0.05)
    assert explained_variance(rewards, rewards) == 1.0 and explained_variance(rewards, torch.ones(40)) == 0.0


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (GrpoConfig, {"critic": {}, "negative_floor": 0.5}, "negative_floor 1 beside critic"),
        (OnlineConfig, {"grpo": {"critic": {}}, "engine": "trl"}, "engine own beside grpo.critic"),
        (OnlineConfig, {"grpo": {"critic": {}}, "platforms": {"weighting": "platform"}}, "no credit or platforms"),
        (OfflineConfig, {"grpo": {"critic": {}}, "domain": "web", "difficulty": 1.0}, "no semi_online or difficulty"),
        (DistillSettings, {"grpo": {"critic": {}}}, "expected no grpo.critic"),
    ],
)
def test_what_compares_within_groups_is_refused(kind: type, given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind.parsed(given)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_learner_moves_its_tokens_by_the_critic_and_comes_back_from_its_state(start: Path) -> None:
    config = plain_grpo(learning_rate=1e-2, grpo={"critic": {"warmup_updates": 1}, "max_completion_length": 24})
    made = two_rollouts(load_checkpoint(start))
    learners = []
    for _ in range(2):
        loaded = load_checkpoint(start)
        learners.append(learner_class(config)(loaded.model, loaded.processor, config))
    one, other = learners
    assert isinstance(one, PpoLearner) and isinstance(other, PpoLearner)
    before = copy.deepcopy(one.model.state_dict())
    rewards = group_advantages([[1.0, 0.0]], config.grpo)
    first = update(one, made, rewards, 0)
    # the head learned alone, from states that know nothing yet
    assert first["explained_variance"] == 0.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.model.state_dict().items())
    other.load(copy.deepcopy(one.state(StateFile(None, ""))), StateFile(None, ""))
    assert update(one, made, rewards, 1) == update(other, made, rewards, 1)
    assert math.isfinite(first["loss"]) and any(
        not torch.equal(tensor, before[name]) for name, tensor in one.model.state_dict().items()
    )
    state = other.model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in one.model.state_dict().items())
