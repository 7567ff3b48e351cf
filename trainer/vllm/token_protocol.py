"""Token in, token out: bodies of vLLM's `/inference/v1/generate` (0.33.0), and what is believed of its answers.

The prompt goes as the ids of `Processor.prompt`, so no text is tokenised a second time. Each picture is a single image
token in it, with its bytes beside (`content_parts`): the server puts in as many image tokens as the picture takes and
names the ids that the model was given, which must be the learner's own. What it samples comes back as ids, each with
the log-probability (nats) under the distribution that it was drawn from (`--logprobs-mode processed_logprobs`) and the
label of the weights that drew it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generators.policies.chat_endpoint import picture
from trainer.modeling.batches import Row, row_images
from trainer.modeling.processor import Processor

UNKNOWN = -9999.0
"""What vLLM sends for a log-probability that it hasn't, or that is no number."""
FORBIDDEN_BIAS = -100.0
"""What vLLM clamps a `logit_bias` to: e^-100 of a token's share."""


class BadReply(RuntimeError):
    """An answer that can't be trained on; the message says what was expected and found."""


@dataclass(frozen=True)
class TokenReply:
    """`labels` are those of the weights that sampled it, in order: one, unless they changed in the middle."""

    token_ids: list[int]
    logprobs: list[float]
    finished: bool
    labels: list[str]


def one_token_each(ids: Sequence[int], image_id: int) -> list[int]:
    """Prompt ids with one image token for each picture (the end token of a picture stands between two)."""
    return [token for place, token in enumerate(ids) if token != image_id or not place or ids[place - 1] != image_id]


def prompt_body(processor: Processor, row: Row) -> tuple[dict[str, object], list[int]]:
    """(what a request says of its prompt, the ids that the model must be given). Raises `BadSample` for a row that
    can't be put to the model."""
    ids = processor.prompt(row).ids
    body: dict[str, Any] = {"token_ids": one_token_each(ids, processor.image_id), "return_token_ids": True}
    if pictures := row_images(row):
        # bytes as they are: the server makes image tokens of them by the same processor
        urls = [picture(data)["image_url"]["url"] for data in pictures]
        body["content_parts"] = [{"type": "image_url", "url": url} for url in urls]
    return body, ids


def sampling_params(processor: Processor, *, temperature: float, max_tokens: int, seed: int) -> dict[str, object]:
    """The whole distribution at this temperature (0: greedy) but for the tokens that no reply may hold."""
    return {
        "temperature": temperature,
        # off, each of them: the log-probability must be that of the whole distribution
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": max_tokens,
        "seed": seed,
        # 0 asks for that of the sampled token alone
        "logprobs": 0,
        "detokenize": False,
        "stop_token_ids": [processor.end_id],
        "logit_bias": {str(token): FORBIDDEN_BIAS for token in processor.never},
    }


def read_reply(
    answer: Mapping[str, object], processor: Processor, prompt_ids: Sequence[int], max_tokens: int, vocabulary: int
) -> TokenReply:
    """A server's answer → the reply. `vocabulary`: ids that the model has. Raises `BadReply` unless all of it is there
    and fits."""
    if (given := answer.get("prompt_token_ids")) != list(prompt_ids):
        found = f"{len(given)} others" if isinstance(given, list) else f"{given!r:.40}"
        raise BadReply(
            f"prompt: expected the {len(prompt_ids)} token ids of this processor, found {found}; does the "
            "server have another image processor than the learner's checkpoint?"
        )
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    if not isinstance(choice, dict):
        raise BadReply(f"expected one choice, found {choices!r:.60}")
    ids = _ids(choice.get("token_ids"), processor, max_tokens, vocabulary)
    logprobs = _logprobs(choice.get("logprobs"), ids)
    labels = _labels(choice.get("weight_versions"), len(ids))
    reason, finished = choice.get("finish_reason"), ids[-1] == processor.end_id
    # a server that cut a reply for a reason of its own would teach a wrong end
    if (reason == "stop") != finished or (reason == "length") != (not finished and len(ids) == max_tokens):
        raise BadReply(
            f"expected a reply that stops at the end token or at {max_tokens} tokens, found {len(ids)} "
            f"tokens, {'with' if finished else 'without'} it, and {reason!r:.40}"
        )
    return TokenReply(ids, logprobs, finished, labels)


