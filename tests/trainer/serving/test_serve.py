"""A merged checkpoint answers through the OpenAI protocol, to the real client, and loads in plain transformers."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from drawn import draw

from dagster_project.cli import main
from generators.policies.chat_endpoint import ChatEndpoint, Sampling, picture
from pipelines.prompts import messages, navigation_text
from trainer.modeling.checkpoint import load_checkpoint
from trainer.modeling.sampler import Sampler
from trainer.serving.limits import ServeLimits
from trainer.serving.serve import ChatServer, serving
from trainer.settings.reading import Reading

pytestmark = [pytest.mark.real_parts, pytest.mark.slow]

RED = draw({"red": (10, 10, 60, 60)})
QUESTION = navigation_text("Click the red box", [])


def content(text: str = QUESTION, *images: bytes) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}, *map(picture, images or (RED,))]}]


@pytest.fixture(scope="module")
def merged(processor: Any, tiny_preset: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TIES of two tiny specialists."""
    from trainer.merging.merge import merge
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    root = tmp_path_factory.mktemp("served")
    for seed, name in enumerate(("base", "one", "two")):
        made = build_model(tiny_preset, processor.tokenizer, seed=seed)
        save_checkpoint(root / name, made, processor, lineage(name, tiny_preset))
    merge("ties", root / "base", [root / "one", root / "two"], root / "unified", density=0.5)
    return root / "unified"


@pytest.fixture(scope="module")
def server(merged: Path) -> Iterator[tuple[ChatServer, str]]:
    limits = ServeLimits(body_bytes=400_000, images=2, image_bytes=100_000, image_pixels=500_000, max_tokens=20, n=4)
    made = ChatServer(load_checkpoint(merged), name="unified", limits=limits)
    with serving(made) as (url, thread):
        yield made, url
    assert not thread.is_alive()


def client(url: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=30)


def test_the_real_client_gets_the_reply_that_the_checkpoint_gives(server: tuple[ChatServer, str], merged: Path) -> None:
    from trainer.modeling.generation import generate

    _, url = server
    loaded = load_checkpoint(merged)
    row = {"messages": messages("navigation", QUESTION), "images": [RED], "answer": ""}
    [expected] = generate(loaded.model, loaded.processor, [row], max_new_tokens=8)
    asked: Any = content()
    reply = client(url).chat.completions.create(
        model="unified", messages=asked, temperature=0, max_tokens=8, logprobs=True
    )
    choice = reply.choices[0]
    assert choice.message.content == expected.text and choice.finish_reason == "length"
    assert reply.usage is not None and reply.usage.completion_tokens == 8
    assert reply.usage.prompt_tokens == len(loaded.processor.prompt(row).ids)
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert [t.logprob for t in choice.logprobs.content] == pytest.approx(expected.logprobs)
    assert [model.id for model in client(url).models.list()] == ["unified"]


def test_a_checkpoint_that_reads_in_parts_answers_for_the_whole_screen(merged: Path) -> None:
    from trainer.reading.read import answers

    def parts() -> Any:
        loaded = load_checkpoint(merged)
        reading = Reading(mode="windows", window=(96, 128), overlap=32)
        loaded.processor.preset = replace(loaded.processor.preset, reading=reading)
        return loaded

    loaded, large = parts(), draw({"red": (10, 10, 60, 60)}, (200, 300))
    row = {"objective": "navigation", "messages": messages("navigation", QUESTION), "images": [large], "answer": ""}
    [expected] = answers(Sampler(loaded.model, loaded.processor), [row], max_new_tokens=8)
    asked: Any = content(QUESTION, large)
    with serving(ChatServer(parts(), name="parts")) as (url, _):
        create = client(url).chat.completions.create
        reply = create(model="parts", messages=asked, temperature=0, max_tokens=8)
        assert reply.choices[0].message.content == expected.text and expected.asked > 4
        assert reply.usage is not None and reply.usage.prompt_tokens > 4 * 12
        stream = create(model="parts", messages=asked, temperature=0, max_tokens=8, stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in stream) == expected.text
        with pytest.raises(openai.BadRequestError, match="reading whole") as refused:
            create(model="parts", messages=asked, n=2, temperature=1, max_tokens=8)
        assert refused.value.code == "read_in_parts"


