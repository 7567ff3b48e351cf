"""A request's body in the OpenAI protocol → what is asked of the model, or why it isn't answered.

What stock clients send by default is understood. A parameter that would change the reply in a way that isn't built is
refused by name, and so is a text that the model can't read whole.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.store.images import image_size

if TYPE_CHECKING:
    from trainer.modeling.processor import Processor
    from trainer.modeling.shaping import Shaping
from trainer.serving.limits import ServeLimits
from trainer.serving.requests import RequestRefused

_DATA_URI = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
"""Whatever kind it names: clients name the wrong one or none, and a picture's own first bytes say what it is."""
_URL_SAFE = str.maketrans("-_", "+/")
_ONLY: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("tools", "functions", "stop_token_ids", "chat_template_kwargs"), ([], {})),
    **dict.fromkeys(("tool_choice", "function_call"), ("none", "auto")),
    **dict.fromkeys(("best_of", "length_penalty", "skip_special_tokens", "add_generation_prompt"), (1, True)),
    **dict.fromkeys(("min_tokens", "ignore_eos", "echo"), (0, False)),
    **{"response_format": ({"type": "text"},), "modalities": (["text"],)},
}
"""Parameters that would change the reply in a way that isn't built: only these values (or none) are taken."""
_HEEDED = ("model", "messages", "max_tokens", "max_completion_tokens", "n", "seed", "logprobs", "stream", "stop")
_MORE_HEEDED = ("stream_options", "temperature", "top_p", "top_k", "min_p", "logit_bias", "top_logprobs")
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_WITHOUT_EFFECT = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "parallel_tool_calls",
    "safety_identifier",
    "request_id",
)
_CACHING = ("prompt_cache_key", "prompt_cache_retention")
"""Parameters of the protocol that say nothing of the reply: any value is taken."""
_TAKEN = frozenset({*_HEEDED, *_MORE_HEEDED, *_PENALTIES, *_WITHOUT_EFFECT, *_CACHING})
# Qwen's template shows what a tool answered in a user's turn
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "user"}
MOST_STOPS = 16


def _refused(param: str, message: str, code: str = "invalid_value") -> RequestRefused:
    return RequestRefused(413 if code == "too_large" else 400, f"{param}{message}", param.partition("[")[0], code)


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A checked request. `row` is like a row of the shards; `cut` names the texts whose middle the model won't read."""

    row: dict[str, Any]
    temperature: float
    max_tokens: int
    n: int
    seed: int
    logprobs: bool
    shaping: Shaping | None
    stops: tuple[str, ...]
    stream: bool
    usage_in_stream: bool
    cut: tuple[str, ...]


