"""Bfloat16 where the hardware multiplies it; a processor without such instructions emulates it, ten times slower."""

from __future__ import annotations

from functools import cache

import torch

from trainer.parallel import Ranks


@cache
def native_bf16() -> bool:
    """Whether this machine's processor multiplies bfloat16 natively (AVX-512-BF16, AMX, or ARM's)."""
    return any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def autocast(device: torch.device, bf16: bool | None, group: Ranks) -> torch.autocast:
    """Passes in bfloat16, weights as they are; `bf16` None: on a GPU. A model in parts casts its parts itself."""
    half = device.type != "cpu" if bf16 is None else bf16
    return torch.autocast(device.type, torch.bfloat16, enabled=half and group.world == 1)
