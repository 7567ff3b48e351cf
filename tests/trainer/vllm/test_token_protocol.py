"""What is believed of a server's answer: all of it, or none of it."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from choice_world import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prompts import messages
from trainer.vllm import token_protocol

PROMPT = [5, 6, 7]


def answer(processor: Any, ids: list[int], finished: bool) -> dict[str, Any]:
    content = [{"token_id": token, "logprob": -0.5, "rank": 1, "top_logprobs": []} for token in ids]
    span = {"version": "v1", "start": 0, "end": len(ids)}
    return {
        "prompt_token_ids": PROMPT,
        "choices": [
            {
                "token_ids": ids,
                "logprobs": {"content": content},
                "finish_reason": "stop" if finished else "length",
                "weight_versions": [span],
            }
        ],
    }


def good(processor: Any) -> dict[str, Any]:
    return answer(processor, [300, 301, 302, processor.end_id], True)


KEYS = st.sampled_from(["start", "end", "version", "token_id", "logprob"])
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
JUNK = st.one_of(PLAIN, st.lists(st.integers(-3, 2000), max_size=4), st.dictionaries(KEYS, PLAIN, max_size=3))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_is_refused_or_leaves_a_whole_reply(words: Any, data: st.DataObject) -> None:
    told = copy.deepcopy(good(words))
    place: Any = told
    while True:  # somewhere in it
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    if data.draw(st.booleans()):
        place[key] = data.draw(JUNK)
    else:
        del place[key]
    try:
        reply = token_protocol.read_reply(told, words, PROMPT, 8, 1400)
    except token_protocol.BadReply as bad:
        assert len(str(bad)) < 400
        return
    choice = told["choices"][0]
    assert told["prompt_token_ids"] == PROMPT and reply.token_ids == choice["token_ids"]
    assert len(reply.logprobs) == len(reply.token_ids) and all(math.isfinite(one) for one in reply.logprobs)
    assert reply.finished == (reply.token_ids[-1] == words.end_id) and len(reply.labels) >= 1


def test_replies_end_at_the_end_token_or_at_their_limit(words: Any) -> None:
    assert token_protocol.read_reply(good(words), words, PROMPT, 8, 1400).labels == ["v1"]
    assert not token_protocol.read_reply(answer(words, [300] * 8, False), words, PROMPT, 8, 1400).finished
    for ids, finished in (
        ([300] * 3, False),
        ([300] * 8, True),
        ([300, words.end_id], False),
        ([], True),
        ([300] * 9, False),
        ([words.end_id, words.end_id], True),
        ([words.never[0]] * 8, False),
        ([1400] * 8, False),
    ):
        with pytest.raises(token_protocol.BadReply):
            token_protocol.read_reply(answer(words, ids, finished), words, PROMPT, 8, 1400)


@pytest.mark.parametrize("value", [-9999.0, float("nan"), float("inf"), 0.5, True, "-0.5", None])
def test_a_log_probability_that_is_none_is_refused(words: Any, value: Any) -> None:
    told = good(words)
    told["choices"][0]["logprobs"]["content"][1]["logprob"] = value
    with pytest.raises(token_protocol.BadReply, match="token 1: expected the log-probability of 301"):
        token_protocol.read_reply(told, words, PROMPT, 8, 1400)


def test_a_prompt_goes_as_its_ids_with_one_token_for_each_picture(words: Any) -> None:
    images = [picture(2, 0), picture(1, 0)]
    row = {"messages": messages("navigation", "Press it <|image_pad|>", images=2), "images": images}
    body, ids = token_protocol.prompt_body(words, row)
    assert body["token_ids"].count(words.image_id) == len(body["content_parts"]) == 2 < ids.count(words.image_id)
    whole, each = iter(body["token_ids"]), [words.image_tokens(one) for one in words.prompt(row).pictures]
    laid = [copied for token in whole for copied in [token] * (each.pop(0) if token == words.image_id else 1)]
    assert laid == ids == words.prompt(row).ids
    assert token_protocol.one_token_each([9, 9, 1, 9], 9) == [9, 1, 9] and token_protocol.one_token_each([], 9) == []
    params = token_protocol.sampling_params(words, temperature=0.7, max_tokens=8, seed=3)
    assert {*params["logit_bias"]} == {str(one) for one in words.never} and params["stop_token_ids"] == [words.end_id]


def test_scores_are_of_the_given_tokens() -> None:
    told = {"prompt_logprobs": [None, {"6": {"logprob": -1}, "2": {"logprob": -3}}, {"7": {"logprob": -2.5}}]}
    assert token_protocol.read_scores(told, [5], [6, 7]) == [-1.0, -2.5]
    for wrong in ({}, {"prompt_logprobs": told["prompt_logprobs"][:2]}, {"prompt_logprobs": [None, None, None]}):
        with pytest.raises(token_protocol.BadReply):
            token_protocol.read_scores(wrong, [5], [6, 7])