def test_sampling_follows_the_seed(server: tuple[ChatServer, str]) -> None:
    def texts(seed: int) -> list[str | None]:
        asked: Any = content()
        reply = client(server[1]).chat.completions.create(
            model="unified", messages=asked, temperature=1, max_tokens=6, n=3, seed=seed
        )
        return [choice.message.content for choice in reply.choices]

    assert texts(1) == texts(1) != texts(2) and len(set(texts(1))) > 1


def test_the_project_s_own_policies_and_several_at_once(server: tuple[ChatServer, str]) -> None:
    endpoint = ChatEndpoint(server[1], "unified")
    alone = endpoint.ask(content(), Sampling(max_tokens=6)).text
    found: list[str] = []
    asking = [
        threading.Thread(target=lambda: found.append(endpoint.ask(content(), Sampling(max_tokens=6)).text))
        for _ in range(4)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    endpoint.close()
    assert found == [alone] * 4


def test_what_it_cant_do_is_refused_by_name(server: tuple[ChatServer, str]) -> None:
    _, url = server
    wide = draw({"red": (1, 1, 2, 2)}, (1000, 600))
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (404, "expected the model 'unified', found 'gpt'", {"model": "gpt"}),
        (400, "stream: expected true or false, found 'yes'", {"stream": "yes"}),
        (
            400,
            "stream_options: expected include_usage, beside stream true",
            {"stream_options": {"include_usage": True}},
        ),
        (400, "top_p: expected a number in 0..1, found 1.5", {"top_p": 1.5}),
        (400, "top_k: expected a whole number in -1..1536, found 0.5", {"top_k": 0.5}),
        (400, "repetition_penalty: expected a number in 0.01..10, found 0", {"repetition_penalty": 0}),
        (400, "top_logprobs: expected logprobs true beside it", {"top_logprobs": 2}),
        (400, "logit_bias: expected ids below 1536, found 1536", {"logit_bias": {"1536": 1}}),
        (400, "logit_bias: expected token ids with numbers", {"logit_bias": {"yes": 1}}),
        (400, "stop: expected a text, or up to 16 in a list, found ['']", {"stop": [""]}),
        (400, 'tools: [{"type": "function"}] isn\'t built', {"tools": [{"type": "function"}]}),
        (400, 'response_format: {"type": "json_object"} isn\'t built', {"response_format": {"type": "json_object"}}),
        (400, 'tool_choice: "required" isn\'t built', {"tool_choice": "required"}),
        (400, "best_of: 4 isn't built", {"best_of": 4}),
        (400, "max_tokens: expected a whole number in 1..20, found 21", {"max_tokens": 21}),
        (400, "n: expected a whole number in 1..4", {"n": 0}),
        (400, "temperature: expected a number in 0..2, found 'hot'", {"temperature": "hot"}),
        (400, "expected a list of 1 to 64 turns", {"messages": []}),
        (400, "expected a turn of system, developer, user", {"messages": [{"role": "function", "content": "x"}]}),
        (400, "messages[0].content: expected text or a list of parts", {"messages": [{"role": "user"}]}),
        (400, "expected a user's turn at the end", {"messages": [{"role": "assistant", "content": "x"}]}),
        (
            400,
            "expected parts of type text or image_url, found 'audio'",
            {"messages": [{"role": "user", "content": [{"type": "audio"}]}]},
        ),
        (
            400,
            "nothing is fetched",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]}
                ]
            },
        ),
        (400, "expected a picture that can be read", {"messages": content(QUESTION, b"\x89PNG no picture")}),
        (413, "expected at most 2 pictures", {"messages": content(QUESTION, RED, RED, RED)}),
        (413, "expected at most 500000 pixels, found 1000 x 600", {"messages": content(QUESTION, wide)}),
        (413, "expected a picture of at most 100000 bytes", {"messages": content(QUESTION, b"x" * 120_000)}),
        (413, "expected a body of at most 400000 bytes", {"messages": content("x" * 500_000)}),
    ]
    for status, words, changed in cases:
        with pytest.raises(openai.APIStatusError) as refused:
            client(url).post(
                "/chat/completions", body={"model": "unified", "messages": content(), **changed}, cast_to=object
            )
        assert refused.value.status_code == status, words
        assert words in refused.value.response.json()["error"]["message"], refused.value.response.text


