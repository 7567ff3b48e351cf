"""Bfloat16 is asked for by name, taken on a GPU, and never guessed where a processor only emulates it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from trainer.modeling import generation
from trainer.runtime.precision import autocast, in_bf16, native_bf16, sampling_autocast

CPU = torch.device("cpu")


@pytest.fixture
def capabilities(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What the processor says of itself."""
    told: dict[str, object] = {"architecture": "x86_64", "avx2": True, "avx512_bf16": False, "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: told)
    native_bf16.cache_clear()
    yield told
    native_bf16.cache_clear()


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16"])
def test_a_processor_has_it_by_either_instruction(capabilities: dict[str, object], name: str) -> None:
    assert not native_bf16()
    native_bf16.cache_clear()
    capabilities[name] = True
    assert native_bf16()


def test_this_processor_is_asked() -> None:
    native_bf16.cache_clear()
    assert native_bf16() == any(torch.cpu.get_capabilities().get(name) for name in ("avx512_bf16", "amx_bf16"))


@pytest.mark.parametrize(
    ("bf16", "ranks", "found"),
    [(None, 1, torch.float32), (False, 1, torch.float32), (True, 1, torch.bfloat16), (True, 2, torch.float32)],
)
def test_passes_are_rounded_only_where_asked_for(bf16: bool | None, ranks: int, found: torch.dtype) -> None:
    with autocast(CPU, bf16, ranks):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == found


def test_a_gpu_takes_it_unless_told_otherwise() -> None:
    assert in_bf16(None, "cuda") and not in_bf16(None, "cpu")
    assert not in_bf16(False, "cuda") and in_bf16(True, "cpu")


def test_replies_are_drawn_in_it_on_a_gpu_as_servers_draw_them(
    model: Any, processor: Any, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(torch, "autocast", lambda kind, dtype, enabled: (kind, dtype, enabled))
        assert sampling_autocast(torch.device("cuda", 1)) == ("cuda", torch.bfloat16, True)
        assert sampling_autocast(CPU) == ("cpu", torch.bfloat16, False)
    asked: list[str] = []

    def inside(device: torch.device) -> torch.autocast:
        asked.append(device.type)
        return torch.autocast("cpu", torch.bfloat16)

    monkeypatch.setattr(generation, "sampling_autocast", inside)
    widths = set[torch.dtype]()
    model.model.language_model.layers[0].mlp.gate_proj.register_forward_hook(
        lambda module, given, made: widths.add(made.dtype)
    )
    generation.generate(model, processor, rows[:1], max_new_tokens=2)
    assert asked == ["cpu"] and widths == {torch.bfloat16}, "all passes of a reply are inside"
