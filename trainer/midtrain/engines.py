"""Who runs mid-training, by name: functions with the arguments and the result of `trainer.midtrain.train.train`.

Add an engine: its module here, and its name in `MidtrainConfig.engine`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from pipelines.extras import telling_extras

if TYPE_CHECKING:
    from trainer.midtrain.train import Curve

# module names, so that TRL is imported only if it is asked for
ENGINES = {"own": "trainer.midtrain.train", "trl": "trainer.midtrain.trl_engine"}


def engine(name: str) -> Callable[..., Curve]:
    """The `train` of an engine. Raises `MissingExtra` where its packages aren't installed."""
    with telling_extras():
        train: Callable[..., Curve] = import_module(ENGINES[name]).train
    return train
