"""A checkpoint as a rollout server: the part of vLLM's protocol that `trainer.vllm.engine` speaks, for nano.

    POST /inference/v1/generate        token ids in (an image token and a picture each), token ids and log-probabilities
                                       out, with the label of the weights; or log-probabilities of a given prompt
    POST /pause /resume                ?mode=wait: replies that have begun come to their end, others are refused (503)
    POST /collective_rpc               `reload_weights` from a folder below `weights_root`
    POST /init_weight_transfer_engine /start_weight_update /update_weights /finish_weight_update
                                       weights by broadcast, over Gloo
    POST /update_weight_version, GET /weight_info /get_world_size

Fields and answers are those of vLLM 0.33.0; what isn't built is refused. Unlike vLLM's, the second group asks for the
server's key too, and reads weights below `weights_root` only.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.serving.chat_request import number_in, picture_bytes
from trainer.serving.requests import RequestRefused
from trainer.serving.serve import ChatServer
from trainer.serving.served_weights import ServedWeights
from trainer.serving.turns import Caller, TurnReply

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from trainer.modeling.batches import Batch, Prompt
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.modeling.generation import Completion
    from trainer.modeling.seen_pictures import SeenPictures

# seconds that replies get to end before weights may change
PAUSE_S = 120.0
# values that change nothing of a reply; any other would, in a way that isn't built
_ONLY: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "top_p": (1, 1.0),
    "top_k": (0, -1),
    "min_p": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logprobs": (0, 1),
    "prompt_logprobs": (0,),
    "detokenize": (True, False),
}
_KNOWN = {*_ONLY, "temperature", "max_tokens", "seed", "logit_bias", "stop_token_ids"}
_FORBIDDEN = -100.0

Action = Callable[[Mapping[str, Any], Mapping[str, str]], dict[str, Any]]
"""A request's body and query → the answer. Raises `RequestRefused`."""


@dataclass(frozen=True, slots=True)
class TokenAsk:
    """A checked request. `scored`: the prompt's own log-probabilities are asked for, too."""

    prompt: Prompt
    temperature: float
    max_tokens: int
    seed: int
    scored: bool