def raw(url: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    there = urlsplit(url)
    connection = http.client.HTTPConnection(str(there.hostname), there.port, timeout=30)
    try:
        connection.request("POST", f"{there.path}/chat/completions", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_odd_bodies_and_foreign_hosts(server: tuple[ChatServer, str]) -> None:
    _, url = server
    assert raw(url, b"{not json")[0] == raw(url, b"[1]")[0] == 400
    assert raw(url, b"[" * 100_000)[0] == 400
    status, told = raw(url, b"{}", Host="evil.example")
    assert status == 403 and told["error"]["code"] == "foreign_host"
    lone = json.dumps({"model": "unified", "max_tokens": 1, "messages": [{"role": "user", "content": "\ud800 x"}]})
    assert raw(url, lone.encode())[0] == 200


def test_a_key_is_asked_for(server: tuple[ChatServer, str], merged: Path) -> None:
    keyed = ChatServer(load_checkpoint(merged), name="unified", key="secret")
    asked: Any = content()
    with serving(keyed) as (url, _):
        with pytest.raises(openai.AuthenticationError):
            client(url, "wrong").chat.completions.create(model="unified", messages=asked, max_tokens=1)
        assert client(url, "secret").models.list().data[0].id == "unified"
    with pytest.raises(ValueError, match=r"0\.0\.0\.0: whoever reaches this machine"), serving(keyed, "0.0.0.0"):
        pass


def test_the_merged_checkpoint_is_plain_transformers(merged: Path) -> None:
    """Next-token logits of plain `from_pretrained` on the same inputs, and its own tokenizer's text."""
    import torch
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

    from trainer.modeling.generation import generate

    loaded = load_checkpoint(merged)
    row = {"messages": messages("navigation", QUESTION), "images": [RED], "answer": ""}
    [reply] = generate(loaded.model, loaded.processor, [row], max_new_tokens=1, temperature=1.0)
    plain = Qwen3VLForConditionalGeneration.from_pretrained(merged).eval()
    with torch.no_grad():
        logits = plain(**loaded.processor.prompt_batch([row]).model_inputs()).logits[0, -1]
    allowed = torch.ones(len(logits), dtype=torch.bool)
    allowed[list(loaded.processor.never)] = False
    logprobs = logits.masked_fill(~allowed, float("-inf")).log_softmax(-1)
    assert logprobs[reply.token_ids[0]].item() == pytest.approx(reply.logprobs[0], abs=1e-4)
    assert AutoTokenizer.from_pretrained(str(merged)).decode(reply.token_ids, skip_special_tokens=True) == reply.text


SERVE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been started in the background
from dagster_project.cli import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


def test_the_command_serves_until_it_is_stopped(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", SERVE, str(merged), "--port", "0", "--name", "merged", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told.startswith("merged at http://127.0.0.1:"), told
            asked: Any = content()
            reply = client(told.split()[2]).chat.completions.create(model="merged", messages=asked, max_tokens=2)
            assert reply.choices[0].message.role == "assistant"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()
    assert main(["serve", str(merged.parent / "none")]) == 2
    assert "expected a checkpoint folder" in capsys.readouterr().err
