"""A tiny vision-language model with random weights behind the protocol: what it says is garbage, and none is a score.

Once served by a small real HTTP server here that samples from the model, once by `transformers serve` itself, where
the packages that it needs for a Qwen3-VL are installed.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from model_asking import answers_kept
from ports import free_port

from quality.judges.openai_judge import OpenAIJudge
from quality.model_client.client import Ceiling, Garbage, Retry, read_answer
from quality.model_client.errors import ModelError
from schemas.actions import Click, Wait

# fastapi: the server itself. torchvision: AutoProcessor of every Qwen-VL loads a video processor, which needs it.
# accelerate: it loads the model by device.
MISSING = [name for name in ("fastapi", "uvicorn", "pydantic", "torchvision", "accelerate") if find_spec(name) is None]
ONCE = Retry(attempts=2, base_s=0.01, cap_s=0.02, timeout_s=60, deadline_s=100, breaker_limit=4)


@pytest.fixture(scope="module")
def tiny() -> tuple[Any, Any]:
    """(model, processor) of the true Qwen3-VL architecture, random weights."""
    import torch

    from trainer.modeling.model import build_model
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor, preset
    from trainer.settings.model_shape import Shape

    torch.set_num_threads(1)
    shape = Shape(
        vocab_size=1536,
        hidden=64,
        layers=2,
        heads=2,
        kv_heads=2,
        intermediate=128,
        vision_hidden=64,
        vision_depth=2,
        vision_heads=2,
        vision_intermediate=96,
        deepstack=(0,),
        pixels=96 * 128,
    )
    sizes = replace(preset("nano"), name="tiny", shape=shape, max_pixels=96 * 128)
    tokenizer = train_tokenizer(['{"alignment": 8, "confidence": 7, "reason": "it fits"}'], shape.vocab_size)
    return build_model(sizes, tokenizer, seed=1), Processor(tokenizer, image_processor(sizes), sizes)


class Served:
    """An HTTP server whose answers are sampled from the model; it ignores the schema, as `transformers serve` does."""

    def __init__(self, model: Any, processor: Any) -> None:
        import torch

        self.said: list[tuple[str, str]] = []  # (text, finish reason)
        self.prompts: list[list[int]] = []
        self.completion_tokens = 0
        served, lock = self, threading.Lock()
        noise = torch.Generator().manual_seed(0)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from trainer.modeling.generation import generate

                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                row = row_of(body)
                with lock:
                    prompt = processor.prompt(row)
                    limit = min(body["max_tokens"], 24)
                    [reply] = generate(model, processor, [row], temperature=1.0, max_new_tokens=limit, generator=noise)
                    finish = "stop" if reply.finished else "length"
                    served.prompts.append(prompt.ids)
                    served.said.append((reply.text, finish))
                    served.completion_tokens += len(reply.token_ids)
                message = {"role": "assistant", "content": reply.text}
                plain = {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [{"index": 0, "finish_reason": finish, "message": message}],
                    "usage": {"prompt_tokens": len(prompt.ids), "completion_tokens": len(reply.token_ids)},
                }
                data = json.dumps(plain).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


def row_of(body: dict[str, Any]) -> dict[str, Any]:
    """A request's messages in the trainer's form: parts of text and pictures."""
    turns, images = [], []
    for message in body["messages"]:
        content = message["content"]
        parts = []
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "image_url":
                images.append(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
                parts.append({"type": "image"})
            else:
                parts.append(part)
        turns.append({"role": message["role"], "content": parts})
    return {"sample_id": "x", "messages": turns, "images": images}


@pytest.fixture
def served(tiny: tuple[Any, Any]) -> Iterator[Served]:
    made = Served(*tiny)
    yield made
    made.server.shutdown()
    made.server.server_close()


def episode(world: Any, buttons: Any, **more: Any) -> Any:
    page, after = world.page(buttons), world.page(buttons, note="x")
    return world.episode((Click((750, 195)), page, "Tap Search"), (Wait(), after), **more)


def test_random_tokens_are_an_error_never_a_score(served, tmp_path, world, buttons):
    judge = OpenAIJudge(served.url, "tiny", tmp_path, retry=ONCE, concurrency=2)
    with pytest.raises(ModelError, match="invalid answer|no valid answers") as error:
        judge.judge([episode(world, buttons, instruction=f"goal {k}") for k in range(4)])
    assert "\n" not in str(error.value)
    assert served.said and {finish for _, finish in served.said} <= {"stop", "length"}
    assert answers_kept(tmp_path) == 0
    spent = judge.client.spent()
    assert spent.answers == 0 and spent.garbage == len(served.said) == judge.client.requests_sent
    assert spent.usage.prompt_tokens == sum(len(ids) for ids in served.prompts)  # garbage is billed, too
    assert spent.usage.completion_tokens == served.completion_tokens
    judge.client.close()


def test_the_model_really_saw_text_and_pictures(served, tiny, world, buttons):
    judge = OpenAIJudge(served.url, "tiny", None, retry=replace(ONCE, attempts=1), concurrency=1)
    with pytest.raises(ModelError):
        judge.judge([episode(world, buttons)])
    # the last prompt is the control question, which shows nothing
    places = [ids.count(tiny[1].image_id) for ids in served.prompts]
    assert min(places[:-1]) > 0 == places[-1] and len(places) == 4 and len({text for text, _ in served.said}) > 1
    for text, _ in served.said:
        with pytest.raises(Garbage):
            read_answer(text, {"alignment": int, "confidence": int, "reason": str})
    judge.client.close()


def test_under_a_ceiling_garbage_leaves_items_pending(served, tmp_path, world, buttons):
    ceiling = Ceiling(requests=1, night="2026-01-01")
    judge = OpenAIJudge(served.url, "tiny", tmp_path, retry=ONCE, concurrency=1, ceiling=ceiling)
    verdicts = judge.judge([episode(world, buttons)])
    assert [(v.pending, v.score) for v in verdicts] == [(True, None)] * 3 and len(served.said) == 1
    judge.client.close()


@pytest.mark.skipif(bool(MISSING), reason=f"`transformers serve` of a Qwen3-VL needs {', '.join(MISSING)}")
def test_transformers_serve_speaks_the_protocol_and_its_garbage_is_no_score(tiny, tmp_path, world, buttons):
    model, processor = tiny
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    processor.images.save_pretrained(folder)
    port = free_port()
    command = [
        str(Path(sys.executable).parent / "transformers"),
        "serve",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        judge = OpenAIJudge(
            f"http://127.0.0.1:{port}/v1", str(folder), tmp_path / "cache", retry=ONCE, concurrency=1, max_tokens=16
        )
        with pytest.raises(ModelError, match="invalid answer|no valid answers"):
            judge.judge([episode(world, buttons)])
        spent = judge.client.spent()
        assert spent.answers == 0 and spent.garbage > 0 and spent.usage.completion_tokens > 0
        judge.client.close()
    finally:
        process.kill()
        process.wait(10)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        assert process.poll() is None, f"`transformers serve` ended with {process.returncode}"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"`transformers serve` didn't answer at {url}")
