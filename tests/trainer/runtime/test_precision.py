"""Bfloat16 is asked for by name, taken on a GPU, and never guessed where a processor only emulates it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from trainer.runtime.precision import autocast, in_bf16, native_bf16

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
