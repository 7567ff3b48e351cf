"""The model, its processor and generation: same numbers as plain transformers, sooner."""

from __future__ import annotations

import copy
import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from label_logits import label_logits

from trainer.modeling.checkpoint import lineage, load_checkpoint, read_preset, save_checkpoint
from trainer.modeling.generation import _choose, generate
from trainer.modeling.model import build_model, parameter_count, reply_logprobs
from trainer.modeling.rope_positions import rope_positions
from trainer.presets import PRESETS, preset


def test_nano_has_two_to_six_million_parameters_and_keeps_conv3d(processor: Any) -> None:
    from trainer.modeling.tokenizer import train_tokenizer

    nano = preset("nano")
    model = build_model(nano, train_tokenizer(["a text"], nano.shape.vocab_size))  # type: ignore[union-attr]
    assert 2e6 <= parameter_count(model) <= 6e6
    assert type(model).__name__ == nano.architecture
    assert model.state_dict()["model.visual.patch_embed.proj.weight"].ndim == 5


def test_published_presets_are_configuration_only() -> None:
    assert {p.name: bool(p.source) for p in PRESETS.values()} == {
        "nano": False,
        "2b": True,
        "8b": True,
        "30b-a3b": True,
    }
    assert "Moe" in PRESETS["30b-a3b"].architecture and "Moe" not in PRESETS["8b"].architecture


