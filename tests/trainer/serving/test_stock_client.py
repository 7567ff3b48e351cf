"""What stock clients send by default works, streamed or whole, and a client that goes stops what it asked for."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from drawn import draw

from generators.policies.chat_endpoint import picture
from trainer.modeling.checkpoint import Checkpoint
from trainer.serving.rollout_server import RolloutServer
from trainer.serving.serve import CUT_HEADER, ChatServer, serving
from trainer.vllm.client import VllmClient

pytestmark = pytest.mark.real_parts

RED = draw({"red": (10, 10, 60, 60)})
LONG = 600
"""Tokens of a reply that takes many times as long as a short one."""


@pytest.fixture(scope="module")
def loaded(processor: Any, tiny_preset: Any) -> Checkpoint:
    from trainer.modeling.model import build_model

    return Checkpoint(build_model(tiny_preset, processor.tokenizer, seed=1).eval(), processor, {"stage": "tiny"})


@pytest.fixture(scope="module")
def url(loaded: Checkpoint) -> Iterator[str]:
    with serving(ChatServer(loaded, name="tiny")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as made:
        yield made


def asking(text: str = "Click the red box", **more: Any) -> Any:
    content = [{"type": "text", "text": text}, picture(RED)]
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 24, "seed": 3, **more}


def streamed(client: openai.OpenAI, **more: Any) -> tuple[dict[int, str], list[Any], Any]:
    """(text of each choice, all chunks, the usage of the last)."""
    texts: dict[int, str] = {}
    chunks = list(client.chat.completions.create(**asking(stream=True, **more)))
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    return texts, chunks, chunks[-1].usage


@pytest.mark.parametrize("more", [{}, {"n": 3}, {"temperature": 0}, {"top_p": 0.7}, {"logprobs": True}])
def test_chunks_add_up_to_the_whole_reply(client: openai.OpenAI, more: dict[str, Any]) -> None:
    whole = client.chat.completions.create(**asking(**more))
    texts, chunks, usage = streamed(client, stream_options={"include_usage": True}, **more)
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert usage == whole.usage and usage.completion_tokens == 24 * more.get("n", 1)
    assert chunks[0].choices[0].delta.role == "assistant" and {chunk.object for chunk in chunks} == {
        "chat.completion.chunk"
    }
    ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert ends == [choice.finish_reason for choice in whole.choices]
    if more.get("logprobs"):
        parts = [one.logprobs.content for chunk in chunks for one in chunk.choices if one.logprobs]
        assert [token for part in parts for token in part] == whole.choices[0].logprobs.content  # type: ignore[union-attr]
    assert len(chunks) > 4, "it came while it was made"


def test_a_stop_ends_the_reply_before_it(client: openai.OpenAI) -> None:
    text = client.chat.completions.create(**asking()).choices[0].message.content or ""
    for stop in (text[len(text) // 2 :][:4], text[5:6]):
        expected = text[: text.index(stop)]
        for given in (stop, ["nowhere in it", stop]):
            cut = client.chat.completions.create(**asking(stop=given))
            assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == (expected, "stop")
            assert cut.usage is not None and cut.usage.completion_tokens < 24
            assert streamed(client, stop=given)[0] == {0: expected}
    assert streamed(client, stop=text + "more")[0] == {0: text}, "what may begin a stop is held back, not lost"


def test_probabilities_and_penalties(client: openai.OpenAI, loaded: Checkpoint) -> None:
    asked = client.chat.completions.create(**asking(logprobs=True, top_logprobs=3, temperature=0))
    content = asked.choices[0].logprobs.content  # type: ignore[union-attr]
    assert content and all(len(token.top_logprobs) == 3 for token in content)
    assert all(bytes(token.bytes).decode() == token.token for token in content if token.bytes)
    assert all(token.logprob <= token.top_logprobs[0].logprob + 1e-6 for token in content)
    free = client.chat.completions.create(**asking())
    narrow = client.chat.completions.create(**asking(extra_body={"top_k": 1}))
    assert narrow.choices[0].message.content != free.choices[0].message.content
    assert narrow == client.chat.completions.create(**asking(top_p=0.0)).model_copy(
        update={"id": narrow.id, "created": narrow.created}
    ), "nothing but the likeliest is left by either"

    def ids(**more: Any) -> list[str]:
        reply = client.chat.completions.create(**asking(logprobs=True, temperature=0, **more))
        return [token.token for token in reply.choices[0].logprobs.content or []]  # type: ignore[union-attr]

    plain, penalised = ids(), ids(frequency_penalty=2, presence_penalty=2)
    assert len(set(penalised)) > len(set(plain)), "a greedy tiny model says the same again and again"
    assert ids(extra_body={"repetition_penalty": 5.0}) != plain
    banned = loaded.processor.tokenizer.convert_tokens_to_ids(loaded.processor.tokenizer.tokenize(plain[0]))[0]
    assert ids(logit_bias={str(banned): -100})[0] != plain[0]


def test_turns_and_parts_as_clients_send_them(client: openai.OpenAI) -> None:
    lines = "\n".join(textwrap.wrap(base64.b64encode(RED).decode(), 76))
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"what": "box"}'}}
    turns: list[Any] = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Where"}, {"type": "text", "text": " is it?"}]},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "at the left"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{lines}"}}]},
    ]
    sent = {**asking(temperature=0), "messages": turns}
    reply = client.chat.completions.create(**sent, user="me", metadata={"a": "b"}, parallel_tool_calls=True)
    plain = [{"role": "system", "content": "Be short."}, *turns[1:]]
    plain[2] = {"role": "assistant", "content": ""}
    plain[6] = {"role": "user", "content": [picture(RED)]}
    again = client.chat.completions.create(**{**sent, "messages": plain})
    assert (reply.choices, reply.usage) == (again.choices, again.usage)
    without = client.chat.completions.create(**{**sent, "messages": [*plain[:3], *plain[5:]]})
    assert reply.usage and without.usage and reply.usage.prompt_tokens > without.usage.prompt_tokens + 10


def test_pictures_in_every_form_of_a_data_uri(client: openai.OpenAI) -> None:
    """A picture's own bytes say what it is, whatever the URI calls it; the alphabet and the padding are told apart."""
    plain = base64.b64encode(RED).decode()
    quoted = plain.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    bodies = (plain, base64.urlsafe_b64encode(RED).decode(), plain.rstrip("="), quoted)
    kinds = ("image/png", "image/png;charset=utf-8", "application/octet-stream", "", "IMAGE/JPEG")
    uris = [*(f"data:image/png;base64,{body}" for body in bodies), *(f"data:{kind};BASE64,{plain}" for kind in kinds)]
    said = {
        client.chat.completions.create(**{**asking(temperature=0, max_tokens=4), "messages": turns})
        .choices[0]
        .message.content
        for uri in uris
        for turns in [[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": uri}}]}]]
    }
    assert len(said) == 1
    size = (9000).to_bytes(2, "little") * 2
    vast = base64.b64encode(b"GIF89a" + size + b"\0\0\0,\0\0\0\0" + size + b"\0\2\0;").decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{vast}"}}
    with pytest.raises(openai.BadRequestError, match="found image_bomb: 9000x9000 px; at most"):
        client.chat.completions.create(**{**asking(), "messages": [{"role": "user", "content": [part]}]})


def test_a_model_is_found_by_name_and_what_isnt_served_is_told_in_the_protocol(client: openai.OpenAI) -> None:
    assert client.models.retrieve("tiny") == client.models.list().data[0]
    for ask in (
        lambda: client.models.retrieve("org/other"),
        lambda: client.completions.create(model="tiny", prompt="x"),
        lambda: client.get("/chat/completions", cast_to=object),
    ):
        with pytest.raises(openai.APIStatusError) as refused:
            ask()
        told: Any = refused.value.body
        assert refused.value.status_code in (404, 405) and told["code"] in ("model_not_found", "not_served"), told


def test_a_text_is_read_whole_or_refused(client: openai.OpenAI, loaded: Checkpoint) -> None:
    """160 tokens of a text are what nano reads; until now the rest was left out without a word."""
    long = "box " * 400
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**asking(long))
    told: Any = refused.value.body
    assert told["code"] == "context_length_exceeded" and told["param"] == "messages"
    assert "messages[0]: " in told["message"] and "at most 160 of a text" in told["message"]
    halves = [{"type": "text", "text": "box " * 120}] * 2  # side by side they are one text to the model
    with pytest.raises(openai.BadRequestError, match=r"\[0\]: 2\d\d tokens.*at most 160 of a text"):
        client.chat.completions.create(**{**asking(), "messages": [{"role": "user", "content": halves}]})
    with pytest.raises(openai.BadRequestError, match="messages: .* this model has room for 4096 in all"):
        turns = [{"role": "user", "content": "box " * 70} for _ in range(40)]
        client.chat.completions.create(**{**asking(max_tokens=1800), "messages": turns})
    with serving(ChatServer(loaded, name="tiny", cut_texts=True)) as (url, _):
        cutting = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        reply = cutting.chat.completions.with_raw_response.create(**asking(long))
        assert reply.headers[CUT_HEADER].endswith("tokens of text, 160 read")
        short = cutting.chat.completions.with_raw_response.create(**asking())
        assert CUT_HEADER not in short.headers
        cutting.close()


def endless(loaded: Checkpoint, **more: Any) -> dict[str, Any]:
    """A request whose reply never ends by itself."""
    return asking(max_tokens=LONG, logit_bias={str(loaded.processor.end_id): -100}, **more)


def sent(url: str, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request was sent and no answer awaited."""
    there = urlsplit(url)
    connection = http.client.HTTPConnection(str(there.hostname), there.port)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    assert connection.sock is not None
    return connection.sock


@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["whole", "streamed"])
def test_who_goes_stops_what_it_asked_for(
    url: str, client: openai.OpenAI, loaded: Checkpoint, more: dict[str, Any]
) -> None:
    """Four clients go, one while its reply is made and three while they wait: the next waits for none of them."""
    began = time.perf_counter()
    client.chat.completions.create(**endless(loaded))
    whole_s = time.perf_counter() - began
    began = time.perf_counter()
    client.chat.completions.create(**asking())
    alone_s = time.perf_counter() - began
    gone = [sent(url, "/v1/chat/completions", endless(loaded, **more)) for _ in range(4)]
    time.sleep(whole_s / 10)
    for one in gone:
        one.close()
    began = time.perf_counter()
    client.chat.completions.create(**asking())
    after_s = time.perf_counter() - began
    assert after_s < alone_s + whole_s / 3, (
        f"alone {alone_s:.2f} s, after four {after_s:.2f} s, each is {whole_s:.2f} s"
    )


def test_who_times_out_or_stops_reading_stops_it_too(url: str, client: openai.OpenAI, loaded: Checkpoint) -> None:
    began = time.perf_counter()
    client.chat.completions.create(**endless(loaded))
    whole_s = time.perf_counter() - began
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=whole_s / 10).chat.completions.create(**endless(loaded))
    with client.chat.completions.create(**endless(loaded, stream=True)) as chunks:
        next(iter(chunks))
    began = time.perf_counter()
    client.chat.completions.create(**asking())
    assert time.perf_counter() - began < whole_s / 2


def test_requests_are_answered_in_their_order(client: openai.OpenAI) -> None:
    ended: list[int] = []

    def ask(number: int) -> None:
        client.chat.completions.create(**asking(max_tokens=100))
        ended.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    for thread in threads:
        thread.join()
    assert ended == [0, 1, 2, 3, 4]


def test_a_learner_that_goes_stops_its_rollout_and_holds_no_pause_up(loaded: Checkpoint) -> None:
    ids = list(range(300, 340))
    body: dict[str, Any] = {
        "token_ids": ids,
        "sampling_params": {"max_tokens": LONG, "temperature": 1.0, "logprobs": 0},
    }
    with serving(RolloutServer(loaded, name="tiny")) as (url, _):
        for one in [sent(url, "/inference/v1/generate", body) for _ in range(4)]:
            time.sleep(0.05)
            one.close()
        learner = VllmClient(url.removesuffix("/v1"))
        try:
            began = time.perf_counter()
            learner.pause(30.0)
            assert time.perf_counter() - began < 2.0
        finally:
            learner.close()
