"""What a rollout server refuses, and that it says what was wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import draw
from safetensors.torch import save_file

from generators.policies.chat_endpoint import picture
from trainer.modeling import sampling_memory
from trainer.modeling.checkpoint import Checkpoint
from trainer.serving.limits import ServeLimits
from trainer.serving.requests import RequestRefused
from trainer.serving.rollout_server import RolloutServer
from trainer.serving.serve import serving
from trainer.serving.turns import Caller
from trainer.vllm.client import ServerError, VllmClient

pytestmark = pytest.mark.real_parts

LIMITS = ServeLimits(max_tokens=20, images=2, text_chars=200)
IMAGE = {"type": "image_url", **picture(draw({"red": (10, 10, 60, 60)}))["image_url"]}


@pytest.fixture
def server(model: Any, processor: Any, tmp_path: Path) -> RolloutServer:
    return RolloutServer(
        Checkpoint(model, processor, {"stage": "tiny"}),
        name="tiny",
        weights_root=tmp_path / "root",
        weight_transfer=True,
        limits=LIMITS,
    )


@pytest.fixture
def client(server: RolloutServer) -> Iterator[VllmClient]:
    with serving(server) as (url, _):
        made = VllmClient(url)
        yield made
        made.close()


def asking(**changes: Any) -> dict[str, Any]:
    return {"token_ids": [300, 301], "sampling_params": {"max_tokens": 3, "logprobs": 0}, **changes}


def test_what_it_cant_do_is_refused_by_name(server: RolloutServer) -> None:
    pad = server._checkpoint.processor.image_id
    cases: list[tuple[str, dict[str, Any]]] = [
        ("expected the model 'tiny', found 'gpt'", {"model": "gpt"}),
        ("token_ids: expected a list", {"token_ids": "hello"}),
        ("token_ids: expected a list", {"token_ids": []}),
        ("ids below 1536, found 9999", {"token_ids": [9999]}),
        ("ids below 1536, found True", {"token_ids": [True]}),
        ("expected 1 pictures, one for each image token, found 0", {"token_ids": [pad]}),
        ("expected 0 pictures", {"content_parts": [IMAGE]}),
        ("at most 2 pictures", {"token_ids": [pad] * 3, "content_parts": [IMAGE] * 3}),
        ("expected image_url parts", {"token_ids": [pad], "content_parts": [{"type": "audio_url"}]}),
        ("nothing is fetched", {"token_ids": [pad], "content_parts": [{"type": "image_url", "url": "http://x/y.png"}]}),
        ("sampling_params: expected an object", {"sampling_params": []}),
        ("top_p: 0.5 isn't built", {"sampling_params": {"top_p": 0.5}}),
        ("structured_outputs: 1 isn't built", {"sampling_params": {"structured_outputs": 1}}),
        ("max_tokens: expected a whole number in 1..20", {"sampling_params": {"max_tokens": 21}}),
        ("logit_bias: expected -100", {"sampling_params": {"logit_bias": {"300": -100}}}),
        ("logit_bias: expected -100", {"sampling_params": {"logit_bias": {str(pad): [1]}}}),
        ("stop_token_ids: expected", {"sampling_params": {"stop_token_ids": [300]}}),
    ]
    for words, changed in cases:
        with pytest.raises(RequestRefused) as refused:
            server.generate(asking(**changed), Caller())
        assert words in str(refused.value), refused.value
    told = server.generate(asking(token_ids=[300, pad, 301], content_parts=[IMAGE]), Caller())
    assert told["prompt_token_ids"].count(pad) > 1 and len(told["choices"][0]["token_ids"]) == 3


def test_weights_come_from_below_its_folder_whole_or_not_at_all(server: RolloutServer, tmp_path: Path) -> None:
    own = server._checkpoint.model.state_dict()
    before = {name: tensor.clone() for name, tensor in own.items()}
    folders = {name: tmp_path / "root" / name for name in ("part", "odd", "broken")} | {"outside": tmp_path / "away"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    some = {name: torch.zeros_like(tensor) for name, tensor in own.items()}
    save_file(some, folders["outside"] / "model.safetensors")
    save_file(dict(list(some.items())[:3]), folders["part"] / "model.safetensors")
    save_file({**some, next(iter(some)): torch.zeros(1)}, folders["odd"] / "model.safetensors")
    (folders["broken"] / "model.safetensors").write_bytes(b"\xff" * 40)
    (tmp_path / "root" / "link").symlink_to(folders["outside"])
    for name in ("part", "odd", "broken", "outside", "link", "../away", "none"):
        path = str(folders.get(name, tmp_path / "root" / name))
        with pytest.raises(RequestRefused, match="weights"):
            server.collective_rpc({"method": "reload_weights", "kwargs": {"weights_path": path}})
    for body in ({"method": "exec"}, {"method": "reload_weights"}, {"method": "reload_weights", "kwargs": {"a": 1}}):
        with pytest.raises(RequestRefused):
            server.collective_rpc(body)
    assert all(torch.equal(tensor, before[name]) for name, tensor in own.items())
    with pytest.raises(RequestRefused, match="paused and has joined"):
        server.weights.start_weight_update(paused=True)
    with pytest.raises(RequestRefused, match="missing, unknown or of another shape"):
        server.weights.update_weights({"update_info": {"names": ["a"], "dtype_names": ["float32"], "shapes": [[1]]}})
    for info in (None, {"nccl_unique_id_b64": "x"}, {"master_address": "127.0.0.1", "master_port": "8000"}):
        with pytest.raises(RequestRefused, match="init_info"):
            server.weights.init_weight_transfer_engine({"init_info": info})


def test_a_paused_server_takes_no_requests_until_it_is_resumed(client: VllmClient, server: RolloutServer) -> None:
    client.pause(20.0)
    with pytest.raises(ServerError, match="HTTP 503") as paused:
        client.generate(asking(), 20.0)
    assert not paused.value.refused
    client.resume()
    client.set_weight_version("v1")
    assert client.weight_version() == "v1" and client.world_size() == 1
    told = client.generate(asking(), 20.0)
    assert told["choices"][0]["weight_versions"] == [{"version": "v1", "start": 0, "end": 3}]
    with pytest.raises(ServerError, match="HTTP 400") as refused:
        client.call("/pause", params={"mode": "abort"}, timeout_s=20.0)
    assert refused.value.refused
    with pytest.raises(ServerError, match="HTTP 404"):
        client.call("/sleep", timeout_s=20.0)


def test_it_answers_where_memory_bounds_the_replies(
    client: VllmClient, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the lengths of prompts are asked for; these have no messages."""
    body = asking(sampling_params={"max_tokens": 3, "temperature": 0, "logprobs": 0})
    [expected] = client.generate(body, 30)["choices"]
    monkeypatch.setattr(sampling_memory, "_on_gpu", lambda device: True)
    monkeypatch.setattr(sampling_memory, "_free", lambda device: 0)
    assert client.generate(body, 30)["choices"] == [expected]


def test_a_key_guards_the_weights_too(model: Any, processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = RolloutServer(Checkpoint(model, processor, {"stage": "tiny"}), name="tiny", key="secret")
    with serving(keyed) as (url, _):
        for key, good in (("wrong", False), ("secret", True)):
            monkeypatch.setenv("VLLM_API_KEY", key)
            client = VllmClient(url)
            try:
                if good:
                    client.pause(20.0)
                else:
                    with pytest.raises(ServerError, match="HTTP 401"):
                        client.pause(20.0)
            finally:
                client.close()
