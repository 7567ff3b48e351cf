"""Rollouts as the learner takes them (docs/method.md §7): a trajectory is T separate (context, reply) samples that
share one advantage, unless `trainer.online.credit` gives replies their own, each weighted by the reply tokens of the
whole trajectory. For replies of older weights, for replayed ones and for those of a server, the recorded
log-probabilities are another policy's (`trainer.rl.learner`).
"""

from collections.abc import Sequence

from trainer.online.credit import Estimates
from trainer.online.rollouts import Rollout
from trainer.rl.grpo import Advantages
from trainer.rl.learner import Learner
from trainer.rl.sampled_replies import SampledReply
from trainer.settings.grpo import GrpoConfig
from trainer.settings.online import OnlineConfig


def replies_of(
    rollouts: Sequence[Rollout],
    advantages: Advantages,
    version: int,
    config: OnlineConfig,
    own: Estimates | None = None,
) -> list[SampledReply]:
    """The samples of the trajectories that count in the loss, in order; the present weights have `version`. `own`: see
    `trainer.online.credit.assign.reply_advantages`."""
    served = config.rollout_engine == "vllm"
    # an asynchronous run that was killed may hold replies of weights that were lost, under any version; a server's
    # kernels aren't the learner's, so its figure is never the learner's own log-probability
    correct_all = config.mode == "async" or served
    return [
        SampledReply(
            sample.row(),
            sample.token_ids,
            sample.logprobs,
            index,
            stale=correct_all or rollout.replayed or sample.version != version,
            compared=served and sample.version == version,
            advantage=own[index][step] if own else None,
        )
        for index, rollout in enumerate(rollouts)
        if advantages.weights[index] > 0
        for step, sample in enumerate(rollout.samples)
    ]


def learn(
    learner: Learner,
    config: OnlineConfig,
    rollouts: Sequence[Rollout],
    advantages: Advantages,
    update: int,
    decay: float = 1.0,
    own: Estimates | None = None,
    grpo: GrpoConfig | None = None,
) -> dict[str, float]:
    """An update of the learner by these rollouts; see `Learner.step` and `replies_of`. The weights at the start have
    the version `update`."""
    replies = replies_of(rollouts, advantages, update, config, own)
    return learner.step(replies, advantages, [rollout.tokens for rollout in rollouts], update, decay, grpo)
