"""What a model reads: rows, and the tensors that `trainer.modeling.processor` makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from trainer.modeling.seen_pictures import Features

Row = Mapping[str, Any]
"""A row of the shards: at least `messages` (JSON), `images` (bytes, or {'bytes': …}), `answer`, `objective`."""


class BadSample(ValueError):
    """A row that can't become a training sequence; says which and why."""


@dataclass
class Batch:
    """Inputs of one forward pass; B sequences of S tokens, U distinct pictures.

    `labels` are -100 off the answer; `weights` [B, S] stand at the labels' places; `coordinate` [B, S] marks numbers
    that are coordinates. `image_use` names, in order of use, which of the U pictures each sequence shows.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    mm_token_type_ids: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    coordinate: torch.Tensor
    image_use: list[int]
    pixel_values: torch.Tensor | None = None
    image_grid_thw: torch.Tensor | None = None
    lengths: list[int] | None = None
    """Of a packed batch (`trainer.modeling.packing`): tokens of each sample, one after another in a single row; with
    `prompts`, of each prompt and each reply."""
    prompts: list[int] | None = None
    """Of a packed batch whose replies share prompts (`trainer.modeling.shared_prompts`): of each part of the row, the
    part that holds its prompt; -1 for prompts themselves."""
    picture_keys: list[str] = field(default_factory=list)
    """Of the U pictures, in order: equal keys mean equal pixels."""
    features: dict[str, Features] = field(default_factory=dict)
    """By key, of those of which a frozen tower's are known: `pixel_values` holds the other pictures alone."""

    @property
    def tokens(self) -> int:
        """Real tokens, padding left out."""
        return int(self.attention_mask.sum())

    @property
    def samples(self) -> int:
        """Sequences that hold a label."""
        labelled = self.labels != -100
        if self.lengths is None:
            return int(labelled.any(1).sum())
        return sum(bool(part.any()) for part in labelled[0].split(self.lengths))

    @property
    def size(self) -> int:
        """Samples, with a label or without."""
        if self.prompts is not None:
            return sum(prompt >= 0 for prompt in self.prompts)
        return len(self.lengths) if self.lengths is not None else self.input_ids.shape[0]

    @property
    def pictures(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Patches and grids, for a batch that has pixels."""
        assert self.pixel_values is not None and self.image_grid_thw is not None
        return self.pixel_values, self.image_grid_thw

    def samples_at(self, columns: torch.Tensor) -> torch.Tensor:
        """Of a packed batch: the sample [N] that holds each of these places [N] of the row."""
        ends = torch.tensor(self.lengths, device=columns.device).cumsum(0)
        # right: the place where a part ends is the next one's first
        parts = torch.searchsorted(ends, columns, right=True)
        if self.prompts is None:
            return parts
        replies = torch.tensor(self.prompts, device=columns.device) >= 0
        return (replies.cumsum(0) - 1)[parts]

    def before(self, columns: torch.Tensor) -> torch.Tensor:
        """The places [N] before these [N] in their sample: that of the token which predicts theirs."""
        if self.prompts is None or self.lengths is None:
            return columns - 1
        ends = torch.tensor(self.lengths, device=columns.device).cumsum(0)
        first = torch.cat([ends.new_zeros(1), ends[:-1]])
        prompts = torch.tensor(self.prompts, device=columns.device)
        # a reply's first token is predicted at the end of its prompt, wherever in the row that lies
        last = torch.where(prompts >= 0, ends[prompts.clamp(min=0)], first) - 1  # before a part begins
        parts = torch.searchsorted(ends, columns, right=True)
        return torch.where(columns == first[parts], last[parts], columns - 1)

    def to(self, device: str | torch.device, dtype: torch.dtype | None = None) -> "Batch":
        """On another device; `dtype` is that of the pictures."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in moved.items()}
        if dtype is not None and moved["pixel_values"] is not None:
            moved["pixel_values"] = moved["pixel_values"].to(dtype)
        return Batch(**moved)

    def model_inputs(self) -> dict[str, torch.Tensor]:
        """What plain `Qwen3VLForConditionalGeneration.forward` takes (pictures repeated as used)."""
        inputs = {"input_ids": self.input_ids, "mm_token_type_ids": self.mm_token_type_ids}
        if self.lengths is None:
            inputs["attention_mask"] = self.attention_mask
        else:  # text positions that restart mark where the samples begin
            restarting = torch.cat([torch.arange(length) for length in self.lengths]).to(self.input_ids.device)
            inputs["position_ids"] = torch.cat([restarting[None, None], self.position_ids])
        if self.pixel_values is not None and self.image_grid_thw is not None:
            # transformers' own forward pass wants a picture's patches once for each time it is shown
            parts = self.pixel_values.split(self.image_grid_thw.prod(-1).tolist())
            inputs["pixel_values"] = torch.cat([parts[i] for i in self.image_use])
            inputs["image_grid_thw"] = self.image_grid_thw[self.image_use]
        return inputs


@dataclass(frozen=True, slots=True)
class PixelPicture:
    """A decoded, resized picture: `pixels` uint8 [3, height, width], and its key."""

    key: str
    pixels: np.ndarray


@dataclass
class Prompt:
    """Prompt ids up to and with the assistant's opening, and the pictures in order."""

    ids: list[int]
    pictures: list[PixelPicture]


def row_images(row: Row) -> list[bytes]:
    """Encoded pictures of a row: bytes, or the `datasets` form {'bytes': …, 'path': …}."""
    found = []
    for image in row.get("images") or []:
        data = image.get("bytes") if isinstance(image, Mapping) else image
        if not isinstance(data, bytes | bytearray | memoryview):
            raise BadSample(f"sample {row.get('sample_id', '?')}: expected picture bytes, found {type(data).__name__}")
        found.append(bytes(data))
    return found
