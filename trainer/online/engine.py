"""The reply engine: a copy of the policy that answers many rollouts at once, in a thread of its own.

Rollouts ask and wait; the engine answers those that wait together, in one batch. "lockstep": it answers once every
running rollout waits, so who stands in a batch depends on the rollouts alone, not on time, and the replies are a pure
function of (weights, rollouts, seeds). Otherwise it answers whoever waits as soon as it is free.
`publish` changes the weights between two batches; every reply names the version of those that made it. Weights stand in
slots: the policy's, and the reference's while it is compared with the policy.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from generators.execution.journal import ClaimLost
from schemas.ids import digest
from trainer.modeling.batches import BadSample
from trainer.modeling.generation import Completion, generate
from trainer.modeling.processor import Processor
from trainer.modeling.sampler import POLICY, EngineFailed
from trainer.modeling.seen_pictures import SeenPictures
from trainer.online.rollout_engine import RolloutEngine
from trainer.online.rollouts import ReplySample, RolloutClaim, RolloutJob, SampleRecorder
from trainer.serving.checkpoint_policy import CheckpointPolicy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainer.modeling.checkpoint import Checkpoint

REPLIES = 64
"""Replies that are generated together at most."""

GATHER_S = 0.004
"""How long a free engine waits for others to join the first who asks (not in lockstep)."""


@dataclass(eq=False)
class _Request:
    """`drawn`: the seed of a reply that is drawn by itself, None for one that shares its batch's."""

    key: str
    row: Mapping[str, Any]
    seed: int
    greedy: bool
    slot: str
    drawn: int | None
    reply: Completion | None = None
    prompt_tokens: int = 0
    version: int = 0
    error: BaseException | None = None
    done: bool = False