class ChatRequests:
    """Reads requests for the model `name`. `context` is the most tokens of a prompt and its reply; with `cut_texts` a
    text that is too long loses its middle, as in training, where it is refused else."""

    def __init__(
        self, name: str, processor: Processor, limits: ServeLimits, context: int, vocabulary: int, cut_texts: bool
    ) -> None:
        self._name, self._processor, self._limits = name, processor, limits
        self._context, self._vocabulary, self._cuts = context, vocabulary, cut_texts

    def read(self, body: Mapping[str, Any]) -> ChatAsk:
        """A body → what is asked. Raises `RequestRefused` naming the parameter, what was expected and found."""
        if body.get("model") != self._name:
            found = str(body.get("model"))[:80]
            raise RequestRefused(404, f"expected the model {self._name!r}, found {found!r}", "model", "model_not_found")
        for name, value in body.items():
            if name in _TAKEN or value is None:
                continue
            if name not in _ONLY or value not in _ONLY[name]:
                raise _refused(name[:80], f": {json.dumps(value)[:60]} isn't built; leave it out", "unsupported")
        most = self._limits.max_tokens
        asked = body.get("max_tokens") if body.get("max_completion_tokens") is None else body["max_completion_tokens"]
        default = min(most, self._processor.preset.max_answer_tokens)
        row = self._row(body.get("messages"))
        max_tokens = (
            default if asked is None else int(number_in({"max_tokens": asked}, "max_tokens", 0, 1, most, whole=True))
        )
        cut = self._too_long(row, max_tokens)
        stream = _flag(body, "stream")
        return ChatAsk(
            row=row,
            temperature=number_in(body, "temperature", 1.0, 0.0, 2.0),
            max_tokens=max_tokens,
            n=int(number_in(body, "n", 1, 1, self._limits.n, whole=True)),
            # 31 bits, so that whoever logs the seed can ask for the same reply again
            seed=int(number_in(body, "seed", secrets.randbits(31), -(2**63), 2**63, whole=True)),
            logprobs=_flag(body, "logprobs"),
            shaping=self._shaping(body),
            stops=_stops(body.get("stop")),
            stream=stream,
            usage_in_stream=_usage_in_stream(body.get("stream_options"), stream),
            cut=cut,
        )

    def _shaping(self, body: Mapping[str, Any]) -> Shaping | None:
        """None where nothing but the temperature shapes the distribution, which is faster."""
        from trainer.modeling.shaping import Shaping

        bias = body.get("logit_bias") or {}
        if not isinstance(bias, dict) or not all(str(key).isdecimal() for key in bias):
            raise _refused("logit_bias", f": expected token ids with numbers, found {bias!r:.60}")
        if wrong := [key for key in bias if int(key) >= self._vocabulary]:
            raise _refused("logit_bias", f": expected ids below {self._vocabulary}, found {wrong[0]:.20}")
        top = int(number_in(body, "top_logprobs", 0, 0, 20, whole=True))
        if top and not _flag(body, "logprobs"):
            raise _refused("top_logprobs", ": expected logprobs true beside it")
        found = Shaping(
            top_p=number_in(body, "top_p", 1.0, 0.0, 1.0),
            top_k=int(number_in(body, "top_k", 0, -1, self._vocabulary, whole=True)),
            min_p=number_in(body, "min_p", 0.0, 0.0, 1.0),
            repetition_penalty=number_in(body, "repetition_penalty", 1.0, 0.01, 10.0),
            presence_penalty=number_in(body, "presence_penalty", 0.0, -2.0, 2.0),
            frequency_penalty=number_in(body, "frequency_penalty", 0.0, -2.0, 2.0),
            logit_bias={
                int(key): number_in({"logit_bias": value}, "logit_bias", 0, -100, 100) for key, value in bias.items()
            },
            top_logprobs=top,
        )
        # only then is the faster way of drawing taken
        return None if found in (Shaping(), Shaping(top_k=-1)) else found

    def _row(self, messages: Any) -> dict[str, Any]:
        limits = self._limits
        if not isinstance(messages, list) or not 1 <= len(messages) <= limits.turns:
            raise _refused("messages", f": expected a list of 1 to {limits.turns} turns")
        images: list[bytes] = []
        turns = [self._turn(turn, f"messages[{number}]", images) for number, turn in enumerate(messages)]
        chars = sum(len(part.get("text", "")) for turn in turns for part in turn["content"])
        if len(images) > limits.images or chars > limits.text_chars:
            most = f"{limits.images} pictures and {limits.text_chars} characters"
            raise _refused("messages", f": expected at most {most}, found {len(images)} and {chars}", "too_large")
        if turns[-1]["role"] != "user":
            raise _refused("messages", ": expected a user's turn at the end")
        return {"sample_id": "request", "messages": json.dumps(turns), "images": images, "answer": ""}

    def _turn(self, turn: Any, where: str, images: list[bytes]) -> dict[str, Any]:
        """A turn as the shards have it; its pictures are appended to `images`. Calls of tools and what came of them are
        written as Qwen's chat template writes them."""
        role = turn.get("role") if isinstance(turn, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            raise _refused(where, f": expected a turn of {', '.join(_ROLES)}, found {role!r:.40}")
        content, calls = turn.get("content"), turn.get("tool_calls")
        if role == "assistant" and content is None:
            content = ""  # a turn that only called tools, or said nothing
        parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(parts, list):
            raise _refused(where, ".content: expected text or a list of parts")
        parts_read: list[dict[str, Any]] = []
        for part in parts:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in ("text", "refusal") and isinstance(part.get(kind), str):
                parts_read.append({"type": "text", "text": _whole(part[kind])})
            elif kind == "image_url":
                images.append(picture_bytes(part.get("image_url"), where, self._limits))
                parts_read.append({"type": "image"})
            else:
                raise _refused(where, f": expected parts of type text or image_url, found {kind!r:.40}")
        if role == "tool":
            parts_read = [_text("<tool_response>\n"), *parts_read, _text("\n</tool_response>")]
        if role == "assistant" and calls:
            parts_read += [_text(_call(call, where)) for call in (calls if isinstance(calls, list) else [calls])]
        return {"role": _ROLES[role], "content": parts_read}

    def _too_long(self, row: dict[str, Any], max_tokens: int) -> tuple[str, ...]:
        """The texts that the model would read without their middle, if it may; raises `RequestRefused` if not, and for
        a prompt that leaves no room for the reply."""
        from trainer.modeling.batches import BadSample

        most, found = self._processor.preset.max_prompt_tokens, []
        for number, turn in enumerate(json.loads(row["messages"])):
            for kind, parts in groupby(turn["content"], key=lambda part: part["type"]):
                text = "".join(part["text"] for part in parts) if kind == "text" else ""  # side by side: one text
                if (tokens := self._processor.text_tokens(text)) > most:
                    found.append(f"messages[{number}]: {tokens} tokens of text")
        if found and not self._cuts:
            advice = "Shorten it, or start the server with --cut-texts, which leaves out the middle as in training"
            message = f"{found[0]}; this model reads at most {most} of a text whole. {advice}"
            raise RequestRefused(400, message, "messages", "context_length_exceeded")
        try:
            length = self._processor.prompt_length(row)
        except BadSample as bad:
            raise _refused("messages", f": {str(bad)[:300]}", "bad_image") from bad
        if length + max_tokens > self._context:
            message = (
                f": {length} tokens of prompt and {max_tokens} of reply; this model has room for {self._context} in"
            )
            raise _refused(
                "messages", f"{message} all. Shorten messages or lower max_tokens", "context_length_exceeded"
            )
        return tuple(f"{one}, {most} read" for one in found)


def picture_bytes(value: object, where: str, limits: ServeLimits) -> bytes:
    """A picture of an `image_url` part: base64 with line breaks or without, in either alphabet, padded or not, or as
    a URL quotes it. Raises `RequestRefused`."""
    url = value.get("url") if isinstance(value, dict) else value
    found = _DATA_URI.match(url) if isinstance(url, str) else None
    if found is None or not isinstance(url, str):
        raise _refused(where, ": expected a picture as data:image/…;base64,…; nothing is fetched")
    # `unquote` leaves a plus as it is
    encoded = "".join(unquote(url[found.end() :]).split()).rstrip("=").translate(_URL_SAFE)
    # by its length, before anything is decoded
    if len(encoded) * 3 // 4 > limits.image_bytes:
        raise _refused(where, f": expected a picture of at most {limits.image_bytes} bytes", "too_large")
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        width, height = image_size(data)
    except ValueError as error:  # `binascii.Error` and `ImageError` are
        raise _refused(where, f": expected a picture that can be read, found {error}", "bad_image") from None
    # by the header, before pixels are laid out in memory
    if width * height > limits.image_pixels:
        most = limits.image_pixels
        raise _refused(where, f": expected at most {most} pixels, found {width} x {height}", "too_large")
    return data


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(call: Any, where: str) -> str:
    """A tool call of an earlier turn, as Qwen's chat template writes it. Raises `RequestRefused`."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _refused(where, f".tool_calls: expected calls of functions, found {call!r:.60}")
    arguments = function.get("arguments")
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    name = json.dumps(_whole(function["name"]))
    return f'\n<tool_call>\n{{"name": {name}, "arguments": {_whole(arguments)}}}\n</tool_call>'


def _stops(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or len(texts) > MOST_STOPS or not all(isinstance(one, str) and one for one in texts):
        raise _refused("stop", f": expected a text, or up to {MOST_STOPS} in a list, found {value!r:.60}")
    return tuple(texts)


def _usage_in_stream(options: object, stream: bool) -> bool:
    if options is None:
        return False
    if not stream or not isinstance(options, dict) or {*options} - {"include_usage", "include_obfuscation"}:
        raise _refused("stream_options", f": expected include_usage, beside stream true, found {options!r:.60}")
    return _flag(options, "include_usage")


def _whole(text: str) -> str:
    """Lone surrogates, which JSON can hold and no tokenizer takes, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def number_in(
    body: Mapping[str, Any], name: str, default: float, low: float, high: float, whole: bool = False
) -> float:
    """A number of a request's body, `default` where it has none; `whole`: an integer. Raises `RequestRefused` unless it
    lies in `low`..`high`."""
    value = body.get(name)
    if value is None:
        return default
    # True is an int to Python
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool) and low <= value <= high
    if not good:
        kind = "whole number" if whole else "number"
        raise _refused(name, f": expected a {kind} in {low:g}..{high:g}, found {value!r:.40}")
    return value if isinstance(value, int) else float(value)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value not in (None, True, False):
        raise _refused(name, f": expected true or false, found {value!r:.40}")
    return bool(value)
