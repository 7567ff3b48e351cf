"""What a run needs to make one policy per execution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from generators.policies.policy import Policy
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World


@dataclass(frozen=True)
class PolicyMaker:
    """`make(contract, world)` gives a policy named `name` for one execution. `wording`: version and digest of the words
    that a model is asked in, which are part of what a round is; "" for a policy that asks none. `inputs`: version of
    each asset that it was made from."""

    name: str
    make: Callable[[TaskSpec, World], Policy]
    wording: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
