"""A rollout: one episode of the policy, with what training needs of each reply and what the world says at the end.

Infrastructure failures leave no success and no failure (`Rollout.success` None). A rollout is plain data, so it can be
kept in a file: `to_plain` and `from_plain` are inverse.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from generators.execution.execute import LastScreen, execute
from generators.execution.journal import Attempt, AttemptClaim, ClaimLost, Journal
from generators.execution.limits import AttemptLimits
from generators.policies.policy import Policy
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.worlds.care.care_case import CareOutcome, outcome_of
from schemas.ids import digest
from trainer.modeling.sampler import POLICY
from trainer.online.rewards import RolloutOutcome
from trainer.online.success import FinalFrameJudge, decide

if TYPE_CHECKING:
    from generators.execution.device_pool import Device

LOST = "failed"


@dataclass(frozen=True)
class ReplySample:
    """A reply with its context. `token_ids` are those that were sampled, `logprobs` (nats) of the policy that sampled
    them, whose weights had `version`."""

    messages: str
    picture: bytes
    platform: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int

    def row(self) -> dict[str, object]:
        """The context as a row of the shards."""
        # as the shards have rows; no shard holds one of this id
        return {
            "sample_id": "rollout",
            "source": "rollout",
            "objective": "navigation",
            "platform": self.platform,
            "messages": self.messages,
            "images": [self.picture],
            # the reply's tokens are given apart, as they were sampled
            "answer": "",
        }


@dataclass(frozen=True)
class RolloutJob:
    """A rollout to be made: member `member` of group `group`, `greedy` with the likeliest replies. Those for
    `validation` are never learned from; `slot` says whose they are."""

    contract: TaskSpec
    group: str
    member: int
    seed: int
    greedy: bool = False
    slot: str = POLICY
    validation: bool = False

    @property
    def key(self) -> str:
        return f"{self.group}-{self.member:03d}"


@dataclass(frozen=True)
class Rollout:
    """`ended` as in `ExecutedTrajectory`; `seconds`: how long it held its device, retries included (wall time);
    `judged`: a model, not a rule, decided its success; `care`: of a care case."""

    key: str
    task_id: str
    samples: tuple[ReplySample, ...]
    success: bool | None
    steps: int
    unparsable: int
    ended: str
    failure: str = ""
    device: str = ""
    seconds: float = 0.0
    replayed: bool = False
    judged: bool = False
    care: CareOutcome | None = None

    @property
    def version(self) -> int:
        """Of the oldest weights in it."""
        return min((sample.version for sample in self.samples), default=0)

    @property
    def outcome(self) -> RolloutOutcome:
        return RolloutOutcome(self.success, self.steps, self.unparsable, self.replayed)

    @property
    def tokens(self) -> int:
        """Reply tokens of the whole trajectory."""
        return sum(len(sample.token_ids) for sample in self.samples)

    def to_plain(self) -> dict[str, object]:
        """JSON values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        samples = [
            {
                **{name: getattr(one, name) for name in one.__dataclass_fields__},
                # JSON has no bytes
                "picture": base64.b64encode(one.picture).decode("ascii"),
                "token_ids": list(one.token_ids),
                "logprobs": list(one.logprobs),
            }
            for one in self.samples
        ]
        return plain | {"samples": samples, "care": asdict(self.care) if self.care else None}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Rollout:
        """Raises `KeyError`, `TypeError` or `ValueError` for what is none."""
        samples = tuple(
            ReplySample(
                **{
                    **one,
                    "picture": base64.b64decode(one["picture"]),
                    "token_ids": tuple(one["token_ids"]),
                    "logprobs": tuple(one["logprobs"]),
                }
            )
            for one in plain["samples"]
        )
        care = CareOutcome(**plain["care"]) if plain.get("care") else None
        return cls(**{**plain, "samples": samples, "care": care})


def rollout_seed(seed: int, group: str, task_id: str, member: int) -> int:
    """What the replies of a rollout are drawn with."""
    # 48 bits, which every generator takes as a seed
    return int(digest(["rollout", seed, group, task_id, member])[:12], 16)


class RolloutClaim(AttemptClaim):
    """An attempt that is kept in memory: an interrupted rollout is made again, not gone on with. `revoke` takes it from
    a worker that was given up."""

    def __init__(self, job: RolloutJob, policy: str, device: str) -> None:
        self.attempt = Attempt(job.contract, job.seed, policy, device)
        self._revoked = False

    @property
    def lost(self) -> bool:
        return self._revoked

    def revoke(self) -> None:
        self._revoked = True

    def turn(self, turn: ExecutedTurn, state: str = "") -> None:
        self._mine()
        self.attempt.turns.append(turn)
        self.attempt.states.append(state)

    def broke(self, reason: str) -> None:
        self._mine()
        self.attempt.broken.append(reason[:500])

    def end(self, done: ExecutedTrajectory) -> None:
        self._mine()

    def _mine(self) -> None:
        if self._revoked:
            raise ClaimLost(f"rollout {self.attempt.trajectory_id}: another worker makes it now")


@dataclass
class SampleRecorder:
    """Collects the samples of an episode as the policy replies."""

    samples: list[ReplySample] = field(default_factory=list)


def make_rollout(
    job: RolloutJob,
    device: Device,
    policy: Policy,
    recorder: SampleRecorder,
    claim: RolloutClaim,
    limits: AttemptLimits,
    on_call: Callable[[str], None],
    judge: FinalFrameJudge | None = None,
) -> Rollout:
    """Run an episode to its end, and decide it: by the task's rule, where that can't by `judge`. Raises
    `InfrastructureFailure`, and `ClaimLost` once the claim is revoked."""
    recorder.samples.clear()
    no_journal = cast("Journal", None)  # the claim is given: nothing is asked of one
    screen = LastScreen()
    done = execute(
        job.contract,
        device.world,
        policy,
        job.seed,
        no_journal,
        screen,
        limits,
        device=device.name,
        claim=claim,
        on_call=on_call,
    )
    on_call("judge")
    return finished(job, done, recorder, screen.png, judge)


def finished(
    job: RolloutJob,
    done: ExecutedTrajectory,
    recorder: SampleRecorder,
    screen: bytes = b"",
    judge: FinalFrameJudge | None = None,
) -> Rollout:
    """A trajectory, its replies and its last screen → a rollout, with the world's verdict or the judge's (`success`).
    Raises `ValueError` for an evaluator that can't read the world's state."""
    # a turn more or less would pair replies with other screens than they were given to
    if len(done.turns) != len(recorder.samples):
        raise RuntimeError(f"rollout {job.key}: {len(done.turns)} turns, but {len(recorder.samples)} replies")
    unreadable = sum(turn.action is None for turn in done.turns)
    found = decide(done, screen, judge)
    if found.success is None:
        return lost(job, found.why)
    return Rollout(
        job.key,
        job.contract.task_id,
        tuple(recorder.samples),
        found.success,
        len(done.turns),
        unreadable,
        done.ended,
        done.failure,
        done.device,
        judged=found.judged,
        care=outcome_of(done.end_state),
    )


def lost(job: RolloutJob, reason: str, seconds: float = 0.0) -> Rollout:
    """What infrastructure failures have ended: it stands in its group as nothing."""
    return Rollout(job.key, job.contract.task_id, (), None, 0, 0, LOST, reason[:300], seconds=seconds)
