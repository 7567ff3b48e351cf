"""Two ranks do what one does: same gradients, same training, resumable, whole weights in the end."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows
from two_ranks import on_two_ranks

from trainer.data.row_sources import ListSource
from trainer.midtrain.global_batch import GlobalBatches, StreamPosition
from trainer.midtrain.step import OptimiserSteps
from trainer.midtrain.train import train
from trainer.modeling.model import recompute, speed_up
from trainer.runtime.parallel import Ranks, launched, ranks
from trainer.settings.supervised import MidtrainConfig

pytestmark = [pytest.mark.real_parts, pytest.mark.slow]

CONFIG = MidtrainConfig(
    max_steps=5,
    batch_size=6,
    warmup_steps=1,
    save_steps=2,
    eval_steps=0,
    threads=1,
    max_grad_norm=1e9,
    max_length=192,
    packing_window=16,
)
FORMS: dict[str, dict[str, Any]] = {
    "padded": {"padding_free": False},
    "packed": {"packing": True, "batch_size": 3, "gradient_accumulation_steps": 2},
    "checkpointed": {"gradient_checkpointing": True, "gradient_accumulation_steps": 3},
}


def gradients(model: Any, processor: Any, config: MidtrainConfig, group: Ranks) -> tuple[dict[str, Any], list[int]]:
    """Whole gradients of the first step, and the tokens of this rank's batches."""
    from trainer.modeling.sharding import sharded

    model = sharded(model, group) if group.world > 1 else model
    recompute(model, config.gradient_checkpointing)
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate)
    given = GlobalBatches(ListSource(mixed_rows()), processor, config, group, StreamPosition()).next()
    OptimiserSteps(model.train(), processor, optimiser, config, group, bad_before=0).step(given, 0)
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    whole = {n: g.full_tensor() if hasattr(g, "full_tensor") else g.clone() for n, g in found.items()}
    return whole, [batch.tokens for batch in given.batches if batch.samples]


def mixed_rows() -> list[dict[str, Any]]:
    """Rows with and without a picture, one of them torn."""
    rows = make_rows(12, seed=5)
    rows[1] |= {"images": [], "messages": '[{"role": "user", "content": "scroll on, and on, and on"}]'}
    rows[4] |= {"images": [rows[4]["images"][0][:120]]}
    return rows


def tiny_setup() -> tuple[Any, Any]:
    from trainer.modeling.model import build_model
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor, preset
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
    tiny = replace(preset("nano"), shape=shape, max_pixels=96 * 128)
    rows = make_rows(12, seed=5)
    processor = Processor(train_tokenizer([r["answer"] for r in rows], 1536), image_processor(tiny), tiny)
    return build_model(tiny, processor.tokenizer, seed=1), processor


class Breaking(ListSource):
    """Fails at a position, as a machine would that goes down on all ranks."""

    at = 10**9

    def rows(self, start: int) -> Any:
        for index, row in enumerate(super().rows(start), start):
            if index == self.at:
                raise OSError("gone")
            yield row


def on_a_rank(folder: Path) -> None:
    """What each of two processes does."""
    torch.set_num_threads(1)
    with launched() as group:
        assert ranks() == group and group.world == 2 and group.sums([1.0, group.rank]) == [2.0, 1.0]
        tokens = {}
        for name, changes in FORMS.items():
            model, processor = tiny_setup()
            found, counts = gradients(model, processor, CONFIG.changed(**changes), group)
            tokens[name] = [counts, group.rank]
            if group.first:
                torch.save(found, folder / f"{name}.pt")
        (folder / f"tokens-{group.rank}.json").write_text(json.dumps(tokens))
        curves = []
        for attempt, at in (("whole", 10**9), ("broken", 8), ("broken", 10**9)):
            model, processor = tiny_setup()
            if not group.first:  # only the first holds a whole model
                model = type(model)(model.config).to("meta")
                speed_up(model)
            source = Breaking(mixed_rows())
            source.at = at
            events: list[dict[str, Any]] = []
            config = CONFIG.changed(batch_size=2)
            try:
                curve = train(
                    model,
                    processor,
                    source,
                    config,
                    state_dir=folder / attempt,
                    validation=mixed_rows()[:3],
                    on_event=events.append,
                    progress=False,
                )
            except OSError:
                continue
            curves.append(curve.plain())
            looks = 2 if attempt == "whole" else 1  # the one before the first step was made by the run that broke
            assert [e["kind"] for e in events if e["kind"] != "step"] == [
                *["validation"] * looks * group.first,
                "trained",
            ]
            if group.first:
                torch.save(model.state_dict(), folder / f"{attempt}-weights.pt")
        (folder / f"curves-{group.rank}.json").write_text(json.dumps(curves))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    on_two_ranks(on_a_rank, folder)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_two_ranks_give_one_ranks_gradients(form: str, two_ranks: Path) -> None:
    model, processor = tiny_setup()
    expected, tokens = gradients(model, processor, CONFIG.changed(**FORMS[form]), Ranks())
    found = torch.load(two_ranks / f"{form}.pt", weights_only=True)
    assert found.keys() == expected.keys() and len(found) > 30
    largest = max(float((found[n] - g).norm() / g.norm().clamp_min(1e-8)) for n, g in expected.items())
    assert largest <= 1e-5, largest
    counted = [json.loads((two_ranks / f"tokens-{rank}.json").read_text())[form][0] for rank in (0, 1)]
    assert sum(counted[0]) != sum(counted[1])  # the mean of two means would be another gradient
    assert sum(map(sum, counted)) == sum(tokens)


