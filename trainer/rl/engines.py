"""Who makes the steps of RL, by name: classes with the arguments and the calls of `trainer.rl.learner.Learner`.

Add an engine: its class here, and its name in `RlConfig.engine`.
"""

from importlib import import_module

from pipelines.extras import telling_extras
from trainer.rl.learner import Learner

ENGINES = {"own": ("trainer.rl.learner", "Learner"), "trl": ("trainer.rl.trl_learner", "TrlLearner")}


def learner_class(engine: str) -> type[Learner]:
    """The learner of an engine. Raises `MissingExtra` where its packages aren't installed."""
    module, name = ENGINES[engine]
    # by name: TRL takes seconds to import, and an extra to install
    with telling_extras():
        found: type[Learner] = getattr(import_module(module), name)
    return found
