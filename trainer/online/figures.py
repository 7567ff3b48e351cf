"""The figures of a run: of an update's rollouts, of its loss, and the content of `online_rl.json`. No wall time."""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.actions import parse_reply
from trainer.modeling.processor import Processor
from trainer.online.collect import RolloutGroup
from trainer.online.state import TrainingProgress
from trainer.rl.grpo import Advantages
from trainer.rl.reward_figures import Scores, reward_figures
from trainer.settings.online import OnlineConfig
from trainer.statistics import paired

Event = dict[str, Any]


def rollout_figures(groups: Sequence[RolloutGroup], scores: Sequence[Sequence[Scores | None]], update: int) -> Event:
    """`reward_figures` and means over the live rollouts that count in the update; `scores` are those of
    `trajectory_scores`, `staleness` in updates, that of the oldest reply."""
    live, gains, lost = [], [], 0
    for group, values in zip(groups, scores, strict=True):
        for place, (rollout, value) in enumerate(zip(group.rollouts, values, strict=True)):
            if group.counting is not None and place not in group.counting:
                continue
            lost += value is None
            # replayed successes would flatter the policy
            if value is not None and not rollout.replayed:
                live.append(rollout)
                gains.append(value)
    count, rewards = max(1, len(live)), reward_figures(gains)
    unread = sum(one.unparsable for one in live) / max(1, sum(one.steps for one in live))
    stale = [max(0, update - rollout.version) for rollout in live]
    return {
        **rewards,
        "success": rewards.get("rewards/success/mean", 0.0),
        "steps": sum(one.steps for one in live) / count,
        "rollouts": len(live),
        "lost": lost,
        "replayed": sum(one.replayed for group in groups for one in group.rollouts),
        "judged": sum(one.judged for one in live),
        "unparsable": unread,
        "unreadable_share": unread,
        "reply_tokens": sum(one.tokens for one in live) / max(1, sum(len(one.samples) for one in live)),
        "staleness": sum(stale) / count,
        "staleness_max": max(stale, default=0),
    }


def unread_example(groups: Sequence[RolloutGroup], processor: Processor) -> str:
    """The first reply of an update's rollouts that holds no action."""
    lost = (one for group in groups for one in group.rollouts if one.unparsable)
    texts = (processor.text(sample.token_ids) for one in lost for sample in one.samples)
    return next((text for text in texts if parse_reply(text, processor.preset.action_space).action is None), "")


def update_figures(advantages: Advantages, loss: Mapping[str, float]) -> Event:
    """Of the groups, and of the optimiser's step."""
    return {
        "groups": advantages.groups,
        "zero_variance": advantages.zero_variance,
        "too_small": advantages.too_small,
        "with_signal": advantages.used,
        **loss,
    }


def metrics_of(
    config: OnlineConfig,
    progress: TrainingProgress,
    validation: Sequence[str],
    strata: Mapping[str, int],
    delta: Mapping[str, object],
) -> dict[str, object]:
    """What stands in `online_rl.json`. `validation`: task ids, in the order of the successes; `gain` is paired, the
    greedy episodes of the last look against those of the first, its interval a bootstrap over tasks."""
    curve = progress.curve

    def total(word: str) -> int:
        return int(sum(row.get(word, 0) for row in curve))

    groups = total("groups")
    # greedy episodes stand first in these lists, in the order of `validation`
    both = (
        [
            (float(after), float(before), name)
            for after, before, name in zip(
                progress.policy[: len(validation)], progress.first[: len(validation)], validation, strict=True
            )
            if after is not None and before is not None
        ]
        if progress.validations
        else []
    )
    after, before, names = (list(column) for column in zip(*both, strict=True)) if both else ([], [], [])
    return {
        "mode": config.mode,
        "seed": config.seed,
        "updates": progress.update,
        "strata": dict(strata),
        "groups": groups,
        "zero_variance_share": total("zero_variance") / max(1, groups),
        "too_small_groups": total("too_small"),
        "groups_with_signal": total("with_signal"),
        "rollouts": total("rollouts"),
        "lost_rollouts": total("lost"),
        "replayed": total("replayed"),
        "judged": total("judged"),
        "stale_dropped": total("stale_dropped"),
        "validation": progress.validations,
        "validation_gain": paired(after, before, names, seed=config.seed).plain(),
        "reference_steps": progress.blends,
        "weight_delta": delta["relative"],
        "weight_delta_norm": delta["norm"],
        "weight_delta_layers": delta["layers"],
        "curve": curve,
    }
