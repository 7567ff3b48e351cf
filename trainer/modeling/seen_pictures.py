"""What a vision tower that stays as it is made of a picture, kept for the next time that the picture is shown."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trainer.modeling.tensors import parameters_digest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainer.modeling.batches import Batch
    from trainer.modeling.processor import Processor

MOST_BYTES = 512 * 2**20
"""Of features that are kept; those not asked for the longest go first."""


KEPT = "seen_pictures"
"""The attribute of a model that holds its `SeenPictures`, or None."""


@dataclass(frozen=True)
class Features:
    """Of one picture: `tokens` [N, D] as the decoder takes them, and those of the deep layers."""

    tokens: torch.Tensor
    deep: tuple[torch.Tensor, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(one.numel() * one.element_size() for one in (self.tokens, *self.deep))


class SeenPictures:
    """Features by picture. Each picture goes through the tower alone, so that they don't depend on what was shown
    before or beside it, and a run that was killed goes on with the same bits. Several models with one tower may share
    them, in threads of their own.

    `bf16`: whether the tower computes in bfloat16."""

    def __init__(self, most_bytes: int = MOST_BYTES, bf16: bool = False) -> None:
        self._kept: OrderedDict[str, Features] = OrderedDict()
        self._most, self._bytes, self._bf16 = most_bytes, 0, bf16
        self._lock = threading.Lock()  # not while the tower computes

    def __len__(self) -> int:
        return len(self._kept)

    def __deepcopy__(self, memo: dict[int, object]) -> SeenPictures:
        return SeenPictures(self._most, self._bf16)  # a copy of the model looks for itself

    def get(self, key: str) -> Features | None:
        """Those of a picture, if it was seen."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def features(self, model: PreTrainedModel, batch: Batch) -> list[Features]:
        """Of each distinct picture of a batch, in order."""
        grids = batch.image_grid_thw if batch.image_grid_thw is not None else torch.zeros(0, 3)
        # of pictures seen before the batch brings features, and no pixels
        shown = [key not in batch.features for key in batch.picture_keys]
        sizes = [int(grid.prod()) for grid, pixels in zip(grids, shown, strict=True) if pixels]
        parts = iter(batch.pixel_values.split(sizes) if batch.pixel_values is not None else ())
        return [
            self._of(model, key, next(parts), grid) if pixels else batch.features[key]
            for key, grid, pixels in zip(batch.picture_keys, grids, shown, strict=True)
        ]

    def _of(self, model: PreTrainedModel, key: str, pixels: torch.Tensor, grid: torch.Tensor) -> Features:
        if (known := self.get(key)) is not None:
            return known
        with torch.no_grad(), torch.autocast(pixels.device.type, torch.bfloat16, enabled=self._bf16):
            seen = tower_output(model, pixels, grid[None])
        # in the type of the weights: who shares them may compute otherwise than the tower does
        found = Features(
            seen.pooler_output[0].to(pixels.dtype), tuple(layer[0].to(pixels.dtype) for layer in deepstack(seen))
        )
        with self._lock:
            if key not in self._kept:  # another thread may have looked meanwhile
                self._kept[key] = found
                self._bytes += found.size
            # the newest stays, however large it is
            while self._bytes > self._most and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return found


def tower_output(model: Any, pixels: torch.Tensor, grids: torch.Tensor) -> Any:
    """What the vision tower makes of pictures [patches, …] of these grids [N, 3]: features by picture, and those of its
    deep layers. On a GPU the largest picture's patches are counted once, which every block would else wait for."""
    known = {"max_seqlen": int(grids.prod(-1).max())} if pixels.is_cuda else {}
    return model.model.get_image_features(pixels, grids, return_dict=True, **known)


def deepstack(seen: object) -> Sequence[Sequence[torch.Tensor]]:
    """Of a tower's output, what the decoder's first layers get beside the tokens; Qwen3.5's towers have none."""
    return getattr(seen, "deepstack_features", None) or ()


_of_towers: dict[tuple[object, ...], SeenPictures] = {}


def of_tower(model: Any, processor: Processor) -> SeenPictures:
    """What this process has seen with just this tower, whose weights stay as they are: checkpoints of one training
    that are evaluated one after the other are shown the same pictures, and often differ in their decoders alone. Those
    of the last tower are kept; none on a GPU, where memory is short."""
    tower = model.model.visual
    if any(one.is_cuda for one in tower.parameters()):
        return SeenPictures()
    # all that decides the bits
    name = (parameters_digest(tower), processor.images.to_json_string(), torch.get_num_threads())
    if name not in _of_towers:
        _of_towers.clear()
    return _of_towers.setdefault(name, SeenPictures())


@contextmanager
def seen_once(model: PreTrainedModel, processor: Processor) -> Iterator[None]:
    """What the tower makes of a picture is kept meanwhile: it must not learn."""
    before = getattr(model, KEPT, None)
    setattr(model, KEPT, before if before is not None else of_tower(model, processor))
    try:
        yield
    finally:
        setattr(model, KEPT, before)
