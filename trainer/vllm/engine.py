"""Replies by vLLM servers: tokens in, tokens out, and new weights after every update of the learner.

Each set of weights has a label of its own, which a server sends with every reply that it samples from them. A reply is
taken only from a server that has acknowledged the weights it should have, only if it carries their label, and only if
its token ids, counts and log-probabilities fit (`token_protocol`); else it is asked for again elsewhere. After each
change of weights a server scores a given text, which must come out as the learner's own forward pass does.

A server that fails is out of service until it answers again with the right label, or has taken the weights once more.
While there is none, replies wait, `wait_s` at most; then the rollout has failed by infrastructure: it is made again, or
lost and counted, and no update learns from it.

Servers hold one set of weights at a time (`one_slot`: who makes rollouts lets those of one slot run at a time). Those
of the reference are given to them when its first rollout asks; a rollout of the policy that begins after that waits
until `publish` gives the policy's back.
"""

import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from generators.policies.policy import PolicyError
from pipelines.prompts import messages, navigation_text
from trainer.modeling.generation import Completion
from trainer.modeling.model import reply_logprobs
from trainer.modeling.processor import Processor
from trainer.modeling.sampler import POLICY, EngineFailed
from trainer.settings.grpo import VllmConfig
from trainer.vllm import token_protocol
from trainer.vllm.client import PROBE_S, ServerError, VllmClient
from trainer.vllm.servers import EngineServer, PublishedWeights, endpoints, weight_update
from trainer.vllm.weight_update import acknowledged

log = logging.getLogger(__name__)
RETRY_S, LONGEST_RETRY_S = 0.5, 30.0
"""Pauses between two tries to bring a server back, doubled each time."""
BAD_REPLIES = 3
"""So many to one request, and its rollout has failed: they may have their cause in the request."""
START = "start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out (docs/training.md)"


class ReplyJob(Protocol):
    """What is asked of a job: whether it wants the likeliest reply, and of whose weights."""

    @property
    def greedy(self) -> bool: ...

    @property
    def slot(self) -> str: ...


