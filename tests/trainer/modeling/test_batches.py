"""Rows → tensors: the instruction stands before the picture, labels cover the answer and nothing else."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn import draw
from PIL import Image

from pipelines.prompts import grounding_text, messages, navigation_text
from schemas.ids import digest
from trainer.modeling.batches import BadSample, row_images
from trainer.modeling.checkpoint import load_processor
from trainer.modeling.processor import Processor
from trainer.presets import NANO_BASE
from trainer.settings.supervised import SpanWeights
from trainer.vllm.token_protocol import one_token_each


def grounding_row(answer: str = "[12,34]", text: str = "the red box") -> dict[str, Any]:
    return {
        "sample_id": "s",
        "objective": "grounding",
        "messages": messages("grounding", grounding_text(text)),
        "images": [draw({"red": (5, 5, 50, 50)})],
        "answer": answer,
        "platform": "web",
    }


def test_instruction_precedes_the_picture_and_the_answer_follows(processor: Any) -> None:
    batch = processor.training_batch([grounding_row()])
    text = processor.tokenizer.decode(batch.input_ids[0])
    pads = batch.input_ids[0].eq(processor.image_id).sum().item()
    assert text == (
        "<|im_start|>user\nWhere is the red box?<|vision_start|>"
        + "<|image_pad|>" * pads
        + "<|vision_end|><|im_end|>\n"
        "<|im_start|>assistant\n[12,34]<|im_end|>"
    )
    assert (
        pads
        == batch.image_grid_thw.prod().item() // 4
        == processor.image_tokens(processor.picture(draw({"red": (5, 5, 50, 50)})))
    )


def test_parts_stand_where_the_messages_have_them(processor: Any) -> None:
    row, shown = grounding_row(), {"type": "image"}
    turns = [
        {"role": "system", "content": "Look."},
        {"role": "user", "content": [shown, {"type": "text", "text": "a "}, {"type": "text", "text": "b"}, shown]},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": [{"type": "text", "text": "\n\n c"}, shown, {"type": "text", "text": "d"}]},
    ]
    found = processor.prompt({**row, "messages": json.dumps(turns), "images": row["images"] * 3}).ids
    one_each = one_token_each(found, processor.image_id)
    expected = processor.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert one_each == expected  # texts side by side are tokenised as one, as the template's are


def test_a_text_loses_its_middle_beside_its_role(processor: Any, tiny_preset: Any) -> None:
    short = Processor(processor.tokenizer, processor.images, replace(tiny_preset, max_prompt_tokens=6))
    text = " ".join(str(n) for n in range(100, 120))
    ids = short.prompt({**grounding_row(), "messages": messages("vqa", text, 0), "images": []}).ids
    said = processor.tokenizer.decode(ids)
    assert said == "<|im_start|>user\n100 101  119<|im_end|>\n<|im_start|>assistant\n"


def test_nano_reads_prompts_as_the_ids_that_its_weights_learned() -> None:
    nano = load_processor(NANO_BASE)
    long = "Find a table, book it for two (7 pm) and say 'done'. " * 30
    past = [(3, "Click(box=(5,600)) (the menu is behind)")]
    texts = [navigation_text(" Öffne  'Mail'\nund lies", past), navigation_text(long, None, thinking=True)]
    texts += [grounding_text("[1] <b>", box=True, confidence=True), "<|im_end|> (?)", "'", "12"]
    rows = [{**grounding_row(), "messages": messages("vqa", text)} for text in texts]
    assert digest([nano.prompt(row).ids for row in rows]).startswith("f09c3461e2b93bbceba4d8cec8fd20d7")


def test_labels_and_weights_are_exact(processor: Any) -> None:
    row = {
        **grounding_row(),
        "objective": "navigation",
        "answer": "<think></think><action>Click(box=(5,600))</action><conclusion></conclusion>",
    }
    batch = processor.training_batch(
        [row, grounding_row()], SpanWeights(coordinate=2.0, verb=3.0, action=1.5, tag=0.3, end=0.5, text=1.0)
    )
    label = batch.labels[0] != -100
    assert processor.tokenizer.decode(batch.labels[0][label]) == row["answer"] + "<|im_end|>"
    assert batch.input_ids[0][label].tolist() == batch.labels[0][label].tolist()
    expected = [0.3, 0.3, 0.3, 3.0, 1.5, 1.5, 1.5, 2.0, 1.5, 2.0, 1.5, 1.5, 0.3, 0.3, 0.3, 0.5]
    assert batch.weights[0][label].tolist() == pytest.approx(expected)
    assert batch.coordinate[0][label].tolist() == [w == 2.0 for w in expected]
    second = batch.labels[1] != -100
    assert batch.weights[1][second].tolist() == pytest.approx([1, 2, 1, 2, 1, 0.5])
    assert batch.weights[~(batch.labels != -100)].sum() == 0
    assert (batch.labels[batch.attention_mask == 0] == -100).all()  # padding is never a label


def test_only_bracketed_numbers_are_coordinates(processor: Any) -> None:
    def marked(text: str) -> list[str]:
        ids = processor.answer(text)
        return processor.tokenizer.convert_ids_to_tokens([ids[i] for i in processor.coordinate_places(ids)])

    assert marked("[1,2] and [10,20,30,40]") == ["1", "2", "10", "20", "30", "40"]
    assert marked("<action>Type(content='5')</action>") == []
    assert marked("7 items, (3) left, [-1,-1]") == []
    assert marked("Drag(start=(1,2), end=(3,4))") == ["1", "2", "3", "4"]


def test_a_refusal_weighs_as_much_as_the_point_that_could_stand_in_its_place(processor: Any) -> None:
    spans = SpanWeights(coordinate=2.0, text=1.0, end=0.5)
    assert processor.answer_weights(processor.answer("[-1,-1]"), spans) == [1.0, 2.0, 1.0, 2.0, 1.0, 0.5]
    assert processor.answer_weights(processor.answer("[10,20]"), spans) == [1.0, 2.0, 1.0, 2.0, 1.0, 0.5]


def test_prompts_are_padded_left_and_answers_right(processor: Any) -> None:
    rows = [grounding_row(), grounding_row(text="a much longer name of the thing that is looked for")]
    prompts = processor.prompt_batch(rows)
    assert prompts.attention_mask[:, -1].tolist() == [1, 1] and prompts.attention_mask[0, 0] == 0
    training = processor.training_batch(rows)
    assert training.attention_mask[:, 0].tolist() == [1, 1] and training.attention_mask[0, -1] == 0


def test_one_picture_of_two_rows_is_processed_once(processor: Any) -> None:
    batch = processor.training_batch([grounding_row(), grounding_row(text="other")])
    assert batch.image_use == [0, 0] and len(batch.image_grid_thw) == 1
    assert len(batch.model_inputs()["image_grid_thw"]) == 2  # what plain transformers gets


def test_long_answers_are_cut_without_an_end_and_long_prompts_keep_head_and_tail(
    processor: Any, tiny_preset: Any
) -> None:
    ids = processor.answer("word " * 200)
    assert len(ids) == tiny_preset.max_answer_tokens and ids[-1] != processor.end_id
    assert processor.answer("short")[-1] == processor.end_id
    long = grounding_row(text="first " + "x " * 400 + " last")
    text = processor.tokenizer.decode(processor.prompt(long).ids)
    assert "Where is first" in text and "last?" in text and len(processor.prompt(long).ids) < 220


def test_text_of_data_makes_no_control_token(processor: Any) -> None:
    row = grounding_row(text="<|im_end|><|image_pad|>")
    ids = processor.prompt(row).ids
    assert ids.count(processor.image_id) == processor.image_tokens(processor.picture(row["images"][0]))
    assert ids.count(processor.end_id) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": "{not json"}, "no chat"),
        ({"messages": '[{"role":"tool","content":"x"}]', "images": []}, "expected the role"),
        ({"images": []}, "messages show 1 pictures, the row has 0"),
        ({"images": [b"no picture"]}, "can't be decoded"),
        ({"images": ["a string"]}, "expected picture bytes"),
    ],
)
def test_a_bad_row_says_what_is_wrong(processor: Any, change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSample, match=words):
        processor.prompt({**grounding_row(), **change})


@pytest.mark.parametrize("kind", ["zeros", "thin", "torn", "deflate"])
def test_a_picture_that_cannot_be_shown_is_a_bad_sample(kind: str, processor: Any) -> None:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (256, 256, 3), np.uint8)).save(stream, "PNG")
    whole = stream.getvalue()
    chunk = whole.index(b"IDAT", 100) - 4  # the second of them
    data = {
        "zeros": whole[:chunk] + bytes(len(whole) - chunk),  # as a disk leaves it that lost its power
        "thin": draw({"red": (1, 1, 60, 9)}, (2010, 10)),
        "torn": whole[: len(whole) // 2],
        "deflate": whole.replace(b"IDATx", b"IDATy"),
    }[kind]
    with pytest.raises(BadSample, match="can't be decoded"):
        processor.prompt({**grounding_row(), "images": [data]})
    if kind == "thin":  # its header tells
        with pytest.raises(BadSample, match="aspect ratio"):
            processor.length({**grounding_row(), "images": [data]})


def test_pictures_come_as_bytes_or_in_the_datasets_form() -> None:
    assert row_images({"images": [b"a", {"bytes": b"b", "path": None}]}) == [b"a", b"b"]


def test_the_pictures_held_are_bounded_by_their_bytes(processor: Any) -> None:
    shown = [draw({"red": (number, 2, 60, 90)}, (96, 96)) for number in range(6)]
    size = processor.picture(shown[0]).pixels.nbytes
    held = Processor(processor.tokenizer, processor.images, processor.preset, cache_bytes=3 * size)
    first = held.picture(shown[0])
    for data in (*shown[1:3], shown[0], *shown[3:5]):
        held.picture(data)
    assert len(held._cache) == 3 and held.picture(shown[0]) is first, "what was asked for last stays"
    small = Processor(processor.tokenizer, processor.images, processor.preset, cache_bytes=1)
    assert small.picture(shown[0]) is small.picture(shown[0]) and small.picture(shown[1]).pixels.nbytes == size
    assert len(small._cache) == 1


def test_length_is_that_of_the_sequence_and_decodes_nothing(processor: Any) -> None:
    rows = [grounding_row(), {**grounding_row(), "images": [draw({"red": (1, 2, 60, 90)}, (50, 333))]}]
    rows.append({**rows[0], "images": [processor.picture(rows[0]["images"][0])]})
    fresh = Processor(processor.tokenizer, processor.images, processor.preset)
    assert [fresh.length(row) for row in rows] == processor.training_batch(rows).attention_mask.sum(1).tolist()
    assert not fresh._cache
    torn = {**rows[0], "images": [rows[0]["images"][0][:90]]}
    assert fresh.length(torn) == fresh.length(rows[0])
    for bad in ({**rows[0], "images": [b"none"]}, {**rows[0], "images": []}):
        with pytest.raises(BadSample):
            fresh.length(bad)


def test_spans_of_a_tokenizer_without_numbers_are_those_of_the_text(processor: Any) -> None:
    """Byte-level BPE that knows neither tags nor numbers, as the published ones."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from trainer.modeling.span_weights import AnswerSpans

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*alphabet, "Cl", "ic", "Clic", "Click", ")<", "<|im_end|>"])}
    merges = [("C", "l"), ("i", "c"), ("Cl", "ic"), ("Clic", "k"), (")", "<")]
    plain = Tokenizer(models.BPE(vocabulary, merges))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>", unk_token=None)
    spans = AnswerSpans(tokenizer)
    text = "<think>é (3)</think><action>Click(box=(5,600))</action>"
    ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    pieces = [tokenizer.decode([i]) for i in ids]
    assert [pieces[i] for i in spans.coordinates(ids)] == ["5", "6", "0", "0"]
    weight = dict(
        zip(
            range(len(ids)),
            spans.weights(ids, SpanWeights(coordinate=2.0, verb=3.0, action=1.5, tag=0.3, end=0.5, text=1.0)),
            strict=True,
        )
    )
    by_piece = [(piece, weight[i]) for i, piece in enumerate(pieces)]
    assert ("Click", 3.0) in by_piece and (")<", 0.3) in by_piece and ("(", 1.5) in by_piece and ("3", 1.0) in by_piece
    assert by_piece[0] == ("<", 0.3) and by_piece[-1][1] == 0.5 and sum(w == 2.0 for w in weight.values()) == 4
    assert spans.coordinates(tokenizer("[-1,-1] (3) [1,2000]")["input_ids"]) == []
    refusal = spans.weights(tokenizer("[-1,-1]")["input_ids"], SpanWeights(coordinate=2.0, text=1.0))
    assert refusal == [1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 1.0]
