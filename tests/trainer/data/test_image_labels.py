"""Labels of image tokens in a batch: predicted where the token stands, and no other label moved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from label_logits import label_logits

from generators.proving.perception.labels import ImageLabel
from trainer.data.image_labels import LabelledImages
from trainer.data.row_sources import ListSource
from trainer.midtrain.loss import validate
from trainer.midtrain.train import train
from trainer.settings.supervised import MidtrainConfig


def count_of(processor: Any, row: dict[str, Any]) -> int:
    return int((processor.training_batch([row]).input_ids == processor.image_id).sum())


def test_an_image_token_predicts_its_label(processor: Any, model: Any, rows: list[dict[str, Any]]) -> None:
    labelled, row = LabelledImages.of(processor), rows[0]
    count = count_of(processor, row)
    labels = [ImageLabel("[", 0.0, 0.25) if place == 2 else ImageLabel(None, 0.0, 0.5) for place in range(count)]
    plain = processor.training_batch([row, rows[1]])
    batch = labelled.training_batch([{**row, "image_labels": labels}, rows[1]])
    assert torch.equal(batch.input_ids, plain.input_ids)
    assert torch.equal(batch.labels[1], plain.labels[1])  # a row without labels is as it was
    before, after = plain.labels[0] != -100, batch.labels[0] != -100
    assert torch.equal(batch.labels[0][before], plain.labels[0][before])
    assert int(after.sum()) == int(before.sum()) + count
    assert float(batch.weights[0].sum()) == pytest.approx(float(plain.weights[0].sum()) + 0.25 + 0.5 * (count - 1))
    third = (batch.input_ids[0] == processor.image_id).nonzero()[2, 0]
    assert batch.labels[0, third + 1] == processor.tokenizer.convert_tokens_to_ids("[")
    found = label_logits(model, batch)
    assert int((found.rows == 0).sum()) == int(after.sum())


def test_a_longer_name_is_told_token_by_token(processor: Any, rows: list[dict[str, Any]]) -> None:
    labelled = LabelledImages.of(processor)
    count = count_of(processor, rows[0])
    ids = processor.tokenizer(" red [1,2]", add_special_tokens=False)["input_ids"]
    labels = [ImageLabel(" red [1,2]", place / count, 1.0) for place in range(count)]
    batch = labelled.training_batch([{**rows[0], "image_labels": labels}])
    places = (batch.input_ids[0] == processor.image_id).nonzero()[:, 0] + 1
    told = batch.labels[0, places].tolist()
    assert told == sorted(told, key=told.index)
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(ids))[: len(dict.fromkeys(told))]
    assert told[0] == ids[0]
    assert told[-1] == ids[int((count - 1) / count * len(ids))]


def test_another_number_of_labels_is_refused(processor: Any, rows: list[dict[str, Any]]) -> None:
    row = {**rows[0], "image_labels": [ImageLabel(None, 0.0, 1.0)]}
    with pytest.raises(ValueError, match="image labels, found 1"):
        LabelledImages.of(processor).training_batch([row])


def test_targets_are_labelled_where_a_row_has_no_labels_of_its_own(processor: Any, rows: list[dict[str, Any]]) -> None:
    labelled, row = LabelledImages.of(processor, targets=True), dict(rows[0])
    plain = processor.training_batch([row])
    asked = processor.tokenizer.convert_tokens_to_ids("[")
    for boxes, some in (([[0, 0, 1000, 1000]], True), ([], False)):
        batch = labelled.training_batch([{**row, "target_boxes": boxes}])
        places = (batch.input_ids[0] == processor.image_id).nonzero()[:, 0] + 1
        told = batch.labels[0, places]
        assert set(told[told != -100].tolist()) == {asked if some else processor.end_id}
        answered = plain.labels[0] != -100
        assert torch.equal(batch.labels[0][answered], plain.labels[0][answered])
    both = labelled.training_batch(
        [row, {**row, "image_labels": [ImageLabel(None, 0.0, 0.5)] * count_of(processor, row)}]
    )
    assert float(both.weights[1].sum()) != float(both.weights[0].sum())


def test_labels_after_a_block_leave_the_answer_and_the_later_blocks_alone(
    processor: Any, model: Any, rows: list[dict[str, Any]]
) -> None:
    labels = [ImageLabel("[", 0.0, 1.0)] * count_of(processor, rows[0])
    batch = LabelledImages.of(processor).training_batch([{**rows[0], "image_labels": labels}])
    blocks = model.eval().model.language_model.layers
    last, first = label_logits(model, batch), label_logits(model, batch, image_blocks=1)
    shown = batch.input_ids[first.rows, first.columns - 1] == processor.image_id
    assert int(shown.sum()) == len(labels) and torch.equal(first.values[~shown], last.values[~shown])
    assert not torch.allclose(first.values[shown], last.values[shown])
    assert torch.equal(label_logits(model, batch, image_blocks=len(blocks)).values, last.values)
    first.values[shown].square().mean().backward()
    learns = [any(one.grad is not None and one.grad.any() for one in block.parameters()) for block in blocks]
    model.zero_grad(set_to_none=True)
    assert learns == [True] + [False] * (len(blocks) - 1)


def test_blocks_that_the_decoder_lacks_are_named(processor: Any, model: Any, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="image_blocks: expected 0 to .* found 99"):
        train(
            model,
            processor,
            ListSource(rows),
            MidtrainConfig(max_steps=1, warmup_steps=0, image_blocks=99),
            progress=False,
        )


def test_validation_is_of_answers_alone(processor: Any, model: Any, rows: list[dict[str, Any]]) -> None:
    one = MidtrainConfig(
        max_steps=1, warmup_steps=0, batch_size=2, learning_rate=1e-9, threads=1, image_labels=True, image_blocks=1
    )
    shown = validate(model, processor, rows[:4], one.spans)["all"]
    curve = train(model, processor, ListSource(rows), one, validation=rows[:4], progress=False)
    assert curve.validation[-1]["all"] == pytest.approx(shown, rel=1e-4)
