"""Mid-training: it learns, it repeats itself bit by bit, and a killed run resumes to the same weights."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import kill_myself, run_until_killed

from trainer.data.row_sources import ListSource
from trainer.midtrain.loss import token_losses, validate
from trainer.midtrain.schedule import learning_rate, sigma_at
from trainer.midtrain.train import train
from trainer.modeling.batches import BadSample
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CONFIG = MidtrainConfig(
    max_steps=6, batch_size=4, warmup_steps=2, save_steps=2, eval_steps=3, learning_rate=3e-3, threads=1
)


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_overfits_a_handful_of_samples(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    from trainer.modeling.generation import generate

    few = rows[:4]
    config = CONFIG.changed(max_steps=120, sigma=(0.0, 0.0), eval_steps=0)
    before = validate(model, processor, few)["all"]
    curve = train(model, processor, ListSource(few), config, progress=False)
    assert validate(model, processor, few)["all"] < 0.05 < 1.0 < before
    assert len(curve.steps) == 120
    assert [c.text for c in generate(model, processor, few)] == [row["answer"] for row in few]


def test_two_runs_have_the_same_curve_and_weights(processor: Any, rows: list[dict[str, Any]], tiny_preset: Any) -> None:
    from trainer.modeling.model import build_model

    runs = []
    for _ in range(2):
        fresh = build_model(tiny_preset, processor.tokenizer, seed=4)
        torch.rand(3)  # the global generator does not matter
        curve = train(fresh, processor, ListSource(rows), CONFIG, validation=rows[:4], progress=False)
        runs.append((curve.plain(), weights(fresh)))
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(tensor, runs[1][1][name]) for name, tensor in runs[0][1].items())
    assert [v["step"] for v in runs[0][0]["validation"]] == [0, 3, 6]
    assert {"all", "grounding", "navigation"} <= set(runs[0][0]["validation"][0])
    assert not any("second" in key for step in runs[0][0]["steps"] for key in step)  # no wall time in what is kept


def test_events_carry_speed_and_loss(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    events: list[dict[str, Any]] = []
    train(model, processor, ListSource(rows), CONFIG, on_event=events.append, validation=rows[:2], progress=False)
    steps = [event for event in events if event["kind"] == "step"]
    assert [event["step"] for event in steps] == list(range(1, 7)) and all(event["tokens_per_s"] > 0 for event in steps)
    assert [event["step"] for event in events if event["kind"] == "validation"] == [0, 3, 6]
    json.dumps(events)


STEPS = 5
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "packed": {
        "packing": True,
        "max_length": 160,
        "packing_window": 8,
        "batch_size": 3,
        "gradient_accumulation_steps": 2,
    },
}


def train_both(folder: Path, preset: Any, rows: list[dict[str, Any]], after_step: Callable[[str, int], None]) -> None:
    """Train one model in either form after the other; weights and curves go into the folder."""
    from safetensors.torch import save_file

    from trainer.modeling.model import build_model
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor

    folder.mkdir(exist_ok=True)
    processor = Processor(train_tokenizer([r["answer"] for r in rows], 1536), image_processor(preset), preset)
    model = build_model(preset, processor.tokenizer, seed=1)
    made: dict[str, torch.Tensor] = {}
    for form, changes in FORMS.items():
        config = MidtrainConfig(max_steps=STEPS, batch_size=4, warmup_steps=2, save_steps=2, eval_steps=0, threads=1)

        def event(found: dict[str, Any], form: str = form) -> None:
            if found["kind"] == "step":
                after_step(form, found["step"])

        curve = train(
            model,
            processor,
            ListSource(rows),
            config.changed(**changes),
            state_dir=folder / form,
            on_event=event,
            progress=False,
        )
        made |= {f"{form}.{name}": tensor for name, tensor in weights(model).items() if name != "lm_head.weight"}
        (folder / f"{form}.json").write_text(json.dumps(curve.plain()))
    save_file(made, folder / "model.safetensors")


def train_until(folder: Path, preset: Any, rows: list[dict[str, Any]], end: tuple[str, int]) -> None:
    """As `train_both`, and die after that form's step."""
    train_both(folder, preset, rows, lambda *at: kill_myself() if at == end else None)


