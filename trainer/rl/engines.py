"""Who makes the steps of RL, by name: classes with the arguments and the calls of `trainer.rl.learner.Learner`.

Add an engine: its class here, and its name in `RlConfig.engine`; `ppo` is what `own` becomes with a critic.
"""

from importlib import import_module

from pipelines.extras import telling_extras
from trainer.rl.learner import Learner
from trainer.settings.grpo import RlConfig

ENGINES = {
    "own": ("trainer.rl.learner", "Learner"),
    "trl": ("trainer.rl.trl_learner", "TrlLearner"),
    "ppo": ("trainer.rl.ppo", "PpoLearner"),
}


def learner_class(config: RlConfig) -> type[Learner]:
    """The learner of a run. Raises `MissingExtra` where its packages aren't installed."""
    module, name = ENGINES["ppo" if config.grpo.critic else config.engine]
    # by name: TRL takes seconds to import, and an extra to install
    with telling_extras():
        found: type[Learner] = getattr(import_module(module), name)
    return found
