"""What each token of an answer is, and the weight of its loss.

A tokenizer with a token for each tag, verb and number says so by ids. With any other (the published ones write a
number digit by digit and a tag in pieces) the spans are found in the text, and a token belongs to the weightiest
kind of span that it touches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from schemas.actions import WIDEST, reply_spans
from trainer.modeling import tokenizer as words
from trainer.settings.supervised import SpanWeights

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NUMBER = rb"(?:1000|[0-9]{1,3})"
_BRACKETED = re.compile(rb"[\[(](" + _NUMBER + rb"(?:," + _NUMBER + rb")+)[\])]")
_DIGITS = re.compile(rb"[0-9]+")
_REFUSED = re.compile(rb"\[(-1),(-1)\]")
_TAG = re.compile(rb"</?(?:think|action|conclusion)>")
_VERB = re.compile(("(?:" + "|".join(sorted(words.VERBS, key=len, reverse=True)) + r")(?=\()").encode())
_ACTION = re.compile(rb"<action>(.*?)(?:</action>|$)", re.DOTALL)
KINDS = ("text", "action", "tag", "verb", "coordinate", "refused")
"""Kinds of spans; a token that touches several is of the last. A refusal stands where a coordinate could: with less
weight than that it would be said less often than it is true."""


ActionPart = Literal["type", "parameters", "rest"]


class AnswerSpans:
    """The kinds of an answer's tokens, for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._numbers = words.number_ids(tokenizer)
        ids = tokenizer.convert_tokens_to_ids
        one = {name: ids(name) for name in (*words.TAGS, *words.VERBS, *words.BRACKETS)}
        self._end = ids(words.END)
        self._control = set(tokenizer.all_special_ids)
        self._tags = {one[tag] for tag in words.TAGS}
        self._verbs = {one[verb] for verb in words.VERBS}
        self._open, self._close = {one["("], one["["]}, {one[")"], one["]"]}
        self._comma, self._minus_one = one[","], ids(words.MINUS_ONE)
        self._action = one["<action>"]

    def coordinates(self, ids: Sequence[int]) -> list[int]:
        """Indices of the tokens of numbers inside brackets that hold nothing but numbers and commas."""
        if self._numbers is None:
            return [index for index, kind in enumerate(self._kinds(ids)) if kind == "coordinate"]
        places: list[int] = []
        run: list[int] | None = None
        for index, token in enumerate(ids):
            if token in self._open:
                run = []
            elif run is not None and token in self._numbers:
                run.append(index)
            elif run is not None and token in self._close:
                # a single number in brackets is no point
                places += run if len(run) >= 2 else []
                run = None
            elif token != self._comma:
                run = None
        return places

    def weights(self, ids: Sequence[int], spans: SpanWeights) -> list[float]:
        """Loss weight of each token, see `SpanWeights`."""
        if self._numbers is None:
            kinds = self._kinds(ids)
            by_kind = {**spans.plain(), "refused": spans.coordinate}
            return [
                spans.end if token == self._end else float(by_kind[kind])
                for token, kind in zip(ids, kinds, strict=True)
            ]
        weights, inside = [], False
        coordinates = set(self.coordinates(ids))
        for index, token in enumerate(ids):
            if token in self._tags:
                inside = token == self._action
                weights.append(spans.tag)
            elif index in coordinates or token == self._minus_one:
                weights.append(spans.coordinate)
            elif token == self._end:
                weights.append(spans.end)
            elif inside:
                weights.append(spans.verb if token in self._verbs else spans.action)
            else:
                weights.append(spans.text)
        return weights

    def action_parts(self, ids: Sequence[int]) -> list[ActionPart]:
        """Which part of the action, as `parse_reply` reads it, each token of a reply touches; all "rest" where it reads
        none. A token across both is of the type."""
        # a control token stands for no text
        pieces = [b"" if token in self._control else self._bytes(token) for token in ids]
        # a token may be half a character: escaped, every byte keeps its place
        text = b"".join(pieces).decode("utf-8", "surrogateescape")
        found = reply_spans(text, WIDEST)
        if found is None:
            return ["rest"] * len(pieces)
        part = bytearray(sum(map(len, pieces)))
        # the type last, so that a token across both is of it
        for kind, span in ((1, found.parameters), (2, found.type or (0, 0))):
            start, end = (len(text[:place].encode("utf-8", "surrogateescape")) for place in span)
            part[start:end] = bytes([kind]) * (end - start)
        names: tuple[ActionPart, ...] = ("rest", "parameters", "type")
        return [names[max(part[start:end], default=0)] for start, end in _places(pieces)]

    def _kinds(self, ids: Sequence[int]) -> list[str]:
        """Kind of each token by the text it stands for."""
        pieces = [self._bytes(token) for token in ids]
        text = b"".join(pieces)
        # numbers are indices of KINDS; where spans meet, a token takes the largest
        kind = bytearray(len(text))
        for found in _ACTION.finditer(text):
            kind[found.start(1) : found.end(1)] = bytes([1]) * (found.end(1) - found.start(1))
            for verb in _VERB.finditer(text, found.start(1), found.end(1)):
                kind[verb.start() : verb.end()] = bytes([3]) * (verb.end() - verb.start())
        for found in _TAG.finditer(text):
            kind[found.start() : found.end()] = bytes([2]) * (found.end() - found.start())
        for found in _BRACKETED.finditer(text):
            for number in _DIGITS.finditer(text, found.start(1), found.end(1)):
                kind[number.start() : number.end()] = bytes([4]) * (number.end() - number.start())
        for found in _REFUSED.finditer(text):
            # both of "-1", two bytes each
            for place in (1, 2):
                kind[found.start(place) : found.end(place)] = bytes([5]) * 2
        return [KINDS[max(kind[start:end], default=0)] for start, end in _places(pieces)]

    def _bytes(self, token: int) -> bytes:
        """The bytes a token stands for; byte-level vocabularies write each as one character."""
        piece = str(self._tokenizer.convert_ids_to_tokens(int(token)))
        table = self._byte_of
        if all(character in table for character in piece):
            return bytes(table[character] for character in piece)
        return piece.encode()  # an added token is written as it is

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        """GPT-2's table of characters that stand for bytes (Radford et al., 2019), backwards."""
        # the bytes that GPT-2 shows as they are; the others are shifted behind them
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        table = {chr(byte): byte for byte in plain}
        rest = [byte for byte in range(256) if byte not in set(plain)]
        return table | {chr(256 + place): byte for place, byte in enumerate(rest)}


def _places(pieces: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """(start, end) of each piece in all of them together."""
    here = 0
    for piece in pieces:
        yield here, here + len(piece)
        here += len(piece)
