"""The vision tower alone learns to name what its tokens show, and leaves the decoder as it was."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from generators.proving.perception.labels import PARTS
from generators.proving.perception.screens import SMALL_SIZES, fill
from generators.proving.perception.sheets import read_sheet
from trainer.data.image_labels import LabelledImages
from trainer.proving.nano_base.source import Drawings
from trainer.proving.nano_base.vision import FilledScreens, VisionConfig, train_vision

pytestmark = pytest.mark.slow

SHAPES = {"shape": 1.0}


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Drawings:
    found = Drawings.of_split(tmp_path_factory.mktemp("vision"), "train", 2, 0, 0)
    found.draw([])
    return found


@pytest.fixture
def parts(drawings: Drawings) -> tuple[Any, FilledScreens]:
    """A small model, and screens for it."""
    from dataclasses import replace

    from generators.proving.perception.vocabulary import COLOURS, SHAPES
    from trainer.modeling.model import build_model
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor, preset
    from trainer.settings.model_shape import Shape

    shape = Shape(
        vocab_size=1400,
        hidden=64,
        layers=1,
        heads=2,
        kv_heads=2,
        intermediate=32,
        vision_hidden=64,
        vision_depth=1,
        vision_heads=2,
        vision_intermediate=64,
        deepstack=(),
        position_init=0.2,
    )
    small = replace(preset("nano"), name="small", shape=shape)
    tokenizer = train_tokenizer([f" {colour} {name}" for colour in COLOURS for name in SHAPES] * 3, 1400)
    processor = LabelledImages(tokenizer, image_processor(small), small)
    return build_model(small, tokenizer), FilledScreens(drawings, processor, {"shape": 1.0}, "0", 0.0)


def test_screens_are_full_and_nothing_overlaps_or_hangs_over(drawings: Drawings) -> None:
    sheet = read_sheet(drawings.folder / "sheets", drawings.sheets[0])
    for seed in range(20):
        screen = fill(sheet, {"shape": 1.0, "icon": 2.0, "text": 1.0}, Random(seed), SMALL_SIZES[seed % 5])
        width, height = screen.size_px
        assert len(screen.elements) >= 3
        covered = torch.zeros(height, width, dtype=torch.int64)
        for one in screen.elements:
            left, top, right, bottom = one.box
            assert left >= 0 <= top
            assert right <= width
            assert bottom <= height
            covered[top:bottom, left:right] += 1
        assert int(covered.max()) == 1


def test_tokens_learn_their_names_and_only_the_tower_changes(parts: tuple[Any, FilledScreens]) -> None:
    model, screens = parts
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = VisionConfig(max_steps=150, batch_size=8, warmup_steps=5, threads=1, bf16=False, kinds=SHAPES, spells=0)
    curve = train_vision(model, screens, config, progress=False)
    first, last = ([row["loss"] for row in part] for part in (curve[:10], curve[-10:]))
    assert sum(last) < 0.7 * sum(first)
    assert sum(row["right"] for row in curve[-10:]) / 10 > 0.2  # of 19 words
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("visual" in name for name in changed)
    batch = screens.batch(1000, 8)
    with torch.no_grad():
        seen = model.model.visual(batch.pixels, grid_thw=batch.grids).pooler_output
    length = seen.norm(dim=-1).mean()
    assert float(length) == pytest.approx(float(model.get_input_embeddings().weight.norm(dim=-1).mean()), rel=0.15)


def test_a_tower_that_was_taught_before_keeps_its_classes_and_its_size(parts: tuple[Any, FilledScreens]) -> None:
    import copy

    model, screens = copy.deepcopy(parts[0]), parts[1]
    config = VisionConfig(max_steps=12, batch_size=4, warmup_steps=1, threads=1, bf16=False, kinds=SHAPES, spells=0)
    batch = screens.batch(12, 4)

    def shown() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = model.model.visual(batch.pixels, grid_thw=batch.grids).pooler_output
        return found

    before, anchor = shown(), torch.randn_like(model.get_input_embeddings().weight)
    heads = config.changed(heads_first=12)
    train_vision(model, screens, heads, anchor=anchor, progress=False)
    assert torch.allclose(shown(), before, atol=1e-5)  # only what isn't kept has learned
    train_vision(model, screens, config, anchor=anchor, progress=False)
    after = shown()
    assert float(after.norm(dim=-1).mean()) == pytest.approx(float(before.norm(dim=-1).mean()), rel=1e-3)
    towards = [torch.cosine_similarity(one, anchor[batch.labels]).mean() for one in (before, after)]
    assert towards[1] > towards[0]


def test_a_run_goes_on_to_the_same_weights(parts: tuple[Any, FilledScreens], tmp_path: Path) -> None:
    import copy

    model, screens = parts
    whole, broken = copy.deepcopy(model), copy.deepcopy(model)
    config = VisionConfig(max_steps=6, batch_size=2, threads=1, save_steps=2, kinds=SHAPES, spells=0)
    curve = train_vision(whole, screens, config, progress=False)

    class Killed(Exception):
        pass

    def kill(event: dict[str, Any]) -> None:
        if event["step"] == 5:
            raise Killed

    with pytest.raises(Killed):
        train_vision(broken, screens, config, state_dir=tmp_path, progress=False, on_event=kill)
    again = copy.deepcopy(model)
    assert train_vision(again, screens, config, state_dir=tmp_path, progress=False) == curve
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))


def test_letters_are_learned_and_stand_where_the_patches_do(parts: tuple[Any, FilledScreens]) -> None:
    model, shapes = parts
    screens = FilledScreens(shapes._drawings, shapes._processor, {"text": 1.0}, "0", 0.5)
    batch = screens.batch(0, 2)
    assert batch.letters.shape == (len(batch.pixels), PARTS)
    shows = (batch.letters > 0).any(-1)
    inked = batch.pixels.flatten(1).std(-1) > 1e-3
    assert shows.sum() > 20
    assert inked[shows].float().mean() > 0.95  # a patch that shows a letter isn't blank, which another order would be
    config = VisionConfig(
        max_steps=120, batch_size=6, warmup_steps=5, threads=1, bf16=False, kinds={"text": 1.0}, spells=0
    )
    curve = train_vision(model, screens, config, progress=False)
    assert sum(row["spelled"] for row in curve[-10:]) / 10 > 0.15  # the most frequent letter alone: 0.1


def test_bad_settings_are_named(parts: tuple[Any, FilledScreens]) -> None:
    config = VisionConfig(max_steps=100)
    late = config.changed(warmup_steps=10, heads_first=40, final_lr_share=1.0)
    shares = [round(late.learning_rate_at(step) / late.learning_rate, 2) for step in (0, 9, 39, 40, 49, 99)]
    assert shares == [0.1, 1.0, 1.0, 0.1, 1.0, 1.0]
    assert config.learning_rate_at(99) == pytest.approx(config.learning_rate * 0.1, rel=0.1)
    with pytest.raises(ValueError, match="learning_rate: expected a number, more than 0"):
        VisionConfig(learning_rate=0.0)
    model, screens = parts
    with pytest.raises(ValueError, match="a block of 0 to 0, found 3"):
        train_vision(model, screens, VisionConfig(max_steps=1, batch_size=2, spells=3, bf16=False), progress=False)


def test_batches_made_ahead_are_the_same(parts: tuple[Any, FilledScreens]) -> None:
    screens = parts[1]
    for made, ahead in zip(screens.batches(range(3, 6), 4, 0), screens.batches(range(3, 6), 4, 2), strict=True):
        assert all(torch.equal(one, other) for one, other in zip(made, ahead, strict=True))
