"""What a run of offline RL leaves to be read: its `rl.json`, with paired gains and the change of the weights."""

from collections.abc import Mapping, Sequence

from trainer.offline.held_out import Measure, reward_bounds
from trainer.offline.run import OfflineState
from trainer.offline.tasks import RlTask
from trainer.settings.offline import OfflineConfig
from trainer.statistics import paired


def metrics_of(
    config: OfflineConfig,
    state: OfflineState,
    delta: Mapping[str, object],
    before: Measure,
    after: Measure,
    held_out: Sequence[RlTask],
    counted: Mapping[str, object],
) -> dict[str, object]:
    """The content of `rl.json`; gains are paired task by task, their intervals a bootstrap over clusters.

    `state` is that at the end, `delta` what `weight_delta` gives; `counted` is added as it is.
    """
    clusters = [task.cluster for task in held_out]

    def gain(one: Sequence[float], other: Sequence[float]) -> dict[str, object]:
        # `paired` takes the later figures first
        return paired(other, one, clusters, seed=config.seed).plain()

    return {
        "domain": config.domain,
        "reward_range": list(reward_bounds(config.domain, config.rewards)),
        "before": before.summary(),
        "after": after.summary(),
        "reward_gain": gain(before.sampled, after.sampled),
        "greedy_reward_gain": gain(before.greedy, after.greedy),
        "step_success_gain": gain(before.success, after.success),
        "updates": state.update,
        "peak_update": state.peak_update,
        "stopped_early": state.update < config.updates,
        "groups": state.groups,
        "zero_variance_share": state.zero_variance / max(1, state.groups),
        "weight_delta": delta["relative"],
        "weight_delta_norm": delta["norm"],
        "weight_delta_layers": delta["layers"],
        **counted,
        "curve": state.curve,
        "looks": state.looks,
        "alignments": state.alignments,
    }