def test_random_weights_follow_the_seed_and_leave_the_global_generator_alone(processor: Any, tiny_preset: Any) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, third = (build_model(tiny_preset, processor.tokenizer, seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    weights = [m.model.language_model.layers[0].self_attn.q_proj.weight for m in (first, second, third)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_random_weights_are_the_same_with_any_number_of_threads(processor: Any) -> None:
    """A run that goes on in a process with other settings must begin from the very same bits."""
    from dataclasses import replace

    from trainer.settings.model_shape import Shape

    shape = Shape(position_init=0.2, position_grid=28, vocab_size=len(processor.tokenizer))
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(build_model(replace(preset("nano"), shape=shape), processor.tokenizer, seed=2).state_dict())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())


def test_sped_up_forward_equals_plain_transformers(
    model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Any, tiny_preset: Any
) -> None:
    """Own patch embedding, vision attention, positions, shared pictures and head against the untouched class."""
    from drawn import draw
    from transformers import Qwen3VLForConditionalGeneration

    save_checkpoint(tmp_path, model, processor, lineage("test", tiny_preset))
    plain = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path).eval()
    tall = {**rows[1], "images": [draw({"red": (10, 20, 60, 90)}, (120, 260))]}  # another size in the same batch
    batch = processor.training_batch([rows[0], tall, rows[2], rows[0]])
    assert batch.image_use == [0, 1, 2, 0]
    model.eval()
    with torch.no_grad():
        mine = label_logits(model, batch)
        theirs = plain(**batch.model_inputs()).logits
    torch.testing.assert_close(mine.values, theirs[mine.rows, mine.columns - 1], rtol=1e-4, atol=1e-4)


def test_positions_equal_get_rope_index(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    batch = processor.training_batch(rows[:3])
    inputs = batch.model_inputs()
    expected, _ = model.model.get_rope_index(
        inputs["input_ids"], inputs["mm_token_type_ids"], inputs["image_grid_thw"], None, inputs["attention_mask"]
    )
    real = batch.attention_mask.bool()
    assert torch.equal(batch.position_ids[:, real], expected[:, real])
    assert rope_positions(np.array([1, 2, 3]), 9, [], 2).tolist() == [[0, 1, 2]] * 3


def test_pictures_equal_the_image_processor(processor: Any, rows: list[dict[str, Any]]) -> None:
    import io

    from PIL import Image

    data = rows[0]["images"][0]
    theirs = processor.images(images=[Image.open(io.BytesIO(data))], return_tensors="np")
    flat, grid = processor.patches(processor.picture(data))
    np.testing.assert_allclose(flat, theirs["pixel_values"], atol=1e-5)
    assert grid == tuple(theirs["image_grid_thw"][0])
    assert flat.max() == 0.0  # white maps to 0


def test_sampled_logprobs_equal_a_second_pass(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    """Left padding, KV cache, groups and dropped finished rows change nothing."""
    source = torch.Generator().manual_seed(3)
    made = generate(model, processor, rows[:5], group=3, temperature=1.0, max_new_tokens=12, generator=source)
    assert [(c.row, c.member) for c in made] == [(r, m) for r in range(5) for m in range(3)]
    batch = processor.reply_batch([rows[c.row] for c in made], [c.token_ids for c in made])
    with torch.no_grad():
        again = reply_logprobs(model.eval(), batch, never=processor.never)
    for i, completion in enumerate(made):
        expected = torch.tensor(completion.logprobs)
        torch.testing.assert_close(again.logprobs[i, again.mask[i]], expected, rtol=1e-4, atol=1e-4)
    assert (again.entropy[again.mask] > 0).all() and (again.entropy[~again.mask] == 0).all()


def test_sampling_follows_its_generator_and_greedy_needs_none(
    model: Any, processor: Any, rows: list[dict[str, Any]]
) -> None:
    def sample(seed: int) -> list[list[int]]:
        source = torch.Generator().manual_seed(seed)
        made = generate(model, processor, rows[:2], group=2, temperature=1.0, max_new_tokens=6, generator=source)
        return [c.token_ids for c in made]

    assert sample(1) == sample(1) != sample(2)
    greedy = [generate(model, processor, rows[:3], max_new_tokens=6, batch_size=size) for size in (1, 3)]
    assert [c.token_ids for c in greedy[0]] == [c.token_ids for c in greedy[1]]  # padding does not matter


def test_greedy_puts_the_numbers_together_against_a_refusal(processor: Any) -> None:
    first, refusal = processor.numbers.first, processor.tokenizer.convert_tokens_to_ids("-1")
    logits = torch.full((3, len(processor.tokenizer)), -20.0)
    logits[:, first + 400 : first + 500] = torch.linspace(0, 0.1, 100)  # spread: each at most 1 %, together nearly all
    logits[:, refusal] = torch.tensor([2.0, 8.0, -3.0])
    logits[2, processor.image_id] = 30.0
    tokens, logprobs = _choose(logits, processor, 0.0, None)
    assert logits.argmax(-1)[0] == refusal and tokens.tolist() == [first + 499, refusal, first + 499]
    assert (logprobs < 0).all() and logprobs[1] > logprobs[0]


def test_greedy_equals_the_generate_of_transformers(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    processor = copy.copy(processor)  # transformers knows neither rule
    processor.numbers, processor.never = None, []
    batch = processor.prompt_batch(rows[:1])
    theirs = model.eval().generate(**batch.model_inputs(), max_new_tokens=8, do_sample=False)
    mine = generate(model, processor, rows[:1], max_new_tokens=8)[0].token_ids
    assert theirs[0, batch.input_ids.shape[1] :].tolist()[: len(mine)] == mine


def test_a_checkpoint_survives_a_round_trip_with_equal_bytes(
    model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Any, tiny_preset: Any
) -> None:
    made = lineage("base", tiny_preset, seeds={"init": 1}, parents={"mid_training/shards": "v"})
    save_checkpoint(tmp_path / "a", model, processor, made)
    loaded = load_checkpoint(tmp_path / "a")
    save_checkpoint(tmp_path / "b", loaded.model, loaded.processor, loaded.lineage)
    files = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert {"model.safetensors", "config.json", "tokenizer.json", "preprocessor_config.json", "lineage.json"} <= {
        *files
    }
    assert files == sorted(p.name for p in (tmp_path / "b").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (
        str(tmp_path)
        not in (tmp_path / "b" / "lineage.json").read_text() + (tmp_path / "b" / "config.json").read_text()
    )
    assert loaded.lineage == asdict(made)
    with torch.no_grad():
        batch = processor.training_batch(rows[:2])
        assert torch.equal(label_logits(model.eval(), batch).values, label_logits(loaded.model, batch).values)


@pytest.mark.parametrize(("first", "told"), [(True, 0), (False, 1)])
def test_presets_that_said_the_order_of_parts_load(tiny_preset: Any, tmp_path: Path, first: bool, told: int) -> None:
    (tmp_path / "preset.json").write_text(json.dumps({**tiny_preset.plain(), "instruction_first": first}))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert read_preset(tmp_path) == tiny_preset
    assert len(found) == told and all("Train it again" in str(one.message) for one in found)
