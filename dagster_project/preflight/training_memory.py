"""Is there room to train a published preset here, on the device and in the ranks that the graph gives a stage?

By arithmetic (docs/train-at-8b.md): weights, gradients and Adam's two moments in float32 are 16 bytes a parameter,
which FSDP2 divides among the ranks. RL with β above 0 adds a reference of 4 bytes, divided too. The first of several
ranks holds whole copies besides, of 4 bytes a parameter: of the model, and of RL's reference. They lie in the machine's
memory, but a policy that makes RL's replies itself lies on the first GPU. Activations come on top.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.store.free_space import sized
from trainer.presets import PUBLISHED
from trainer.settings.stages import ONLINE, SPECIALISTS, STAGES, settings_of
from trainer.settings.tree import TrainerSettings, ranks_of
from trainer.stages.settings import stage_settings

STATE, WEIGHTS = 16, 4
"""Bytes a parameter: of what is trained, and of a copy that isn't."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""What a container may have of the machine's memory ("max": all)."""


@dataclass(frozen=True)
class Training:
    """How a stage trains: `reference`, whether RL is compared with one; `samples`, whether the first rank's policy
    makes the replies of RL on its own GPU."""

    parameters: int
    device: str
    ranks: int = 1
    reference: bool = False
    samples: bool = False

    @property
    def divided(self) -> int:
        """Bytes that the ranks share equally."""
        return self.parameters * (STATE + WEIGHTS * self.reference)

    @property
    def on_first_gpu(self) -> int:
        """Bytes on the first GPU beside its share."""
        return self.parameters * WEIGHTS if self.device != "cpu" and self.ranks > 1 and self.samples else 0

    @property
    def on_gpus(self) -> list[int]:
        """Bytes on each rank's GPU; none on a CPU."""
        if self.device == "cpu":
            return []
        share = -(-self.divided // self.ranks)
        return [share + self.on_first_gpu, *[share] * (self.ranks - 1)]

    @property
    def in_memory(self) -> int:
        """Bytes of the machine's memory."""
        copies = (1 + self.reference) * self.parameters * WEIGHTS if self.ranks > 1 else 0
        return (self.divided if self.device == "cpu" else 0) + copies - self.on_first_gpu


def missing(key: str, preset: str, config: Mapping[str, object]) -> str:
    """What a stage of the trainer lacks here, and what to set: GPUs, or memory for a published preset; "" if nothing.
    `key` is the asset's, `config` the trainer's configuration. Raises `ValueError` for settings that contradict."""

    name = key.removeprefix("checkpoints/")
    settings = stage_settings(name, config, preset)
    device, ranks = settings.device, ranks_of(name, settings)
    if "device" not in settings_of(name):
        return ""
    on_gpu = device.partition(":")[0] == "cuda"
    gpus = _gpus() if on_gpu else []
    # GPUs first: without them their memory needn't be asked.
    if on_gpu and (lacking := _without_gpus(key, device, ranks, len(gpus))):
        return lacking
    if name not in STAGES or not STAGES[name].shared or preset not in PUBLISHED:
        return ""
    training = Training(parameters(PUBLISHED[preset]), device, ranks, *_of_rl(name, settings))
    what = f"{key}: preset {preset} with device {device} and ranks {ranks} takes"
    first = _number(device)
    # In pairs, as the first GPU holds more than the others.
    for number, (needed, found) in enumerate(zip(training.on_gpus, gpus[first:], strict=False), first):
        if needed > found:
            return f"{what} {sized(needed)} on GPU {number}, found {sized(found)}; {_remedy(training, min(gpus))}"
    if training.in_memory <= (found := _memory()):
        return ""
    remedy = "set device to cuda and ranks to a number of GPUs, or" if device == "cpu" else "give it more memory, or"
    return (
        f"{what} {sized(training.in_memory)} of memory, found {sized(found)}; {remedy} take a smaller preset "
        "($VESPER_TRAINER)"
    )


def _without_gpus(key: str, device: str, ranks: int, visible: int) -> str:
    needed = max(ranks, _number(device) + 1)
    if needed <= visible:
        return ""
    fewer = f"set ranks to {visible} or less" if visible and ranks > 1 else "set another device"
    return (
        f"{key}: device {device} and ranks {ranks} need {needed} visible GPU{'s' * (needed > 1)}, found {visible}; "
        f"{fewer if visible else 'set device to cpu'} ($VESPER_TRAINER), or let the code location see more "
        "($CUDA_VISIBLE_DEVICES, code.gpus of the chart)"
    )


def _number(device: str) -> int:
    """Of the first GPU: 1 of "cuda:1". Raises `ValueError`."""
    _, _, number = device.partition(":")
    if number and not number.isdecimal():
        raise ValueError(f"device: expected cpu, cuda or cuda:<number>, found {device!r:.40}")
    return int(number or 0)


def _remedy(training: Training, room: int) -> str:
    """How many GPUs of `room` bytes would do."""
    left = room - training.parameters * WEIGHTS * training.samples
    if left <= 0:
        return "take a smaller preset ($VESPER_TRAINER), or larger GPUs"
    # At least two: on one GPU nothing can be shared.
    enough = max(2, -(-training.divided // left))
    return f"set device to cuda and ranks to {enough} or more, or take a smaller preset ($VESPER_TRAINER)"


def _of_rl(name: str, settings: TrainerSettings) -> tuple[bool, bool]:
    """(whether a stage compares with a reference, whether its first rank makes the replies)."""

    if name in SPECIALISTS:
        return settings.offline.grpo.beta > 0, settings.offline.rollout_engine != "vllm"
    if name in ONLINE:
        return settings.online.grpo.beta > 0, settings.online.rollout_engine != "vllm"
    return False, False


def parameters(sizes: Mapping[str, Any]) -> int:
    """About how many parameters a published preset has (`trainer.presets.PUBLISHED`): embeddings, attention and
    feed-forward of text (all experts) and vision; norms, biases and patches are left out."""
    text, vision = sizes["text"], sizes["vision"]
    # All published presets have heads of 128.
    width, head, heads, shared = text["hidden_size"], 128, text["num_attention_heads"], text["num_key_value_heads"]
    attention = width * head * (heads + 2 * shared) + heads * head * width
    experts = text.get("num_experts", 1)
    feed = 3 * width * text.get("moe_intermediate_size", text["intermediate_size"]) * experts
    words = 151_936 * width * (1 if sizes["tied"] else 2)
    seen = vision["hidden_size"] * (4 * vision["hidden_size"] + 2 * vision["intermediate_size"])
    return int(words + text["num_hidden_layers"] * (attention + feed) + vision["depth"] * seen)


def _gpus() -> list[int]:
    """Bytes of each visible GPU."""
    import torch

    return [torch.cuda.get_device_properties(number).total_memory for number in range(torch.cuda.device_count())]


def _memory() -> int:
    """Bytes of memory that this process may have."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else ""
    # In a container the machine's memory isn't ours.
    return min(machine, int(limit)) if limit.isdecimal() else machine
