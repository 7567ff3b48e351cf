"""Bfloat16 where the hardware multiplies it; a processor without such instructions emulates it, ten times slower."""

from functools import cache

import torch


@cache
def native_bf16() -> bool:
    """Whether this machine's processor multiplies bfloat16 natively, as those with AVX-512-BF16 or AMX do."""
    return any(has for name, has in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def in_bf16(asked: bool | None, device: str) -> bool:
    """Whether passes compute in bfloat16 on a device of this type; None: on a GPU."""
    return device != "cpu" if asked is None else asked


def autocast(device: torch.device, bf16: bool | None, ranks: int) -> torch.autocast:
    """Passes in bfloat16, weights as they are. Among several ranks a model lies in parts, which cast themselves."""
    # FSDP casts its parts by a policy of its own
    return torch.autocast(device.type, torch.bfloat16, enabled=in_bf16(bf16, device.type) and ranks == 1)


def sampling_autocast(device: torch.device) -> torch.autocast:
    """Replies are drawn in bfloat16 on a GPU, as servers draw them; on a CPU in the type of the weights."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu")
