"""A policy that is a table of logits, trained by the loss of the trainer itself."""

from collections.abc import Sequence

import torch

from trainer.rl.grpo import Advantages, LossParts, grpo_loss
from trainer.settings.grpo import GrpoConfig


class TablePolicy:
    """logits [states, actions]; a reply is one token, the number of an action. The reference is the policy of the
    start. With `features` [states, features] the table is [features, actions], and states share what they have in
    common."""

    def __init__(self, table: torch.Tensor, learning_rate: float, features: torch.Tensor | None = None) -> None:
        self.table = table.clone().requires_grad_(True)
        self.features = torch.eye(len(table)) if features is None else features
        # Frozen at the start: the KL is measured from what the policy was, not from what it has become.
        self.reference = self.log_softmax().detach()
        self.optimizer = torch.optim.Adam([self.table], lr=learning_rate)

    def log_softmax(self) -> torch.Tensor:
        """log π [states, actions], with gradient."""
        return torch.log_softmax(self.features @ self.table, 1)

    def sample(self, states: Sequence[int], generator: torch.Generator) -> list[int]:
        """An action in each state."""
        with torch.no_grad():
            chances = self.log_softmax()[list(states)].exp()
            return torch.multinomial(chances, 1, generator=generator).squeeze(1).tolist()

    def step(
        self,
        states: Sequence[int],
        actions: Sequence[int],
        advantages: Advantages,
        config: GrpoConfig,
        trajectories: Sequence[int] | None = None,
        own: torch.Tensor | None = None,
        behaviour: torch.Tensor | None = None,
    ) -> LossParts:
        """One step of the optimiser on the actions that the present weights drew. `trajectories`: which one each action
        is of; None: each is one of its own. `own` [actions, 1]: their advantages, in place of the trajectories';
        `behaviour` [actions, 1]: log-probabilities of the policies that drew them, where those are others."""
        owners = list(range(len(states))) if trajectories is None else list(trajectories)
        # A trajectory's own length: the loss may weigh its tokens by it.
        lengths = [0] * len(advantages.values)
        for owner in owners:
            lengths[owner] += 1
        every = self.log_softmax()
        rows = every[list(states)]  # [S, A]
        taken = rows.gather(1, torch.tensor(actions).unsqueeze(1))  # [S, 1]
        reference = self.reference[list(states)].gather(1, torch.tensor(actions).unsqueeze(1))
        entropy = -(rows.exp() * rows).sum(1, keepdim=True)
        mask = torch.ones_like(taken)
        parts = grpo_loss(
            taken,
            # Policy of the sampling = the present one: actions are used once, so
            # the ratio is 1 and only its gradient counts.
            taken.detach(),
            mask,
            owners,
            advantages,
            lengths,
            config,
            reference_SL=reference,
            entropy_SL=entropy,
            behaviour_SL=behaviour,
            advantage_SL=own,
        )
        self.optimizer.zero_grad()
        parts.loss.backward()
        self.optimizer.step()
        return parts
