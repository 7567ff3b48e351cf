"""PPO with a small value head (Schulman et al., 2017): the reference that GRPO's group mean stands in for.

The head is one linear layer on the policy's last hidden states, which it reads and doesn't change: V of a token is what
the reply is expected to earn from there on. A token's advantage is the generalised estimate over its reply (arXiv
1506.02438) with γ = 1 and the reply's reward at its end; no reply is compared with others, so no group is skipped. The
loss is GRPO's own, with these advantages. Of PPO-max (arXiv 2307.04964) the head may learn alone at first, and
`advantage_clip` bounds each token's advantage; value losses aren't clipped, as the head's steps are its own.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trainer.modeling.batches import Batch
from trainer.modeling.model import ReplyLogprobs
from trainer.modeling.processor import Processor
from trainer.rl.grpo import Advantages, LossParts
from trainer.rl.learner import Learner, ScoredReplies
from trainer.rl.sampled_replies import SampledReply
from trainer.settings.grpo import CriticConfig, GrpoConfig, LearnerConfig


def token_advantages(
    values_SL: torch.Tensor, mask_SL: torch.Tensor, rewards_S: torch.Tensor, gae_lambda: float
) -> torch.Tensor:
    """Values of tokens (padded on the right), rewards of replies → advantages [S, L]; λ = 1 is reward − value."""
    found, following = torch.zeros_like(values_SL), torch.zeros_like(rewards_S)
    after = rewards_S  # what the token leads to: behind the last one stands the reward itself
    for place in reversed(range(values_SL.shape[1])):
        here = mask_SL[:, place].bool()
        advantage = after - values_SL[:, place] + gae_lambda * following
        found[:, place] = torch.where(here, advantage, 0.0)
        following, after = torch.where(here, advantage, 0.0), torch.where(here, values_SL[:, place], rewards_S)
    return found


def explained_variance(values: torch.Tensor, rewards: torch.Tensor) -> float:
    """1 − Var(reward − value) / Var(reward): 1 for a perfect critic, 0 for a constant; 0 where rewards don't vary."""
    spread = float(rewards.var(correction=0))
    return 1.0 - float((rewards - values).var(correction=0)) / spread if spread > 1e-8 else 0.0


class Critic:
    """V of features [N, D], linear, 0 everywhere at the start; learns rewards by squared error."""

    def __init__(self, features: int, config: CriticConfig, device: torch.device | str = "cpu") -> None:
        self.layer = nn.Linear(features, 1, device=device)
        # without random numbers, so that nothing else of a run draws others than it did without a critic
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)
        self.config, self.optimizer = config, torch.optim.Adam(self.layer.parameters(), lr=config.learning_rate)

    def values(self, features: torch.Tensor) -> torch.Tensor:
        """V [N], without gradient."""
        with torch.no_grad():
            return self.layer(features.float()).squeeze(-1)

    def fit(self, features: torch.Tensor, rewards: torch.Tensor) -> float:
        """The passes of an update over all of its tokens; → how much of the rewards' variance was explained before."""
        explained = explained_variance(self.values(features), rewards)
        for _ in range(self.config.epochs):
            self.optimizer.zero_grad()
            functional.mse_loss(self.layer(features.float()).squeeze(-1), rewards).backward()
            self.optimizer.step()
        return explained


class PpoLearner(Learner):
    """A learner whose `Advantages` hold rewards (`group_advantages` with a critic). Raises `ValueError` for several
    ranks."""

    def __init__(self, model: Any, processor: Processor, config: LearnerConfig) -> None:
        super().__init__(model, processor, config)
        if self.group.world > 1 or config.grpo.critic is None:
            raise ValueError(
                f"grpo.critic: expected it set, and one process, found {config.grpo.critic} and {self.group.world}"
            )
        head = model.get_output_embeddings().weight
        self.critic = Critic(head.shape[1], config.grpo.critic, head.device)
        self._states = torch.zeros(0)  # of the labelled tokens of the newest pass of the policy, [N, D]
        self._advantages: torch.Tensor | None = None
        self._learned: list[tuple[torch.Tensor, torch.Tensor]] = []

    def learning_rate(self, update: int) -> float:
        """0 while the critic learns alone."""
        return 0.0 if update < self.critic.config.warmup_updates else super().learning_rate(update)

    def _logprobs(self, model: Any, batch: Batch) -> ReplyLogprobs:
        with _last_states(model) as found:
            replies = super()._logprobs(model, batch)
        if model is self._policy:
            rows, columns = (batch.labels != -100).nonzero(as_tuple=True)
            # the state before a token, which predicts it: what was known when it was chosen
            self._states = found[0].detach()[rows, batch.before(columns)]
        return replies

    def _minimised(
        self, scored: ScoredReplies, advantages: Advantages, tokens: Sequence[int], grpo: GrpoConfig
    ) -> LossParts:
        """GRPO's loss of the tokens' advantages; the tokens are kept for the critic, which learns last."""
        own, mask = scored.found.logprobs, scored.found.mask
        rewards = own.new_tensor([advantages.values[one.trajectory] for one in scored.part])
        values = torch.zeros_like(own).masked_scatter(mask, self.critic.values(self._states))
        limit = grpo.advantage_clip or math.inf
        self._advantages = token_advantages(values, mask, rewards, self.critic.config.gae_lambda).clamp(-limit, limit)
        self._learned.append((self._states, rewards[:, None].expand_as(values)[mask]))
        return super()._minimised(scored, advantages, tokens, grpo)

    def _of_tokens(self, part: Sequence[SampledReply], old: torch.Tensor) -> torch.Tensor | None:
        return self._advantages

    def _after_step(self) -> dict[str, float]:
        features, rewards = (torch.cat(some) for some in zip(*self._learned, strict=True))
        self._learned = []
        return {"explained_variance": self.critic.fit(features, rewards)}

    def _state(self, folder: Path | None) -> dict[str, Any]:
        kept = {"layer": self.critic.layer.state_dict(), "optimizer": self.critic.optimizer.state_dict()}
        return {**super()._state(folder), "critic": kept}

    def _load(self, folder: Path | None) -> None:
        kept = (self._taken_up or {})["critic"]
        self.critic.layer.load_state_dict(kept["layer"])
        self.critic.optimizer.load_state_dict(kept["optimizer"])
        super()._load(folder)


@contextmanager
def _last_states(model: Any) -> Iterator[list[torch.Tensor]]:
    """The last hidden states [B, S, D] of each pass inside it."""
    found: list[torch.Tensor] = []
    hook = model.model.register_forward_hook(lambda _module, _given, output: found.append(output.last_hidden_state))
    try:
        yield found
    finally:
        hook.remove()