def test_the_split_into_micro_batches_changes_no_gradient() -> None:
    for packing in (False, True):
        found = []
        for parts in (1, 2, 5):
            model, processor = tiny_setup()
            config = CONFIG.changed(packing=packing, gradient_accumulation_steps=parts)
            found.append(gradients(model, processor, config, Ranks())[0])
        for other in found[1:]:
            largest = max(float((other[n] - g).norm() / g.norm().clamp_min(1e-8)) for n, g in found[0].items())
            assert largest <= 1e-6, largest


def test_parts_resume_to_the_same_curve_and_end_as_whole_weights(two_ranks: Path) -> None:
    curves = [json.loads((two_ranks / f"curves-{rank}.json").read_text()) for rank in (0, 1)]
    (whole, resumed), other = curves[0], curves[1]
    assert whole == resumed == other[0] == other[1] and len(whole["steps"]) == 5 and whole["bad_rows"] >= 0
    first, second = (torch.load(two_ranks / f"{n}-weights.pt", weights_only=True) for n in ("whole", "broken"))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    model, processor = tiny_setup()
    alone = train(
        model,
        processor,
        ListSource(mixed_rows()),
        CONFIG.changed(batch_size=2),
        progress=False,
        validation=mixed_rows()[:3],
    )
    for mine, theirs in zip(alone.steps, whole["steps"], strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4) and mine["tokens"] == theirs["tokens"]
    assert alone.validation[-1] == pytest.approx(whole["validation"][-1], rel=1e-3)
    kept = torch.load(two_ranks / "broken/state.pt", weights_only=True)
    assert kept["step"] == 5 and [path.name for path in (two_ranks / "broken").glob("state-*")] == [kept["parts"]]


def stretch(folder: Path, end: int) -> None:
    """A run goes on from its state until it fails at a position."""
    torch.set_num_threads(1)
    with launched() as group:
        model, processor = tiny_setup()
        if not group.first:
            model = type(model)(model.config).to("meta")
            speed_up(model)
        source = Breaking(mixed_rows())
        source.at = end
        with suppress(OSError):
            curve = train(model, processor, source, CHANGING, state_dir=folder / "state", progress=False)
            if group.first:
                torch.save((curve.steps, model.state_dict()), folder / "end.pt")


CHANGING = CONFIG.changed(
    batch_size=2, save_steps=1, async_save=True, learning_rate_scales={"visual": 0.5, "norm": 2.0}
)


def test_a_run_goes_on_with_fewer_ranks_and_with_more(tmp_path: Path) -> None:
    """Two ranks, one process, two ranks again, saving beside training; each fails on the way, and leaves no state but
    its own."""
    on_two_ranks(stretch, tmp_path, 4)
    state = tmp_path / "state"
    first = torch.load(state / "state.pt", weights_only=True)["step"]
    stretch(tmp_path, 9)
    second = torch.load(state / "state.pt", weights_only=True)["step"]
    assert 0 < first < second < CHANGING.max_steps
    assert {path.name for path in state.iterdir()} == {"state.pt", "runs"}
    on_two_ranks(stretch, tmp_path, 10**9)
    parts = torch.load(state / "state.pt", weights_only=True)["parts"]
    assert parts and {path.name for path in state.iterdir()} == {"state.pt", parts, "runs"}
    steps, weights = torch.load(tmp_path / "end.pt", weights_only=True)
    model, processor = tiny_setup()
    alone = train(model, processor, ListSource(mixed_rows()), CHANGING, progress=False)
    assert [step["loss"] for step in steps] == pytest.approx([step["loss"] for step in alone.steps], rel=1e-4)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=2e-4)


def test_a_process_on_its_own_needs_no_group() -> None:
    with launched() as group:
        assert group == ranks() == Ranks() and group.first and group.sums([1, 2]) == [1, 2] and group.broadcast(3) == 3
