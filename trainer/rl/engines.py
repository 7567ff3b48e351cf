"""Who makes the steps of RL, by name: classes with the arguments and the calls of `trainer.rl.learner.Learner`.

Add an engine: its class here, and its name in `RlConfig.engine`.
"""

from importlib import import_module

from pipelines.extras import telling_extras
from trainer.rl.learner import Learner
from trainer.settings.grpo import RlConfig

ENGINES = {"own": ("trainer.rl.learner", "Learner"), "trl": ("trainer.rl.trl_learner", "TrlLearner")}
_WITH_CRITIC = ("trainer.rl.ppo", "PpoLearner")
"""What the engine `own` is with a critic, which others refuse."""


def learner_class(config: RlConfig) -> type[Learner]:
    """The learner of a run. Raises `MissingExtra` where its packages aren't installed."""
    module, name = _WITH_CRITIC if config.grpo.critic else ENGINES[config.engine]
    # by name: TRL takes seconds to import, and an extra to install
    with telling_extras():
        found: type[Learner] = getattr(import_module(module), name)
    return found
