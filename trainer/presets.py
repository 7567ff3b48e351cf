"""What is trained: the nano preset (from scratch, on a laptop) and the published Qwen3-VL sizes (by name).

Every preset is the true Qwen3-VL architecture. `nano` is small enough for two cores; the larger ones are
configuration: their weights come from `from_pretrained`, their tokenizer and image processor from the same place.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from pipelines.prompts.history import HISTORY_FORMS, HISTORY_STEPS, PROMPT_VERSIONS, HistoryForm, PromptVersion
from schemas.action_types import ACTION_SPACE, ActionSpace, check_space
from trainer.settings.model_shape import ActionCodec, Shape
from trainer.settings.reading import Reading

NANO_BASE = Path(__file__).parent / "weights" / "nano_base"
"""A nano model that can see, as published weights are for other presets (`python -m trainer.proving.nano_base` builds
it)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A model to train: by `shape` (from scratch) or by `source` (a name or path for `from_pretrained`)."""

    name: str
    architecture: str = "Qwen3VLForConditionalGeneration"
    source: str = ""
    shape: Shape | None = None
    image_mean: float = 1.0
    """White maps to 0 at 1.0, which keeps the positional signal of blank pages."""
    image_std: float = 0.5
    max_prompt_tokens: int = 160
    """Longer prompt texts lose their middle (head and tail are kept)."""
    max_answer_tokens: int = 112
    """Room for a thought, an action and a conclusion; a longer answer is cut and its reply can't be whole."""
    max_pixels: int = 160 * 224
    """Larger pictures are made smaller, with their aspect kept."""
    min_pixels: int = 0
    """Smaller pictures of a published model are enlarged to it (a shape has `enlarged_to`)."""
    history: HistoryForm = "action"
    """The form of the histories that the checkpoint was trained with: who plays it writes the same."""
    history_steps: int = HISTORY_STEPS
    """How many steps those histories show."""
    prompt_version: PromptVersion = PROMPT_VERSIONS[0]
    """In whose words the prompts around those histories were."""
    thinking: bool = False
    """Whether most of the prompts with those histories, or those of its online RL, asked for thoughts: who plays it
    asks for them."""
    reading: Reading = Reading()
    """How it was trained to look at screens, and looks at them unless it is asked to look otherwise."""
    action_space: ActionSpace = ACTION_SPACE
    """Which actions it was taught: its replies are read as those of that space."""
    action_codec: ActionCodec = "text"
    """How the actions of its replies are written in tokens (`trainer.modeling.codecs`)."""

    def __post_init__(self) -> None:
        if bool(self.source) == (self.shape is not None):
            raise ValueError(f"preset {self.name}: expected exactly one of source and shape")
        if self.source and not 0 < self.min_pixels <= self.max_pixels:
            raise ValueError(
                f"preset {self.name}: expected 0 < min_pixels <= max_pixels, found {self.min_pixels} and "
                f"{self.max_pixels}"
            )
        check_space(self.action_space)
        chosen = {"action_codec": get_args(ActionCodec), "history": HISTORY_FORMS, "prompt_version": PROMPT_VERSIONS}
        for name, known in chosen.items():
            if (found := getattr(self, name)) not in known:
                raise ValueError(f"preset {self.name}: expected {name} {' or '.join(known)}, found {found!r:.40}")
        window = self.reading.window
        if self.reading.mode == "windows" and window[0] * window[1] > self.max_pixels:
            raise ValueError(
                f"preset {self.name}: reading.window: expected at most {self.max_pixels} pixels, which is all that a "
                f"picture may have, found {window[0]} x {window[1]} (reading.mode whole looks once)"
            )

    def plain(self) -> dict[str, Any]:
        """As JSON-able values, for config hashes and lineage. How it is played stands there only where training
        changed it, so that what never thought keeps its bytes."""
        found = {**asdict(self), "shape": self.shape.plain() if self.shape else None, "reading": self.reading.plain()}
        usual = {
            "history": "action",
            "history_steps": HISTORY_STEPS,
            "prompt_version": PROMPT_VERSIONS[0],
            "thinking": False,
            "reading": Reading().plain(),
            "action_space": ACTION_SPACE,
            "action_codec": "text",
        }
        # left out, so that the preset of a checkpoint from before these settings has the bytes it had
        for name, plain in usual.items():
            if found[name] == plain:
                del found[name]
        return found


def _published(name: str, source: str, architecture: str = "Qwen3VLForConditionalGeneration") -> Preset:
    """The least picture is Qwen3-VL's own, 256 x 256; the largest a quarter of its own 4096 x 4096, or 4,096 tokens of
    32 x 32 pixels: a screen of 2560 x 1600 keeps every pixel. `pixels` of the trainer's configuration sets both."""
    return Preset(
        name,
        architecture,
        source,
        None,
        image_mean=0.5,
        image_std=0.5,
        max_prompt_tokens=4096,
        max_answer_tokens=1024,
        max_pixels=2048 * 2048,
        min_pixels=256 * 256,
    )


PRESETS: dict[str, Preset] = {
    "nano": Preset("nano", shape=Shape()),
    "2b": _published("2b", "Qwen/Qwen3-VL-2B-Instruct"),
    "8b": _published("8b", "Qwen/Qwen3-VL-8B-Instruct"),
    "30b-a3b": _published("30b-a3b", "Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen3VLMoeForConditionalGeneration"),
}


def _sizes(text: Sequence[int], vision: Sequence[int], deepstack: Sequence[int], tied: bool) -> dict[str, Any]:
    """Sizes in the order of `_TEXT` and `_VISION`."""
    seen = {**dict(zip(_VISION, vision, strict=True)), "deepstack_visual_indexes": list(deepstack)}
    return {"text": dict(zip(_TEXT, text, strict=True)), "vision": seen, "tied": tied}


_TEXT = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
_VISION = ("depth", "hidden_size", "intermediate_size")
_EXPERTS = {"moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
PUBLISHED: dict[str, dict[str, Any]] = {
    "2b": _sizes((2048, 28, 16, 8, 6144), (24, 1024, 4096), (5, 11, 17), True),
    "8b": _sizes((4096, 36, 32, 8, 12288), (27, 1152, 4304), (8, 16, 24), False),
    "30b-a3b": _sizes((2048, 48, 32, 4, 6144), (27, 1152, 4304), (8, 16, 24), False),
}
PUBLISHED["30b-a3b"]["text"] |= {**_EXPERTS, "norm_topk_prob": True, "decoder_sparse_step": 1}
"""Sizes as their config.json files give them, for random weights of the same shapes."""


def preset(name: str) -> Preset:
    """Preset by name. Raises `ValueError` naming those that exist."""
    if name not in PRESETS:
        raise ValueError(f"preset: expected one of {', '.join(PRESETS)}, found {name!r}")
    return PRESETS[name]


def image_processor(wanted: Preset) -> Any:
    """The Hugging Face image processor of a preset (PIL and numpy only)."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    shape = wanted.shape
    # a share of the most: what is smaller is enlarged until nano can read it
    least = int(wanted.max_pixels * shape.enlarged_to) if shape else wanted.min_pixels
    return Qwen2VLImageProcessorPil(
        patch_size=shape.patch if shape else 16,
        temporal_patch_size=shape.temporal_patch if shape else 2,
        merge_size=shape.merge if shape else 2,
        size={"shortest_edge": least, "longest_edge": wanted.max_pixels},
        image_mean=[wanted.image_mean] * 3,
        image_std=[wanted.image_std] * 3,
    )
