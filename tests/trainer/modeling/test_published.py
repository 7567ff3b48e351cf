"""The presets that stand on published weights, proven on tiny ones of the same kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from drawn import make_rows
from label_logits import label_logits
from PIL import Image
from tiny_published import KINDS, published_tokenizer, write_tiny

from trainer.data.row_sources import ListSource
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint
from trainer.modeling.generation import generate
from trainer.modeling.model import parameter_count, reply_logprobs
from trainer.modeling.published import load_base, random_base
from trainer.presets import PRESETS, image_processor, preset
from trainer.settings.supervised import MidtrainConfig


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ((1280, 720), 40 * 22),  # as it is, to whole tokens of 32 px
        ((360, 800), 11 * 25),
        ((2560, 1600), 80 * 50),
        ((100, 60), 11 * 7),  # enlarged to the least that the model was trained on
    ],
)
def test_a_screen_keeps_its_pixels(size: tuple[int, int], tokens: int) -> None:
    grid = image_processor(preset("8b"))(Image.new("RGB", size), return_tensors="pt")["image_grid_thw"]
    assert int(grid.prod()) // 4 == tokens


def test_a_larger_screen_is_made_to_fit() -> None:
    grid = image_processor(preset("8b"))(Image.new("RGB", (3840, 2160)), return_tensors="pt")["image_grid_thw"]
    assert 3_900 < int(grid.prod()) // 4 <= 4_096


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_published_checkpoint_is_trained_saved_and_read_by_plain_transformers(kind: str, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    folder = write_tiny(tmp_path / "hub", kind)
    wanted = replace(preset(KINDS[kind]), max_pixels=96 * 128, min_pixels=32 * 32)
    model, processor = load_base(wanted, folder)
    assert processor.numbers is None and type(model).__name__ == wanted.architecture
    rows = make_rows(6)
    weights = processor.training_batch(rows).weights
    assert {2.0, 3.0, 0.3, 0.5} <= {round(float(w), 1) for w in weights.unique()}  # spans without number tokens
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = MidtrainConfig(
        max_steps=2,
        batch_size=2,
        warmup_steps=0,
        learning_rate=1e-3,
        threads=1,
        packing=True,
        max_length=256,
        packing_window=6,
        gradient_checkpointing=True,
    )
    curve = train(model, processor, ListSource(rows), config, progress=False)
    assert all(step["loss"] > 0 for step in curve.steps)
    still = [name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])]
    assert not [name for name in still if "language_model" in name or "lm_head" in name], still
    save_checkpoint(tmp_path / "out", model, processor, lineage("mid_trained", wanted))
    plain = AutoModelForImageTextToText.from_pretrained(tmp_path / "out").eval()
    assert len(AutoTokenizer.from_pretrained(str(tmp_path / "out"))) == len(processor.tokenizer)
    again = load_checkpoint(tmp_path / "out")
    batch = again.processor.training_batch(rows[:2])
    with torch.no_grad():
        mine = label_logits(again.model, batch)
        theirs = plain(**batch.model_inputs()).logits
    torch.testing.assert_close(mine.values, theirs[mine.rows, mine.columns - 1], rtol=1e-4, atol=1e-4)
    assert str(tmp_path) not in "".join(p.read_text() for p in (tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_replies_are_decoded_with_the_models_own_numbers(kind: str, tmp_path: Path) -> None:
    """Shared heads of keys, experts, and prompts of different lengths."""
    model, processor = load_base(
        replace(preset(KINDS[kind]), max_pixels=96 * 128, min_pixels=32 * 32), write_tiny(tmp_path, kind)
    )
    rows = make_rows(4)
    made = generate(
        model, processor, rows, group=2, temperature=1.0, max_new_tokens=9, generator=torch.Generator().manual_seed(1)
    )
    batch = processor.reply_batch([rows[one.row] for one in made], [one.token_ids for one in made])
    with torch.no_grad():
        again = reply_logprobs(model, batch, never=processor.never)
    assert len(made) == 8 and max(len(one.token_ids) for one in made) == 9
    for place, one in enumerate(made):
        told = torch.tensor(one.logprobs)
        torch.testing.assert_close(again.logprobs[place, again.mask[place]], told, rtol=1e-4, atol=1e-4)


def test_fewer_layers_are_the_first_ones(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path, "dense")
    whole, _ = load_base("2b", folder)
    some, _ = load_base("2b", folder, layers=2)
    assert len(some.model.language_model.layers) == 2
    assert all(torch.equal(tensor, whole.state_dict()[name]) for name, tensor in some.state_dict().items())
    for wrong in (0, 4):
        with pytest.raises(ValueError, match="layers: expected 1 to 3"):
            load_base("2b", folder, layers=wrong)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path, "dense")
    with pytest.raises(ValueError, match="Qwen3VLMoeForConditionalGeneration, found a Qwen3VLFor"):
        load_base("30b-a3b", folder)
    with pytest.raises(ValueError, match="built from scratch"):
        load_base("nano", folder)
    (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"image_token_id": ', '"image_token_id": 1')
    )
    with pytest.raises(ValueError, match="to the tokenizer and"):
        load_base("2b", folder)


@pytest.mark.slow
def test_random_weights_have_the_published_sizes() -> None:
    tokenizer = published_tokenizer()
    counts = {
        name: parameter_count(random_base(name, tokenizer, device="meta")[0]) / 1e9 for name in ("2b", "8b", "30b-a3b")
    }
    assert counts == pytest.approx({"2b": 2.127, "8b": 8.767, "30b-a3b": 31.07}, rel=2e-3)
    assert parameter_count(random_base("30b-a3b", tokenizer, 3, device="meta")[0]) < 3.5e9
    assert {name for name, found in PRESETS.items() if found.source} == set(counts)