def test_killed_and_resumed_gives_the_same_bytes(tmp_path: Path, tiny_preset: Any, rows: list[dict[str, Any]]) -> None:
    """Killed after a random step of either form: the weights and the whole curve are those of an unbroken run."""
    form, step = random.choice(("plain", "packed")), random.randint(1, STEPS - 1)
    run_until_killed(train_until, tmp_path / "killed", tiny_preset, rows, (form, step))
    assert not (tmp_path / "killed/model.safetensors").exists()
    done: list[tuple[str, int]] = []
    train_both(tmp_path / "killed", tiny_preset, rows, lambda *at: done.append(at))
    kept = (step - 1) // 2 * 2 + (STEPS if form == "packed" else 0)  # saved every second step, after its event
    assert len(done) <= 2 * STEPS - kept, (form, step, done)
    train_both(tmp_path / "whole", tiny_preset, rows, lambda *at: done.append(at))
    for name in ("model.safetensors", "plain.json", "packed.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), (form, step)


def test_a_state_of_another_config_is_not_taken_up(
    processor: Any, rows: list[dict[str, Any]], tiny_preset: Any, tmp_path: Path
) -> None:
    from trainer.modeling.model import build_model

    def steps_run(config: MidtrainConfig) -> int:
        fresh = build_model(tiny_preset, processor.tokenizer, seed=4)
        events: list[dict[str, Any]] = []
        train(fresh, processor, ListSource(rows), config, state_dir=tmp_path, on_event=events.append, progress=False)
        return sum(event["kind"] == "step" for event in events)

    short = CONFIG.changed(max_steps=3)
    assert [steps_run(short), steps_run(short), steps_run(short.changed(learning_rate=1e-3))] == [3, 0, 3]


def test_bfloat16_is_near_float32_and_keeps_float32_weights(
    processor: Any, rows: list[dict[str, Any]], tiny_preset: Any
) -> None:
    from trainer.modeling.model import build_model

    losses = []
    for bf16 in (None, False, True):
        fresh = build_model(tiny_preset, processor.tokenizer, seed=4)
        curve = train(fresh, processor, ListSource(rows), CONFIG.changed(max_steps=3, bf16=bf16), progress=False)
        losses.append([step["loss"] for step in curve.steps])
        assert {parameter.dtype for parameter in fresh.parameters()} == {torch.float32}
    assert losses[0] == losses[1] != losses[2] and losses[2] == pytest.approx(losses[1], rel=0.02)


def test_learning_rate_warms_up_and_falls() -> None:
    config = MidtrainConfig(max_steps=101, warmup_steps=10, learning_rate=1.0, final_lr_share=0.1)
    rates = [learning_rate(step, config) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.55) and rates[100] == pytest.approx(0.1)  # half way: mean of 1 and 0.1


def test_coordinate_targets_forgive_neighbours_more_than_strangers(
    model: Any, processor: Any, rows: list[dict[str, Any]]
) -> None:
    """Σ over coordinates of −Σ_j t_j log p_j; for sigma → 0 it is plain cross entropy."""
    batch = processor.training_batch(rows[:2])
    plain, _, _ = token_losses(model, processor, batch)
    narrow, _, _ = token_losses(model, processor, batch, sigma=0.01)
    wide, _, _ = token_losses(model, processor, batch, sigma=50.0)
    torch.testing.assert_close(plain, narrow)
    places = batch.coordinate[batch.labels != -100]
    assert (
        places.sum() == 4
        and torch.equal(plain[~places], wide[~places])
        and not torch.equal(plain[places], wide[places])
    )
    config = MidtrainConfig(max_steps=11, warmup_steps=1, sigma=(60.0, 15.0))
    assert [sigma_at(s, config) for s in (0, 5, 10)] == pytest.approx([60, 30, 15])  # geometric


def test_weights_of_zero_take_no_part(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    batch = processor.training_batch(rows[:2])
    losses, weight, owners = token_losses(model, processor, batch)
    batch.weights[1] = 0
    mine = owners == 0
    expected = (losses * weight)[mine].sum() / weight[mine].sum()
    losses, weight, _ = token_losses(model, processor, batch)
    torch.testing.assert_close((losses * weight).sum() / weight.sum(), expected)


def test_bad_rows_are_counted_and_passed_over(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    mixed = [*rows[:5], {**rows[5], "images": [b"broken"]}]
    curve = train(model, processor, ListSource(mixed), CONFIG.changed(max_steps=3), progress=False)
    assert curve.bad_rows >= 2  # 12 good rows take more than two epochs of six
    with pytest.raises(BadSample):
        train(model, processor, ListSource([mixed[-1]]), CONFIG, progress=False)


def test_the_order_is_a_pure_function_of_the_position(rows: list[dict[str, Any]]) -> None:
    from itertools import islice

    source = ListSource(rows, seed=3)
    whole = [row["sample_id"] for row in islice(source.rows(0), 40) if row]
    assert [row["sample_id"] for row in islice(source.rows(21), 19) if row] == whole[21:]
    assert sorted(whole[:16]) == sorted(row["sample_id"] for row in rows) and whole[:16] != whole[16:32]


def test_config_refuses_contradictions_and_unknown_keys() -> None:
    assert (
        MidtrainConfig.parsed({"max_steps": 3, "warmup_steps": 1, "sigma": [5, 5], "spans": {"tag": 0.1}}).spans.tag
        == 0.1
    )
    for wrong in ({"max_steps": 0}, {"max_steps": 3, "warmup_steps": 9}, {"lr": 1}):
        with pytest.raises(ValueError, match=r"expected|unknown"):
            MidtrainConfig.parsed(wrong)


def test_a_short_run_needs_no_warmup_setting() -> None:
    assert [MidtrainConfig.parsed({"max_steps": steps}).warmup_steps for steps in (1, 12, 400)] == [0, 1, 20]
    assert (
        MidtrainConfig.parsed({}).warmup_steps == MidtrainConfig().warmup_steps
        and MidtrainConfig.parsed({"warmup_steps": 0}).warmup_steps == 0
    )
