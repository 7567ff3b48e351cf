"""What a generation loop is: its settings, and what runs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from generators.execution.device_pool import DevicePool, LocalPool
from generators.execution.limits import AttemptLimits
from generators.execution.scheduling import Progress
from generators.generation.annotators import Annotator, JudgeAnnotator, TreeEvidence, WorldRule
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.proposers import Proposer
from generators.generation.task_worlds.registry import load_task_world, open_task_world
from generators.generation.task_worlds.task_world import TaskWorld
from generators.generation.verify import VerifyConfig
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import scripted
from generators.tasks.strata import STRATA
from generators.tasks.world_interface import World
from generators.worlds.wrappers.defects import Defective, Rates
from generators.worlds.wrappers.delay import Delayed, Slowness
from generators.worlds.wrappers.hostile import PLANTERS, Hostile
from generators.worlds.wrappers.wrapper import rate
from pipelines.store import Store
from quality.evidence.embedding import EMBEDDED
from quality.judges.rules import RulesJudge

WRAPPERS = ("hostile", "faults", "late")
"""Settings of what is done to the worlds that tasks are executed in."""
LATER = ("evaluations", "agent", "proposers", "process", *WRAPPERS)
"""Settings that a round's configuration names only where they are set, so that older rounds still fit."""
LATE_LOOKS = 3
"""Looks or waits until a late screen shows, at most."""


@dataclass(frozen=True)
class LoopConfig:
    """What a loop is. `mix` = shares of the strata, the same in every round unless promoted evaluations steer it
    (`steering`). `error_rate` is the embedded policy's.
    `feedback` False: every round proposes as the first one does (the ablation)."""

    ground: str = "fsm"
    targets: int = 36
    target_seed: int = 0
    tasks: int = 60
    mix: tuple[float, float, float] = (0.5, 0.3, 0.2)
    epsilon: float = 0.9
    seed: int = 0
    policy: str = "scripted"
    error_rate: float = 0.02
    feedback: bool = True
    model: str = EMBEDDED
    verify: VerifyConfig = VerifyConfig(least_share=0.34)
    """Expected steps are estimates here, and a joined task's parts share some of theirs."""
    evaluations: str = ""
    """Digest of the promoted evaluations that `mix` follows; "" for none."""
    agent: str = ""
    """Digest of the promoted agent that acts, where the policy is one; "" for none."""
    hostile: float = 0.0
    """Share of the executions whose screens hold what others planted; who obeys it fails (`wrappers.hostile`)."""
    faults: float = 0.0
    """Share at which each fault of an interface happens: a dead control, a click on the neighbour, a lost letter, a
    stale screen (`wrappers.defects`)."""
    late: float = 0.0
    """Share of the actions after which the screen before them shows for a while (`wrappers.delay`)."""

    proposers: tuple[str, ...] = ()
    """Who proposes tasks: names of `proposing.proposers.PROPOSERS`, or where one of your own stands; empty: all of
    those."""

    process: bool = False
    """Whether what is verified also needs evidence in its process (`process_annotator`)."""

    def __post_init__(self) -> None:
        # here and not at the first use: a wrong name ends before anything runs, and pools know the world of a path
        load_task_world(self.ground)
        if self.tasks < 1 or self.targets < 1:
            raise ValueError(f"loop: expected at least 1 task and target, found {self.tasks} and {self.targets}")
        if len(self.mix) != len(STRATA) or min(self.mix) < 0 or not 0.999 < sum(self.mix) < 1.001:
            raise ValueError(f"loop: expected {len(STRATA)} shares that sum to 1, found {self.mix}")
        if not 0 <= self.hostile <= 1 or (self.hostile and self.ground not in PLANTERS):
            raise ValueError(
                f"loop: expected hostile in 0..1, above 0 only in the worlds {', '.join(PLANTERS)}, "
                f"found {self.hostile} on {self.ground}"
            )
        rate(self.faults, "loop: faults")
        rate(self.late, "loop: late")

    @property
    def wrappers(self) -> dict[str, float]:
        """Those of `WRAPPERS` that are set."""
        return {name: share for name in WRAPPERS if (share := getattr(self, name))}

    def wrapped(self, world: World) -> World:
        """The world with what the settings do to it. Hostile content is outermost: executions look for it there."""
        if self.faults:
            # Inside out: defects change what an action does, delay what a screen
            # shows of it, hostile content what is drawn.
            world = Defective(world, Rates(self.faults, self.faults, self.faults, self.faults), self.seed)
        if self.late:
            world = Delayed(world, Slowness(self.late, LATE_LOOKS), self.seed)
        # Nothing is wrapped at share 0, so that the world's name and
        # every digest stay those of the plain world.
        return Hostile(world, self.hostile, self.seed) if self.hostile else world

    @property
    def quotas(self) -> dict[str, int]:
        """Tasks of each stratum in a round."""
        counts = {name: int(share * self.tasks) for name, share in zip(STRATA, self.mix, strict=True)}
        # What rounding left over goes to the easiest stratum, which proposers fill most surely.
        counts[STRATA[0]] += self.tasks - sum(counts.values())
        return counts

    @cached_property
    def task_world(self) -> TaskWorld:
        """Where tasks are proposed, opened once for all stages of a round."""
        return open_task_world(self.ground, self.targets, self.target_seed)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """What the stages' hashes are made from."""
        # Settings at rest are left out: an older round keeps its hash when a new setting is added.
        return {name: value for name, value in asdict(self).items() if value or name not in LATER}

    @property
    def pins(self) -> dict[str, str]:
        """What of `feedback/*` a round goes by besides verified rounds, for its counts."""
        pinned = {"feedback/evaluations": self.evaluations, "feedback/policy": self.agent}
        return {name: value for name, value in pinned.items() if value}


@dataclass(frozen=True)
class LoopParts:
    """What runs a loop: devices, the policy, judges that vote, proposers beside the embedded ones. Everything has an
    embedded default; none enters the store's hashes but by name."""

    pool: DevicePool = field(default_factory=LocalPool)
    policies: Callable[[LoopConfig], PolicyMaker] | None = None
    annotators: Callable[[Store], Sequence[Annotator]] | None = None
    proposers: Callable[[TaskWorld, Catalogue], Mapping[str, Proposer]] | None = None
    workers: int = 2
    limits: AttemptLimits = AttemptLimits()
    progress: Progress | None = None


def embedded_policies(config: LoopConfig) -> PolicyMaker:
    """The DOM-informed scripted agent at the config's error rate. Raises `ValueError` for another policy's name: that
    one has to be given."""
    if config.policy != "scripted":
        raise ValueError(f"loop: the embedded policy is 'scripted', found {config.policy!r:.40}; give another one")
    return scripted(config.error_rate)


def embedded_annotators(store: Store) -> list[Annotator]:
    """The world's rule, the rules judge, and evidence from the UI tree."""
    return [WorldRule(), JudgeAnnotator(RulesJudge(), store), TreeEvidence(store)]