class ReplyEngine:
    """See `RolloutEngine`."""

    one_slot = False

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Processor,
        *,
        temperature: float,
        max_new_tokens: int,
        threads: int,
        lockstep: bool,
        pictures: SeenPictures | None = None,
    ) -> None:
        """`pictures`: what the vision tower makes of a picture is kept there, since no other tower will be published;
        it may be shared with who else has this tower."""
        self._pictures = pictures
        self._models = {POLICY: self._copied(model)}
        self._processor = processor  # its own: picture caches aren't shared between threads
        self._temperature, self._max_new_tokens, self._threads = temperature, max_new_tokens, threads
        self.lockstep = lockstep
        self.cond = threading.Condition()
        self.active: set[str] = set()
        self.refill: Callable[[], bool] = lambda: False
        self.error: BaseException | None = None
        self._versions = {POLICY: 0}
        self.batches = self.replies = 0
        self._waiting: dict[str, _Request] = {}
        self._weights = threading.Lock()  # held while a batch is made
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="reply-engine", daemon=True)

    def __enter__(self) -> ReplyEngine:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self.cond:
            self._stopping = True
            self.cond.notify_all()
        self._thread.join()

    def _copied(self, model: PreTrainedModel) -> Any:
        # a copy: the learner changes its weights while replies are drawn
        copied = copy.deepcopy(model).eval().requires_grad_(False)
        copied.seen_pictures = self._pictures
        return copied

    def publish(self, weights: Mapping[str, torch.Tensor], version: int, slot: str = POLICY) -> None:
        """Answer those who ask this slot with these weights (a state dict) from the next batch on."""
        with self._weights:
            if slot not in self._models:
                self._models[slot] = self._copied(self._models[POLICY])
            self._models[slot].load_state_dict(weights)
            self._versions[slot] = version

    def ask(self, job: RolloutJob, row: Mapping[str, object], seed: int) -> tuple[Completion, int, int]:
        """(reply, tokens of the prompt, version of the weights). Raises `BadSample` for a row that can't be put to the
        model, `EngineFailed`."""
        key = job.key
        # policy and reference are compared in pairs, so their replies are drawn with the same numbers; neither the key
        # nor, as one's episodes end before the other's, the batch is the same for both
        paired = job.validation and not job.greedy
        drawn = _seed(["paired reply", job.contract.task_id, job.member, seed]) if paired else None
        request = _Request(key, row, seed, job.greedy, job.slot, drawn)
        with self.cond:
            self._waiting[key] = request
            self.cond.notify_all()
            while not request.done:
                if self.error is not None or self._stopping:
                    raise EngineFailed(f"reply engine: {self.error or 'stopped'}")
                self.cond.wait()
        if request.error is not None:
            raise request.error
        assert request.reply is not None
        return request.reply, request.prompt_tokens, request.version

    def figures(self) -> dict[str, float]:
        """See `RolloutEngine`."""
        return {}

    # -- the engine's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        torch.set_num_threads(self._threads)
        try:
            while (batch := self._next()) is not None:
                # no reply is drawn from weights that change in its middle
                with self._weights:
                    self._answer(batch)
                with self.cond:
                    for request in batch:
                        request.done = True
                    self.cond.notify_all()
        # whoever waits would wait for ever for a thread that has died
        except BaseException as error:
            with self.cond:
                self.error = error
                self.cond.notify_all()

    def _next(self) -> list[_Request] | None:
        with self.cond:
            while not self._stopping:
                if self._ready():
                    # by key, so that a batch doesn't depend on who asked first
                    keys = sorted(self._waiting)[: None if self.lockstep else REPLIES]
                    return [self._waiting.pop(key) for key in keys]
                self.cond.wait()
            return None

    def _ready(self) -> bool:
        if not self.lockstep:
            if self._waiting and len(self._waiting) < min(len(self.active), REPLIES):
                # others are still acting: give them a moment to join the batch
                self.cond.wait(GATHER_S)
            return bool(self._waiting)
        if not self.active <= set(self._waiting):
            return False
        if self.refill():  # those wait for nothing yet
            self.cond.notify_all()
            return False
        return bool(self._waiting)

    def _answer(self, batch: list[_Request]) -> None:
        groups: dict[tuple[str, bool, bool], list[_Request]] = {}
        for request in batch:
            request.version = self._versions[request.slot]
            try:
                # a row that can't be asked about is that rollout's error, and spoils no batch
                request.prompt_tokens = len(self._processor.prompt(request.row).ids)
            except BadSample as bad:
                request.error = bad
            else:
                groups.setdefault((request.slot, request.greedy, request.drawn is None), []).append(request)
        for (slot, greedy, _), some in sorted(groups.items()):
            model = self._models[slot]
            # a function of who stands in the batch: the same batch draws the same replies
            drawn = _seed(["replies", [[request.key, request.seed] for request in some]])
            own = [request.drawn for request in some if request.drawn is not None]
            replies = generate(
                model,
                self._processor,
                [request.row for request in some],
                temperature=0.0 if greedy else self._temperature,
                max_new_tokens=self._max_new_tokens,
                generator=torch.Generator(next(model.parameters()).device).manual_seed(drawn),
                seeds=own or None,
                batch_size=REPLIES,
                # windows of a screen are ranked by how sure a reply is that the element is there
                decided=self._processor.preset.reading.mode == "windows",
            )
            for request, reply in zip(some, replies, strict=True):
                request.reply = reply
            self.batches += 1
            self.replies += len(some)


def _seed(of: Sequence[object]) -> int:
    """What is drawn for this, and for nothing else."""
    # 56 bits, which every generator takes as a seed
    return int(digest(of)[:14], 16)


class RolloutPolicy(CheckpointPolicy):
    """The policy of one rollout: it asks the engine and leaves each reply, with its context, in the recorder."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine: RolloutEngine,
        job: RolloutJob,
        recorder: SampleRecorder,
        claim: RolloutClaim,
        *,
        thinking: bool | None,
    ) -> None:
        super().__init__(checkpoint, temperature=0.0 if job.greedy else 1.0, thinking=thinking, name="online")
        self._engine, self._job, self._recorder, self._claim = engine, job, recorder, claim
        self._samples: dict[int, ReplySample] = {}

    def begin(self, goal: str, platform: str, seed: int) -> None:
        super().begin(goal, platform, seed)
        self._recorder.samples.clear()

    def _complete(self, row: dict[str, Any], seed: int) -> tuple[Completion, int]:
        if self._claim.lost:
            raise ClaimLost(f"rollout {self._job.key}: another worker makes it now")
        reply, prompt_tokens, version = self._engine.ask(self._job, row, seed)
        # by identity: of several windows each has a reply, and only the chosen one acts and is learned from
        self._samples[id(reply)] = ReplySample(
            str(row["messages"]),
            bytes(row["images"][0]),
            str(row["platform"]),
            tuple(reply.token_ids),
            tuple(reply.logprobs),
            version,
        )
        return reply, prompt_tokens

    def _chosen(self, completion: Completion) -> None:
        super()._chosen(completion)
        self._recorder.samples.append(self._samples[id(completion)])
        self._samples.clear()
