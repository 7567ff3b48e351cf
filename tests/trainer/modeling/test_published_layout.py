"""A mixture of experts goes out as it came in: names, shapes and values of a published folder."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_published import KINDS, write_tiny

from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint
from trainer.modeling.published import load_base
from trainer.modeling.published_layout import swapped
from trainer.presets import preset
from trainer.runtime.parallel import Ranks
from trainer.serving.requests import RequestRefused
from trainer.serving.served_weights import ServedWeights
from trainer.vllm import weight_transfer
from trainer.vllm.client import VllmClient
from trainer.vllm.weight_transfer import WeightTransfer
from trainer.vllm.weight_update import ReloadWeights

WIDTHS = {"unequal": 24, "gate and up as wide as the hidden states": 32, "down as wide": 64}
"""Of an expert; hidden states are 64 wide."""


def base(folder: Path) -> tuple[Any, Any]:
    return load_base(replace(preset(KINDS["moe"]), max_pixels=96 * 128, min_pixels=32 * 32), folder)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_what_is_saved_equals_the_published_folder(width: int, tmp_path: Path) -> None:
    published = write_tiny(tmp_path / "hub", "moe", width)
    model, processor = base(published)
    layer = model.model.language_model.layers[0].mlp.experts
    assert layer.gate_up_proj.shape == (4, 2 * width, 64) and layer.down_proj.shape == (4, 64, width)
    save_checkpoint(tmp_path / "out", model, processor, lineage("base", processor.preset))
    again = load_checkpoint(tmp_path / "out")
    save_checkpoint(tmp_path / "twice", again.model, again.processor, again.lineage)
    before = weights(published)
    for name in ("out", "twice"):
        after = weights(tmp_path / name)
        assert set(after) == set(before)
        assert all(torch.equal(after[one], before[one]) for one in before)
    assert before["model.language_model.layers.0.mlp.experts.gate_up_proj"].shape == (4, 64, 2 * width)


def test_servers_get_the_published_layout_by_folder_and_by_broadcast(tmp_path: Path) -> None:
    published = write_tiny(tmp_path / "hub", "moe")
    model, _ = base(published)
    before = weights(published)
    folders = ReloadWeights(tmp_path / "updates")
    folders.keep("u1", model, model.state_dict())
    reloaded = weights(tmp_path / "updates" / "u1")
    assert all(torch.equal(reloaded[name], one) for name, one in before.items())
    broadcast = WeightTransfer("127.0.0.1")
    broadcast.keep("u1", model, model.state_dict())
    sent = dict(broadcast._kept["u1"])
    assert all(torch.equal(sent[name], one) for name, one in before.items())


def test_of_several_ranks_on_gpus_weights_are_broadcast_from_the_first_one_s_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole policy lies in the machine's memory there, and a group over a CPU is none that vLLM joins."""
    model, _ = base(write_tiny(tmp_path / "hub", "moe"))
    joined: list[tuple[str, str]] = []
    sent: list[str] = []

    def joining(kind: str) -> Any:
        return lambda client, size, address, device, timeout_s: (joined.append((kind, str(device))), (None, None))[1]

    def broadcast(group: object, tensors: Iterable[torch.Tensor], *more: object) -> None:
        with monkeypatch.context() as patched:  # no GPU is here to be copied to
            patched.setattr(torch.Tensor, "to", lambda one, device, dtype: (sent.append(str(device)), one)[1])
            list(tensors)

    answers = {"/get_world_size": {"world_size": 1}, "/weight_info": {"weight_version": "u1"}}
    monkeypatch.setattr(VllmClient, "call", lambda client, path, *given, **more: answers.get(path, {}))
    monkeypatch.setattr(weight_transfer, "_broadcast", broadcast)
    for kind in ("nccl", "gloo"):
        monkeypatch.setattr(weight_transfer, f"_{kind}", joining(kind))
    for device, kind in (("cuda:3", "nccl"), ("cpu", "gloo")):
        monkeypatch.setattr(weight_transfer, "ranks", lambda device=device: Ranks(0, 2, device))
        transfer = WeightTransfer("127.0.0.1")
        transfer.keep("u1", model, model.state_dict())
        transfer.give(VllmClient("http://127.0.0.1:1"), "u1", 5.0)
        assert joined.pop() == (kind, device) and sent == [device] * len(transfer._kept["u1"])
        sent.clear()


def test_updates_hold_half_the_bytes_where_servers_compute_in_bf16(tmp_path: Path) -> None:
    published = write_tiny(tmp_path / "hub", "moe")
    model, _ = base(published)
    before = weights(published)
    ReloadWeights(tmp_path / "updates", torch.bfloat16).keep("u1", model, model.state_dict())
    reloaded = weights(tmp_path / "updates" / "u1")
    assert set(reloaded) == set(before)
    assert all(torch.equal(reloaded[name], one.bfloat16()) for name, one in before.items())


def test_a_server_of_ours_takes_the_published_layout_and_no_other(tmp_path: Path) -> None:
    published = write_tiny(tmp_path / "hub", "moe")
    model, _ = base(published)
    expected = {name: one.clone() for name, one in model.state_dict().items()}
    with torch.no_grad():
        for one in model.parameters():
            one.zero_()
    served = ServedWeights(model, threading.Lock(), tmp_path, weight_transfer=False)
    served.collective_rpc({"method": "reload_weights", "kwargs": {"weights_path": str(published)}})
    assert all(torch.equal(one, expected[name]) for name, one in model.state_dict().items())
    with pytest.raises(RequestRefused, match="another shape"):
        served._check_tensors({name: one.shape for name, one in expected.items()})


def test_other_models_stay_as_they_are() -> None:
    dense: Any = SimpleNamespace(config=SimpleNamespace(model_type="qwen3_vl"))
    given = {"model.mlp.experts.down_proj": torch.zeros(2, 3, 4)}
    assert swapped(dense, given)["model.mlp.experts.down_proj"].shape == (2, 3, 4)
