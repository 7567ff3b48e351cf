"""The nano tokenizer: byte-level BPE with one token for each tag, verb, argument name, bracket and number 0..1000.

Whatever can't be merged falls back to bytes, so any Unicode text survives a round trip. Numbers have consecutive
ids (`NumberIds.first + n`), which lets the loss treat 499 and 500 as neighbours. The language's own words are
found by the pre-tokenizer, not as added tokens: "Click" is the verb only before a bracket. Control tokens
(`<|im_end|>`, the image place, …) are special and are never made from text: encode with `encode_text`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.actions import ACTION_TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
SPECIAL = (PAD, START, END, VISION_START, VISION_END, IMAGE, VIDEO)
TAGS = tuple(f"<{slash}{tag}>" for tag in ("think", "action", "conclusion") for slash in ("", "/"))
VERBS = tuple(ACTION_TYPES)
ARGUMENTS = ("box=", "start=", "end=", "direction=", "content=", "app=", "url=", "keys=")
BRACKETS = ("(", ")", "[", "]", ",", "'")
MINUS_ONE = "-1"
LAST_NUMBER = 1000

_NAMES = "|".join(name.rstrip("=") for name in ARGUMENTS)
PATTERN = "|".join(
    [
        # the tags of a reply
        r"</?(?:think|action|conclusion)>",
        # a verb is one before its bracket alone: "Click" in a sentence is a word
        rf"(?:{'|'.join(sorted(VERBS, key=len, reverse=True))})(?=\()",
        rf"(?:{_NAMES})=",
        # the blank before an argument or a call is a piece, so that these begin the same everywhere
        rf" (?=(?:{_NAMES})=|(?:{'|'.join(VERBS)})\()",
        # the -1 of a refusal
        r"(?<=\[|,)-1(?=,|\])",
        r"1000|[0-9]{1,3}",
        r"[()\[\],']",
        # words with the blank before them, as in GPT-2
        r" ?\p{L}+",
        # runs of other signs; what the language uses stays apart
        r" ?[^\s\p{L}0-9()\[\],'<>=]+",
        r"[<>=]",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""First alternative that matches wins; what none matches stays a piece of its own."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class NumberIds:
    """Ids of the numbers 0..1000: `first + n`."""

    first: int

    def __contains__(self, token_id: int) -> bool:
        return self.first <= token_id <= self.first + LAST_NUMBER


def _pieces() -> Any:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def train_tokenizer(texts: Iterable[str], vocab_size: int = 2048) -> PreTrainedTokenizerFast:
    """Corpus texts → tokenizer of exactly `vocab_size` ids (unused ids at the end stay reserved).

    Deterministic: the same texts in any order give the same files. Raises `ValueError` if `vocab_size` can't hold
    bytes, numbers and the language's words.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*TAGS, *VERBS, *ARGUMENTS, *BRACKETS, MINUS_ONE]
    # numbers side by side and in order, whatever the corpus holds: `NumberIds` counts on it
    fixed = list(dict.fromkeys([*SPECIAL, *(str(n) for n in range(LAST_NUMBER + 1)), *words, *alphabet]))
    room = vocab_size - len(fixed)
    if room < 0:
        raise ValueError(f"vocab_size: expected at least {len(fixed)}, found {vocab_size}")
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = _pieces()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + room, initial_alphabet=alphabet, min_frequency=2, show_progress=False
    )
    learner.train_from_iterator(_without_language(texts), trainer)
    learned = json.loads(learner.to_str())["model"]
    merges = [tuple(merge) for merge in learned["merges"]]
    by_id = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    tokens = list(dict.fromkeys([*fixed, *by_id]))[:vocab_size]
    tokens += [f"<|reserved_{i}|>" for i in range(vocab_size - len(tokens))]
    known = set(tokens)
    # without those that lead to a token which found no room
    merges = [m for m in merges if m[0] in known and m[1] in known and m[0] + m[1] in known]
    # a piece that is a token by itself is taken as one, whichever merges would lead there
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = _pieces()
    tokenizer.decoder = decoders.ByteLevel()
    return _wrap(tokenizer)


def _without_language(texts: Iterable[str]) -> Iterable[str]:
    """The words of the texts, sorted: the same set in any order trains the same merges; digits learn no merges."""
    import re

    letters = re.compile(r"[0-9]+|</?(?:think|action|conclusion)>")
    for text in sorted(texts):
        yield letters.sub(" ", text)


def _wrap(tokenizer: Any) -> PreTrainedTokenizerFast:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START, VISION_START, VISION_END, IMAGE, VIDEO],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=4096,
    )


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Ids of untrusted text: never a control token, whatever the text says."""
    # a text that spells a control token is split into plain pieces
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return ids


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of ids, control tokens left out, blanks as they are."""
    text: str = tokenizer.decode(
        list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False, spaces_between_special_tokens=False
    )
    return text


def number_ids(tokenizer: Any) -> NumberIds | None:
    """Where the numbers lie; None for a tokenizer without one token per number (the published models)."""
    first, last = tokenizer.convert_tokens_to_ids("0"), tokenizer.convert_tokens_to_ids(str(LAST_NUMBER))
    if first is None or last is None or last - first != LAST_NUMBER:
        return None
    return NumberIds(first)
