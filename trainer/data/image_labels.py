"""Batches whose image tokens have labels too: an auxiliary loss while a nano model learns to see."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from generators.proving.perception.labels import ImageLabel, target_labels
from trainer.modeling.batches import Batch, Row
from trainer.modeling.processor import Processor
from trainer.modeling.seen_pictures import SeenPictures
from trainer.modeling.tokenizer import encode_text
from trainer.presets import Preset
from trainer.settings.supervised import SpanWeights

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class LabelledImages(Processor):
    """A processor that knows `image_labels` of rows: a `perception.labels.ImageLabel` per image token.

    With `targets` a row of one picture that has none gets those of its `target_boxes` (`target_labels`), drawn by its
    `sample_id`.
    Raises `ValueError` for a row whose labels aren't as many as its image tokens.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, images: Any, preset: Preset, *, targets: bool = False
    ) -> None:
        super().__init__(tokenizer, images, preset)
        self._ids: dict[str, list[int]] = {}
        self._targets = targets

    @classmethod
    def of(cls, processor: Processor, *, targets: bool = False) -> LabelledImages:
        """The same tokenizer, image processor and preset."""
        return cls(processor.tokenizer, processor.images, processor.preset, targets=targets)

    def training_batch(
        self, rows: Sequence[Row], spans: SpanWeights | None = None, seen: SeenPictures | None = None
    ) -> Batch:
        """See `Processor.training_batch`; the label of an image token is what it predicts, so it stands one later."""
        batch = super().training_batch(rows, spans, seen)
        used = iter(batch.image_use)
        for number, row in enumerate(rows):
            shown = [next(used) for _ in row.get("images") or ()]
            labels = row.get("image_labels", ()) or self._target_labels(row, batch, shown)
            places = (batch.input_ids[number] == self.image_id).nonzero()[:, 0].tolist()
            if labels and len(labels) != len(places):
                raise ValueError(f"{row.get('sample_id')}: expected {len(places)} image labels, found {len(labels)}")
            for place, label in zip(places, labels, strict=False):
                if label is None:
                    continue
                batch.labels[number, place + 1] = self.label_id(label)
                batch.weights[number, place + 1] = label.weight
        return batch

    def _target_labels(self, row: Row, batch: Batch, shown: Sequence[int]) -> list[ImageLabel | None]:
        if not self._targets or len(shown) != 1 or batch.image_grid_thw is None:
            return []
        _, patch_rows, patch_columns = batch.image_grid_thw[shown[0]].tolist()
        side = self.images.merge_size
        rng = Random(f"labels/{row.get('sample_id')}")
        return target_labels(row.get("target_boxes") or (), patch_columns // side, patch_rows // side, rng)

    def label_id(self, label: ImageLabel) -> int:
        """The token that a label names."""
        if label.text is None:
            return int(self.end_id)
        if label.text not in self._ids:
            self._ids[label.text] = encode_text(self.tokenizer, label.text)
        ids = self._ids[label.text]
        return ids[int(label.share * len(ids))]
