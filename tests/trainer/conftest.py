"""A tiny model and processor for rows of coloured rectangles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from choice_world import taught
from drawn import draw, make_rows, scroll_rows
from made_once import made_once, run_folder

__all__ = ["draw", "make_rows"]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Matrices this small only wait for a second thread, the more so on a busy machine."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return make_rows(16)


@pytest.fixture(scope="session")
def tiny_preset() -> Any:
    from dataclasses import replace

    from trainer.presets import preset
    from trainer.settings.model_shape import Shape

    shape = Shape(
        vocab_size=1536,
        hidden=64,
        layers=2,
        heads=2,
        kv_heads=2,
        intermediate=128,
        vision_hidden=64,
        vision_depth=2,
        vision_heads=2,
        vision_intermediate=96,
        deepstack=(0,),
        pixels=96 * 128,
    )
    return replace(preset("nano"), name="tiny", shape=shape, max_pixels=96 * 128)


@pytest.fixture(scope="session")
def processor(rows: list[dict[str, Any]], tiny_preset: Any) -> Any:
    from pipelines.prompts import prompt_text
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor

    texts = [prompt_text(r["messages"]) for r in rows] + [r["answer"] for r in rows]
    return Processor(train_tokenizer(texts, 1536), image_processor(tiny_preset), tiny_preset)


@pytest.fixture(scope="session")
def habitual(tmp_path_factory: pytest.TempPathFactory, tiny_preset: Any, processor: Any) -> Path:
    """A checkpoint that has learned the form, scrolls up twice as often as down, and finishes where it should. Trained
    once a run; not to be written."""
    from trainer.data.row_sources import ListSource
    from trainer.midtrain.train import train
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model
    from trainer.settings.supervised import MidtrainConfig

    def make() -> Path:
        folder, model = run_folder(tmp_path_factory) / "habitual", build_model(tiny_preset, processor.tokenizer, seed=1)
        rows = scroll_rows(16, 1, habit=True) + make_rows(16, 1)
        settings = MidtrainConfig(max_steps=120, batch_size=16, learning_rate=4e-3, warmup_steps=5, threads=1)
        train(model, processor, ListSource(rows), settings, progress=False)
        save_checkpoint(folder, model, processor, lineage("mid_training", tiny_preset))
        return folder

    return made_once(tmp_path_factory, "habitual-checkpoint", make)


@pytest.fixture
def model(processor: Any, tiny_preset: Any) -> Any:
    from trainer.modeling.model import build_model

    return build_model(tiny_preset, processor.tokenizer, seed=1)


@pytest.fixture(scope="session")
def small() -> Any:
    from dataclasses import replace

    from trainer.presets import preset
    from trainer.settings.model_shape import Shape

    shape = Shape(
        vocab_size=1400,
        hidden=32,
        layers=2,
        heads=1,
        kv_heads=1,
        intermediate=64,
        vision_hidden=32,
        vision_depth=1,
        vision_heads=1,
        vision_intermediate=32,
        deepstack=(0,),
        pixels=64 * 64,
    )
    return replace(preset("nano"), name="small", shape=shape, max_pixels=64 * 64)


@pytest.fixture(scope="session")
def words(small: Any) -> Any:
    from pipelines.prompts import prompt_text
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor

    rows = make_rows(16)
    texts = [prompt_text(row["messages"]) for row in rows] + [row["answer"] for row in rows]
    return Processor(train_tokenizer(texts, 1400), image_processor(small), small)


@pytest.fixture(scope="session")
def start(small: Any, words: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that clicks on boxes. Trained once a run; not to be written."""
    from trainer.modeling.model import build_model

    def make() -> Path:
        model = build_model(small, words.tokenizer, seed=1)
        return taught(run_folder(tmp_path_factory) / "start", words, model, small)

    return made_once(tmp_path_factory, "start-checkpoint", make)
