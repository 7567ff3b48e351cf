"""Sizes of a model that is built from scratch."""

from typing import Literal, Self

from pydantic import model_validator

from schemas.settings import Number, Settings, Whole, setting

ActionCodec = Literal["text", "compact", "tool_path"]
"""How a model writes actions in tokens (`trainer.modeling.codecs`)."""


class Shape(Settings):
    """Sizes of a model that is built from scratch; the defaults are those of the nano preset."""

    vocab_size: Whole = setting(2048, "Tokens of the vocabulary.", ge=1)
    hidden: Whole = setting(192, "Width of the text decoder.", ge=1)
    layers: Whole = setting(4, "Blocks of the text decoder.", ge=1)
    heads: Whole = setting(6, "Attention heads of the text decoder; a multiple of `kv_heads`.", ge=1)
    kv_heads: Whole = setting(6, "Key and value heads of the text decoder.", ge=1)
    head_dim: Whole = setting(32, "Width of a head; twice the sum of `mrope_section`.", ge=1)
    intermediate: Whole = setting(512, "Width of the text decoder's feed-forward layers.", ge=1)
    mrope_section: tuple[Whole, Whole, Whole] = setting(
        (6, 5, 5), "Shares of a head's rotary frequencies for time, height and width."
    )
    vision_hidden: Whole = setting(128, "Width of the vision tower; a multiple of `vision_heads`.", ge=1)
    vision_depth: Whole = setting(3, "Blocks of the vision tower.", ge=1)
    vision_heads: Whole = setting(4, "Attention heads of the vision tower.", ge=1)
    vision_intermediate: Whole = setting(384, "Width of the vision tower's feed-forward layers.", ge=1)
    deepstack: tuple[Whole, ...] = setting((1,), "Blocks of the vision tower whose features join the decoder's blocks.")
    position_grid: Whole = setting(
        16, "Side of the square grid of learned positions, resampled to each picture's own grid.", ge=1
    )
    patch: Whole = setting(16, "Side of a patch in pixels.", ge=1)
    merge: Whole = setting(2, "Side of a square of patches that becomes one image token.", ge=1)
    temporal_patch: Whole = setting(2, "Frames of a patch.", ge=1)
    pixels: Whole = setting(160 * 224, "Area of the resized picture.", ge=1)
    enlarged_to: Number = setting(0.5, "Pictures of less than this share of `pixels` are enlarged to it.", ge=0, le=1)
    rope_theta: Number = setting(10_000.0, "Base of the rotary frequencies.", gt=0)
    init: Number = setting(0.02, "Spread of random weights.", gt=0)
    position_init: Number = setting(
        0.0,
        "Spread of patch positions as smooth noise over the grid, so that place weighs beside content; 0: `init`.",
        ge=0,
    )
    number_smoothing: Number = setting(
        20.0,
        "Neighbouring numbers start with alike embeddings: correlation length in units of 0..1000; 0: independent.",
        ge=0,
    )

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        # Rotary frequencies come in pairs: half of the head's width.
        if sum(self.mrope_section) * 2 != self.head_dim:
            raise ValueError(
                f"mrope_section: expected a sum of head_dim/2 = {self.head_dim // 2}, found {self.mrope_section}"
            )
        if self.heads % self.kv_heads or self.vision_hidden % self.vision_heads:
            raise ValueError(
                "expected heads to be a multiple of kv_heads and vision_hidden of vision_heads, found "
                f"{self.heads}, {self.kv_heads}, {self.vision_hidden} and {self.vision_heads}"
            )
        if max(self.deepstack, default=-1) >= self.vision_depth or len(self.deepstack) > self.layers:
            raise ValueError(
                f"deepstack: expected layers below {self.vision_depth}, at most {self.layers} of them, "
                f"found {self.deepstack}"
            )
        return self