class VllmEngine:
    """See `RolloutEngine`. `models` are the learner's, by slot: what is published for a slot are its model's weights.
    `processor` is the engine's own (picture caches aren't shared). `run` names the run: what an earlier life of it left
    with the servers is cleared away. Raises `ValueError` for settings that lack an endpoint or a folder."""

    lockstep, one_slot = False, True

    def __init__(
        self,
        models: Mapping[str, Any],
        processor: Processor,
        settings: VllmConfig,
        *,
        temperature: float,
        max_new_tokens: int,
        run: str,
    ) -> None:
        self._models, self._processor, self.settings = models, processor, settings
        self._temperature, self._max_new_tokens = temperature, max_new_tokens
        # servers compute a published model in bfloat16, so that is what they get; ours take a nano as it is
        self._update = weight_update(settings, run, torch.bfloat16 if processor.preset.source else None)
        self._servers = [EngineServer(VllmClient(endpoint)) for endpoint in endpoints(settings)]
        self._vocabulary = int(models[POLICY].config.get_text_config().vocab_size)
        self._tokenizing = threading.Lock()
        text = navigation_text("Press the button", [])
        self._given = {"messages": messages("navigation", text, images=0), "images": []}
        self._given_prompt = processor.prompt(self._given).ids
        self._given_reply = processor.answer("click [500, 250]")
        self.cond = threading.Condition()
        self.active: set[str] = set()
        self.refill: Callable[[], bool] = lambda: False
        self.error: BaseException | None = None
        self.batches = self.replies = 0
        self.failures: Counter[str] = Counter()
        self._update_s = 0.0
        self._published: dict[str, PublishedWeights] = {}
        self._slot = POLICY  # whose weights the servers hold, or are being given
        # labels of an earlier life of this run are never taken for those of this one
        self._life, self._count = secrets.token_hex(4), 0
        self._updating = False
        self._stopping = False
        self._thread = threading.Thread(target=self._tend, name="vllm-engine", daemon=True)

    def __enter__(self) -> "VllmEngine":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self.cond:
            self._stopping = True
            self.cond.notify_all()
        self._thread.join(PROBE_S)
        for server in self._servers:
            server.client.close()
        for weights in self._published.values():
            self._update.forget(weights.label)
        self._update.close()

    def figures(self) -> dict[str, float]:
        """See `RolloutEngine`."""
        return {"engine_failures": float(sum(self.failures.values())), "weight_update_s": self._update_s}

    # -- weights -------------------------------------------------------------------------------------------------------

    def publish(self, weights: Mapping[str, torch.Tensor], version: int, slot: str = POLICY) -> None:
        """See `RolloutEngine`. The policy's are given to the servers at once, and at least one of them has them when
        this returns; another slot's are kept until a rollout asks for them."""
        began = time.monotonic()
        self._count += 1
        self._updating = True
        try:
            published = PublishedWeights(
                f"v{version}-{slot}-{self._life}-{self._count}", version, slot, self._scores(slot)
            )
            self._update.keep(published.label, self._models[slot], weights)
            with self.cond:
                old = [
                    self._published.pop(name)
                    # new weights of the policy end the reference's turn; its own go when they are replaced
                    for name in ([*self._published] if slot == POLICY else [slot])
                    if name in self._published
                ]
                self._published[slot] = published
                if slot == POLICY:
                    self._slot = POLICY
            if slot == POLICY:
                self._give_all(published)
        finally:
            self._updating = False
        for weights_before in old:
            self._update.forget(weights_before.label)
        self._update_s += time.monotonic() - began

    def _give_all(self, published: PublishedWeights) -> None:
        """To all servers at once. Raises `EngineFailed` where none has taken them within `wait_s`."""
        with self.cond:
            for server in self._servers:
                server.label = ""  # no reply of other weights is wanted any more
        end = time.monotonic() + self.settings.wait_s
        pause = RETRY_S
        while True:
            left = [server for server in self._servers if server.label != published.label]
            # at the same time: a server that hangs doesn't keep the others from their weights
            threads = [threading.Thread(target=self._give, args=(server, published), daemon=True) for server in left]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with self.cond:
                self.cond.notify_all()
                if any(server.label == published.label for server in self._servers) or self._stopping:
                    return
            whys = "; ".join(server.why for server in self._servers)
            # a server that refuses would refuse again, so waiting is of no use
            refused = all(server.refuses for server in self._servers)
            if refused or time.monotonic() > end:
                raise EngineFailed(
                    f"rollout engine vllm: no server has taken the weights of version {published.version}: "
                    f"{whys[:400]}; {START}, then go on"
                )
            time.sleep(pause)
            pause = min(LONGEST_RETRY_S, pause * 2)

    def _give(self, server: EngineServer, published: PublishedWeights) -> None:
        """One server → these weights, in service; or out of service, with the reason."""
        with server.lock:
            if server.label == published.label or not self._wanted(published):
                return
            try:
                self._update.give(server.client, published.label, self.settings.update_timeout_s)
                self._check(server.client, published)
            except (ServerError, token_protocol.BadReply) as error:
                self._out(server, error)
            else:
                self._in(server, published)

    def _wanted(self, published: PublishedWeights) -> bool:
        """Whether servers should have these still."""
        with self.cond:
            return self._current() is published and not self._stopping

    def _current(self) -> PublishedWeights | None:
        """What the servers should hold (under the lock)."""
        return self._published.get(self._slot)

    def _scores(self, slot: str) -> tuple[float, ...]:
        """The learner's log-probabilities of the given text."""
        model = self._models[slot]
        # without dropout, as servers compute
        parameter, was = next(model.parameters()), model.training
        model.eval()
        with torch.no_grad():
            batch = self._processor.reply_batch([self._given], [self._given_reply])
            found = reply_logprobs(model, batch.to(parameter.device, parameter.dtype)).logprobs[0].tolist()
        model.train(was)
        return tuple(found)

    def _check(self, client: VllmClient, published: PublishedWeights) -> None:
        """Raises `BadReply` where a server scores the given text otherwise than the learner."""
        prompt, reply = self._given_prompt, self._given_reply
        answer = client.generate(token_protocol.scoring_body(prompt, reply), self.settings.timeout_s)
        scores = token_protocol.read_scores(answer, prompt, reply)
        gap = sum(abs(one - other) for one, other in zip(scores, published.scores, strict=True)) / len(scores)
        if gap > self.settings.logprob_tolerance:
            raise token_protocol.BadReply(
                f"{client.endpoint}: expected the learner's log-probabilities on a given text, found them "
                f"{gap:.3g} nats apart: it answers from other weights"
            )

    # -- replies -------------------------------------------------------------------------------------------------------

    def ask(self, job: ReplyJob, row: Mapping[str, object], seed: int) -> tuple[Completion, int, int]:
        """See `RolloutEngine`."""
        return self.reply(row, seed, 0.0 if job.greedy else self._temperature, self._max_new_tokens, job.slot)

    def reply(
        self, row: Mapping[str, object], seed: int, temperature: float, max_new_tokens: int, slot: str = POLICY
    ) -> tuple[Completion, int, int]:
        """(reply, tokens of the prompt, version of the weights). Raises as `ask`."""
        # the processor's cache of pictures isn't for several threads
        with self._tokenizing:
            body, prompt_ids = token_protocol.prompt_body(self._processor, row)
        body["sampling_params"] = token_protocol.sampling_params(
            self._processor, temperature=temperature, max_tokens=max_new_tokens, seed=seed
        )
        if self.settings.model:
            body["model"] = self.settings.model
        end, bad = 0.0, 0
        while True:
            server, published = self._server(slot, end)
            try:
                reply = self._reply(server, body, prompt_ids, published, max_new_tokens)
            except (ServerError, token_protocol.BadReply) as error:
                # a reply that doesn't fit may be the request's own fault, a server's failure is not
                bad += isinstance(error, token_protocol.BadReply)
                if bad == BAD_REPLIES or (isinstance(error, ServerError) and error.refused):
                    raise PolicyError(f"vllm: {error}") from error
                # counted from the first failure, over all servers that are tried
                end = end or time.monotonic() + self.settings.wait_s
                self._out(server, error)
            else:
                text = self._processor.text(reply.token_ids)
                completion = Completion(0, 0, reply.token_ids, reply.logprobs, text, reply.finished)
                return completion, len(prompt_ids), published.version
            finally:
                with self.cond:
                    server.busy -= 1
                    self.cond.notify_all()

    def _reply(
        self,
        server: EngineServer,
        body: Mapping[str, object],
        prompt_ids: Sequence[int],
        published: PublishedWeights,
        most: int,
    ) -> token_protocol.TokenReply:
        answer = server.client.generate(body, self.settings.timeout_s)
        reply = token_protocol.read_reply(answer, self._processor, prompt_ids, most, self._vocabulary)
        if set(reply.labels) != {published.label}:
            raise token_protocol.BadReply(
                f"{server.client.endpoint}: expected a reply of the weights {published.label}, found "
                f"{', '.join(reply.labels)[:80]}"
            )
        with self.cond:
            self.replies += 1
            self.batches += 1
        return reply

    def _server(self, slot: str, end: float) -> tuple[EngineServer, PublishedWeights]:
        """The least busy server with the weights of a slot; waits for one until `end`, or `wait_s` from when
        there is none, whyever that is. While weights are published the wait doesn't end."""
        with self.cond:
            while True:
                if self.error is not None or self._stopping:
                    raise EngineFailed(f"rollout engine vllm: {self.error or 'stopped'}")
                published = self._current() if self._has_turn(slot) else None
                ready = [one for one in self._servers if published is not None and one.label == published.label]
                if ready and published is not None:
                    server = min(ready, key=lambda one: one.busy)
                    # under the lock, so that two rollouts don't both see it idle
                    server.busy += 1
                    return server, published
                # the learner is giving out weights: that isn't a server's absence
                if not self._updating:
                    end = end or time.monotonic() + self.settings.wait_s
                    if time.monotonic() > end:
                        whys = "; ".join(one.why for one in self._servers if one.why)
                        raise PolicyError(
                            f"vllm: no server with the {slot}'s weights for {self.settings.wait_s:g} s: {whys[:200]}"
                        )
                self.cond.wait(RETRY_S)

    def _has_turn(self, slot: str) -> bool:
        """Whether the servers hold, or are being given, this slot's weights (under the lock). Another slot than the
        policy's takes its turn by asking, for no rollout of the policy runs then; the policy's comes by `publish`."""
        if slot == self._slot:
            return True
        if slot == POLICY or slot not in self._published:
            return False
        self._slot = slot
        for server in self._servers:
            server.label, server.retry_at = "", 0.0
        self.cond.notify_all()  # whoever tends the servers gives them the weights
        return True

    # -- servers -------------------------------------------------------------------------------------------------------

    def _out(self, server: EngineServer, error: Exception) -> None:
        """Out of service until it is tended."""
        log.warning("vllm: %s", error)
        with self.cond:
            server.label, server.why = "", str(error)
            server.refuses = isinstance(error, ServerError) and error.refused
            server.misses += 1
            # bounded, or the power would grow as long as a server stays away
            server.retry_at = time.monotonic() + min(LONGEST_RETRY_S, RETRY_S * 2 ** min(server.misses - 1, 10))
            self.failures[type(error).__name__] += 1
            self.cond.notify_all()

    def _tend(self) -> None:
        """Brings servers back, each in a thread of its own, as long as the engine runs."""
        while True:
            with self.cond:
                if self._stopping:
                    return
                published, now = self._current(), time.monotonic()
                out = [one for one in self._servers if not one.label and one.retry_at <= now]
                if published is None or not out or self._updating:
                    self.cond.wait(RETRY_S)
                    continue
                for server in out:
                    # taken: no other thread tends this server meanwhile
                    server.retry_at = math.inf
                    threading.Thread(target=self._back, args=(server, published), daemon=True).start()

    def _back(self, server: EngineServer, published: PublishedWeights) -> None:
        """In service again if it still has the weights, else by giving them once more."""
        try:
            with server.lock:
                if not self._wanted(published):
                    return
                acknowledged(server.client, published.label)
                self._check(server.client, published)
                self._in(server, published)
        except (ServerError, token_protocol.BadReply) as error:
            if self._update.lasting or published.slot != POLICY:  # for the reference's rollouts the learner waits
                self._give(server, published)
            else:
                self._out(server, error)
        finally:
            with self.cond:
                if server.retry_at == math.inf:
                    server.retry_at = 0.0
                self.cond.notify_all()

    def _in(self, server: EngineServer, published: PublishedWeights) -> None:
        """In service, if these are still the weights that it should have."""
        with self.cond:
            # the weights may have been replaced while they were being given
            if self._current() is published:
                server.label, server.misses, server.why = published.label, 0, ""
            self.cond.notify_all()