class RolloutServer(ChatServer):
    """A `ChatServer` that serves tokens as well. Weights are reloaded from folders below `weights_root` (None: from
    none); with `weight_transfer` they may come from a learner by a Gloo group, too."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        weights_root: str | Path | None = None,
        weight_transfer: bool = False,
        **chat: Any,
    ) -> None:
        super().__init__(checkpoint, **chat)
        self.weights = ServedWeights(checkpoint.model, self._lock, weights_root, weight_transfer)
        self._cond = threading.Condition()
        self._paused = False
        self._running = 0

    def routes(self) -> list[Route]:
        """Those of the chat, and vLLM's."""
        from starlette.routing import Route

        routes = super().routes()
        actions: dict[str, Action] = {
            "/pause": lambda body, query: self.pause(query.get("mode", "")),
            "/resume": lambda body, query: self.resume(),
            "/collective_rpc": lambda body, query: self.collective_rpc(body),
            "/update_weight_version": lambda body, query: self.weights.update_weight_version(body),
            "/init_weight_transfer_engine": lambda body, query: self.weights.init_weight_transfer_engine(body),
            "/start_weight_update": lambda body, query: self.weights.start_weight_update(self._paused),
            "/update_weights": lambda body, query: self.weights.update_weights(body),
            "/finish_weight_update": lambda body, query: self.weights.finish_weight_update(body),
            "/shutdown_weight_transfer_engine": lambda body, query: self.weights.shutdown_weight_transfer_engine(),
        }
        for path, action in actions.items():
            routes.append(Route(path, self._endpoint(action), methods=["POST"]))
        routes.append(Route("/inference/v1/generate", self._tokens, methods=["POST"]))
        routes.append(Route("/weight_info", self._endpoint(lambda body, query: {"weight_version": self.weights.label})))
        routes.append(Route("/get_world_size", self._endpoint(lambda body, query: {"world_size": 1})))
        return routes

    def _endpoint(self, action: Action) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        async def answer(request: Request) -> Response:
            self._admit(request)
            empty = request.method == "GET" or request.headers.get("content-length") == "0"
            body = {} if empty else await self._body(request)
            return JSONResponse(await run_in_threadpool(action, body, request.query_params))

        return answer

    # -- tokens --------------------------------------------------------------------------------------------------------

    async def _tokens(self, request: Request) -> Response:
        self._admit(request)
        body = await self._body(request)
        with self._cond:
            if self._paused:
                raise RequestRefused(503, "paused: the weights are being changed", code="paused")
            self._running += 1  # from now on `pause` waits for it

        def job(caller: Caller) -> None:
            caller.send(self.generate(body, caller))

        reply: Any = TurnReply(self._turn, job, after=self._ended)
        return reply

    def _ended(self) -> None:
        with self._cond:
            self._running -= 1
            self._cond.notify_all()

    def generate(self, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The answer to a request's body. Raises `RequestRefused`, and `ClientGone` when nobody waits any more."""
        ask = self.check_tokens(body)
        # one lock for both, so that the label is that of the weights that sampled
        with self._lock, caller.watching(self._checkpoint.model):
            label, reply = self.weights.label, self._reply(ask, caller)
            scores = self._scores(ask.prompt) if ask.scored else None
        content: list[dict[str, Any]] = [
            {"token_id": token, "logprob": value, "rank": None, "top_logprobs": []}
            for token, value in zip(reply.token_ids, reply.logprobs, strict=True)
        ]
        span = {"version": label, "start": 0, "end": len(reply.token_ids)}
        choice = {
            "index": 0,
            "finish_reason": "stop" if reply.finished else "length",
            "stop_reason": None,
            "token_ids": reply.token_ids,
            "logprobs": {"content": content},
            "weight_versions": [span],
        }
        return {
            "request_id": f"generate-tokens-{secrets.token_hex(12)}",
            "model": self.name,
            "output_mode": "tokens",
            "choices": [choice],
            "prompt_token_ids": ask.prompt.ids,
            "prompt_logprobs": scores,
        }

    def check_tokens(self, body: Mapping[str, object]) -> TokenAsk:
        """A request's body → what is asked. Raises `RequestRefused` naming the parameter, what was expected and
        found."""
        if (model := body.get("model")) not in (None, "", self.name):
            found = str(model)[:80]
            raise RequestRefused(404, f"expected the model {self.name!r}, found {found!r}", "model", "model_not_found")
        params = body.get("sampling_params")
        if not isinstance(params, dict):
            raise RequestRefused(400, f"sampling_params: expected an object, found {params!r:.40}", "sampling_params")
        for name, value in params.items():
            if name not in _KNOWN or (name in _ONLY and value is not None and value not in _ONLY[name]):
                raise RequestRefused(400, f"{name}: {value!r:.60} isn't built; leave it out", name, "unsupported")
        processor = self._checkpoint.processor
        never, ends = set(processor.never), params.get("stop_token_ids", [])
        bias = params.get("logit_bias") or {}
        known = {str(one) for one in never}
        if not isinstance(bias, dict) or {*bias} - known or any(value != _FORBIDDEN for value in bias.values()):
            raise RequestRefused(
                400,
                f"logit_bias: expected {_FORBIDDEN:g} for tokens that no reply may hold, found {bias!r:.60}",
                "logit_bias",
                "unsupported",
            )
        if ends not in ([], [processor.end_id]):
            raise RequestRefused(
                400, f"stop_token_ids: expected [{processor.end_id}], found {ends!r:.40}", "stop_token_ids"
            )
        return TokenAsk(
            self._prompt(body),
            number_in(params, "temperature", 1.0, 0.0, 2.0),
            int(number_in(params, "max_tokens", 16, 1, self.limits.max_tokens, whole=True)),
            int(number_in(params, "seed", secrets.randbits(31), -(2**63), 2**63, whole=True)),
            params.get("prompt_logprobs") is not None,
        )

    def _prompt(self, body: Mapping[str, Any]) -> Prompt:
        """Token ids with as many image tokens for each picture as it takes."""
        from trainer.modeling.batches import BadSample, Prompt

        processor, most = self._checkpoint.processor, self.limits.text_chars
        ids, parts = body.get("token_ids"), body.get("content_parts") or []
        if not isinstance(ids, list) or not 1 <= len(ids) <= most:
            raise RequestRefused(400, f"token_ids: expected a list of 1 to {most} token ids", "token_ids")
        size = self._vocabulary
        if wrong := [token for token in ids if type(token) is not int or not 0 <= token < size]:
            raise RequestRefused(400, f"token_ids: expected ids below {size}, found {wrong[0]!r:.40}", "token_ids")
        if not isinstance(parts, list) or len(parts) > self.limits.images:
            raise RequestRefused(413, f"content_parts: expected at most {self.limits.images} pictures", "content_parts")
        if odd := [part for part in parts if not isinstance(part, dict) or part.get("type") != "image_url"]:
            raise RequestRefused(400, f"content_parts: expected image_url parts, found {odd[0]!r:.40}", "content_parts")
        if ids.count(processor.image_id) != len(parts):
            raise RequestRefused(
                400,
                f"content_parts: expected {ids.count(processor.image_id)} pictures, one for each image "
                f"token, found {len(parts)}",
                "content_parts",
            )
        data = [picture_bytes(part, f"content_parts[{number}]", self.limits) for number, part in enumerate(parts)]
        try:
            with self._lock:  # the processor keeps pictures
                pictures = [processor.picture(one) for one in data]
        except BadSample as bad:
            raise RequestRefused(400, str(bad)[:300], "content_parts", "bad_image") from bad
        left, full = iter(pictures), []
        for token in ids:
            full += [token] * (processor.image_tokens(next(left)) if token == processor.image_id else 1)
        return Prompt(full, pictures)

    def _reply(self, ask: TokenAsk, caller: Caller) -> Completion:
        import torch

        from trainer.modeling.generation import generate

        model = self._checkpoint.model
        # torch takes no negative seed
        generator = torch.Generator(next(model.parameters()).device).manual_seed(ask.seed % 2**63)
        given: Any = _GivenPrompts(self._checkpoint.processor, [ask.prompt])
        [reply] = generate(
            model,
            given,
            [{}],
            temperature=ask.temperature,
            max_new_tokens=ask.max_tokens,
            generator=generator,
            on_tokens=lambda reply: caller.stay(),
        )
        return reply

    def _scores(self, prompt: Prompt) -> list[dict[str, Any] | None]:
        """The log-probability of each prompt token after those before it, as vLLM writes them (none of the first)."""
        import torch

        from trainer.modeling.model import reply_logprobs

        # nothing stands before the first token, so it has no probability
        model, first = self._checkpoint.model, type(prompt)(prompt.ids[:1], [])
        if prompt.pictures:
            raise RequestRefused(
                400, "prompt_logprobs: expected a prompt without pictures", "prompt_logprobs", "unsupported"
            )
        parameter = next(model.parameters())
        batch = self._checkpoint.processor.pad([first], [prompt.ids[1:]], None, left=False)
        with torch.no_grad():
            found = reply_logprobs(model, batch.to(parameter.device, parameter.dtype)).logprobs[0].tolist()
        return [
            None,
            *(
                {str(token): {"logprob": value, "rank": None, "decoded_token": None}}
                for token, value in zip(prompt.ids[1:], found, strict=True)
            ),
        ]

    # -- weights -------------------------------------------------------------------------------------------------------

    def pause(self, mode: str) -> dict[str, object]:
        """Take no requests; those that run come to their end. Raises `RequestRefused` for another mode than "wait"."""
        if mode != "wait":
            raise RequestRefused(400, f"mode: expected wait, found {mode!r:.40}", "mode", "unsupported")
        with self._cond:
            self._paused = True
            if not self._cond.wait_for(lambda: self._running == 0, PAUSE_S):
                raise RequestRefused(
                    503, f"pause: {self._running} replies haven't ended within {PAUSE_S:g} s", code="busy"
                )
        return {"status": "paused"}

    def resume(self) -> dict[str, object]:
        """Take requests again."""
        with self._cond:
            self._paused = False
        return {"status": "resumed"}

    def collective_rpc(self, body: Mapping[str, object]) -> dict[str, object]:
        """See `ServedWeights`."""
        return self.weights.collective_rpc(body)


class _GivenPrompts:
    """A `Processor` whose rows are prompts that are laid out already."""

    def __init__(self, processor: Any, prompts: Sequence[Prompt]) -> None:
        self._processor, self._prompts = processor, prompts

    def prompt_batch(self, rows: Sequence[Any], seen: SeenPictures | None = None) -> Batch:
        found: Batch = self._processor.pad(self._prompts, [[]] * len(rows), None, left=True)
        return found

    def prompt_length(self, row: Any) -> int:
        return max(len(prompt.ids) for prompt in self._prompts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)