def _ids(found: object, processor: Processor, most: int, vocabulary: int) -> list[int]:
    if not isinstance(found, list) or not 1 <= len(found) <= most:
        count = len(found) if isinstance(found, list) else f"{found!r:.40}"
        raise BadReply(f"expected 1 to {most} token ids, found {count}")
    never = set(processor.never)
    for place, token in enumerate(found):
        # `type`, since True is an int to `isinstance`
        if type(token) is not int or not 0 <= token < vocabulary or token in never:
            raise BadReply(
                f"token {place}: expected an id below {vocabulary} that a reply may hold, found {token!r:.40}"
            )
        if token == processor.end_id and place + 1 < len(found):
            raise BadReply(f"expected nothing after the end token, found {len(found) - place - 1} more")
    return found


def _logprobs(found: object, ids: Sequence[int]) -> list[float]:
    content = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, list) or len(content) != len(ids):
        count = len(content) if isinstance(content, list) else "none"
        raise BadReply(f"expected {len(ids)} log-probabilities, one for each token, found {count}")
    values = []
    for place, (token, entry) in enumerate(zip(ids, content, strict=True)):
        value = entry.get("logprob") if isinstance(entry, dict) and entry.get("token_id") == token else None
        # rounding may leave a log-probability just above 0
        if not isinstance(value, int | float) or not UNKNOWN < value <= 1e-6:
            raise BadReply(f"token {place}: expected the log-probability of {token}, found {entry!r:.60}")
        values.append(float(value))
    return values


def _labels(found: object, length: int) -> list[str]:
    """Of spans that cover the tokens one after the other."""
    place, labels = 0, []
    for span in found if isinstance(found, list) else []:
        if not isinstance(span, dict) or span.get("start") != place or not isinstance(span.get("end"), int):
            raise BadReply(f"expected weight versions that follow each other, found {found!r:.80}")
        place = span["end"]
        labels.append(str(span.get("version")))
    if place != length or not labels:
        raise BadReply(
            f"expected the versions of the weights of {length} tokens, found {found!r:.80}; vLLM sends them "
            "from 0.33 on"
        )
    return labels


# -- scoring a given text --------------------------------------------------------------------------------------------


def scoring_body(prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> dict[str, object]:
    """Ask for the log-probabilities of given tokens after a prompt without pictures, under the model's own
    distribution."""
    return {
        "token_ids": [*prompt_ids, *reply_ids],
        "return_token_ids": True,
        "sampling_params": {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False},
    }


def read_scores(answer: Mapping[str, object], prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> list[float]:
    """The answer to `scoring_body` → nats of each of `reply_ids`. Raises `BadReply`."""
    found = answer.get("prompt_logprobs")
    if not isinstance(found, list) or len(found) != len(prompt_ids) + len(reply_ids):
        raise BadReply(
            f"expected the log-probabilities of {len(prompt_ids) + len(reply_ids)} prompt tokens, found "
            f"{len(found) if isinstance(found, list) else repr(found)[:40]}"
        )
    scores = []
    for token, entry in zip(reply_ids, found[len(prompt_ids) :], strict=True):
        one = entry.get(str(token)) if isinstance(entry, dict) else None
        value = one.get("logprob") if isinstance(one, dict) else None
        if not isinstance(value, int | float) or not UNKNOWN < value <= 1e-6:
            raise BadReply(f"expected the log-probability of prompt token {token}, found {entry!r:.60}")
        scores.append(float(value))
    return scores
