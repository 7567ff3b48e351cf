"""Engines of mid-training: TRL's trainer goes through the same rows to the same losses as our own loop."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_published import write_tiny

from trainer.data.row_sources import ListSource
from trainer.midtrain import trl_engine
from trainer.midtrain.engines import engine
from trainer.midtrain.train import Curve
from trainer.modeling.adapters import add_adapters, merge_adapters, save_adapters
from trainer.modeling.published import load_base
from trainer.presets import preset
from trainer.settings.supervised import MidtrainConfig, MidtrainLora

pytestmark = pytest.mark.slow

CONFIG = MidtrainConfig(
    max_steps=4, batch_size=4, warmup_steps=2, save_steps=2, eval_steps=2, learning_rate=3e-3, threads=1, sigma=(0, 0)
)
LORA = MidtrainLora(rank=4, alpha=8)


def run(name: str, model: Any, processor: Any, rows: Any, config: MidtrainConfig, **more: Any) -> tuple[Any, Curve]:
    trained = copy.deepcopy(model)
    if config.lora.rank:
        add_adapters(trained, config.lora)
    curve = engine(name)(trained, processor, ListSource(rows, 3), config, validation=rows[:4], progress=False, **more)
    return trained, curve


def losses(curve: Curve) -> list[float]:
    return [step["loss"] for step in curve.steps]


@pytest.mark.parametrize(
    "other",
    [{}, {"packing": True, "max_length": 400}, {"gradient_accumulation_steps": 2}, {"padding_free": False}],
    ids=["padding-free", "packed", "micro-batches", "padded"],
)
def test_both_engines_go_through_the_same_losses(
    model: Any, processor: Any, rows: list[dict[str, Any]], other: dict[str, Any]
) -> None:
    rows = [*rows[:6], {**rows[6], "images": [b"broken"]}, *rows[7:]]
    config = CONFIG.changed(**other)
    told: dict[str, list[dict[str, Any]]] = {"own": [], "trl": []}
    (own, before), (trl, after) = (
        run(name, model, processor, rows, config, on_event=told[name].append) for name in told
    )
    assert losses(after) == pytest.approx(losses(before), abs=1e-4)
    assert losses(before)[-1] < losses(before)[0]
    same = ("step", "tokens", "samples", "learning_rate")
    assert [[s[key] for key in same] for s in after.steps] == [[s[key] for key in same] for s in before.steps]
    assert [s["grad_norm"] for s in after.steps] == pytest.approx([s["grad_norm"] for s in before.steps], rel=1e-3)
    assert after.bad_rows == before.bad_rows
    # the work of a token, whatever time it took
    work = [[e["tflops"] / e["tokens_per_s"] for e in told[name] if e["kind"] == "step"] for name in told]
    assert len(work[0]) == 4 and work[1] == pytest.approx(work[0], rel=1e-6)
    assert [v["all"] for v in after.validation] == pytest.approx([v["all"] for v in before.validation], abs=1e-3)
    assert [v["step"] for v in after.validation] == [0, 2, 4]
    for one, other_one in zip(own.state_dict().values(), trl.state_dict().values(), strict=True):
        assert torch.allclose(one, other_one, atol=2e-4)


def test_experts_of_a_mixture_are_balanced_by_neither(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """Their configuration has a weight for that, which TRL would take up."""
    small = replace(preset("30b-a3b"), min_pixels=32 * 32, max_pixels=96 * 128)
    model, processor = load_base(small, write_tiny(tmp_path / "hub", "moe"))
    (_, before), (_, after) = (run(name, model, processor, rows, CONFIG) for name in ("own", "trl"))
    assert losses(after) == pytest.approx(losses(before), abs=1e-4)


def test_a_killed_run_of_trl_goes_on(model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(event: dict[str, Any]) -> None:
        if event["kind"] == "step" and event["step"] == 3:
            raise Killed

    _, whole = run("trl", model, processor, rows, CONFIG)
    with pytest.raises(Killed):
        run("trl", model, processor, rows, CONFIG, state_dir=tmp_path, on_event=kill)
    _, again = run("trl", model, processor, rows, CONFIG, state_dir=tmp_path)
    assert losses(again) == pytest.approx(losses(whole), abs=1e-6)
    assert [v["step"] for v in again.validation] == [0, 2, 4]
    seen: list[int] = []
    run("trl", model, processor, rows, CONFIG.changed(seed=5), state_dir=tmp_path, on_event=lambda e: seen.append(1))
    assert len(seen) > 4  # a run of other settings begins anew


@pytest.mark.parametrize("name", ["own", "trl"])
def test_adapters_learn_alone_and_peft_loads_them(
    name: str, model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    from peft import PeftModel

    trained, curve = run(name, model, processor, rows, CONFIG.changed(lora=LORA, max_steps=6, learning_rate=0.02))
    assert losses(curve)[-1] < losses(curve)[0]
    save_adapters(tmp_path, trained, LORA)
    base = dict(model.named_parameters())
    learned = {n for n, p in trained.named_parameters() if "lora_" in n and p.abs().max() > 0}
    assert len(learned) == sum("lora_" in n for n, _ in trained.named_parameters()) == 28  # 2 blocks of 7 modules
    for name_of, weight in trained.named_parameters():
        if "lora_" not in name_of:
            assert torch.equal(weight, base[name_of.replace(".base_layer", "")])
    inputs = processor.training_batch(rows[:2]).model_inputs()
    with torch.no_grad():
        beside = PeftModel.from_pretrained(copy.deepcopy(model), str(tmp_path)).eval()(**inputs).logits
        merge_adapters(trained)
        assert set(trained.state_dict()) == set(model.state_dict())
        assert torch.allclose(trained(**inputs).logits, beside, atol=1e-5)
        assert not torch.allclose(beside, model(**inputs).logits, atol=1e-3)


@pytest.mark.parametrize("wrong", [{"sigma": (40, 15)}, {"image_blocks": 1}, {"router_aux_loss_coef": 1e-3}])
def test_trl_says_what_it_cannot_do(model: Any, processor: Any, rows: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"engine trl: expected sigma \[0, 0\], image_blocks 0 and router_aux_loss_coef 0, found"
    ):
        run("trl", model, processor, rows, CONFIG.changed(**wrong))


@pytest.mark.parametrize(("given", "said"), [({"max_steps": 3}, "max_steps"), ({"no_such": 1}, "no_such")])
def test_arguments_of_trl_that_are_ours_or_unknown_are_told(
    model: Any, processor: Any, rows: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=rf"^midtrain\.trl: .*{said}"):
        run("trl", model, processor, rows, CONFIG.changed(trl=given))
    trained, _ = run("trl", model, processor, rows, CONFIG.changed(trl={"lr_scheduler_type": "linear"}))
    assert not torch.equal(trained.state_dict()["lm_head.weight"], model.state_dict()["lm_head.weight"])


@pytest.mark.parametrize("asked", ["setting", "launcher"])
def test_a_file_of_deepspeed_is_handed_on_and_told_where_the_package_is_absent(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`midtrain.trl.deepspeed` names it, or `accelerate launch` says so to its processes."""
    given = {"deepspeed": "zero3.json"} if asked == "setting" else {}
    if asked == "launcher":
        monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    config, cpu = CONFIG.changed(engine="trl", trl=given), torch.device("cpu")
    found: dict[str, Any] = {}
    monkeypatch.setattr(trl_engine, "SFTConfig", lambda **arguments: found.update(arguments))
    monkeypatch.setattr(trl_engine, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^midtrain\.trl: deepspeed: expected the package, .*pip install deepspeed$"):
        trl_engine._arguments(config, cpu, None, progress=False)
    assert not found
    monkeypatch.setattr(trl_engine, "find_spec", lambda name: name)
    trl_engine._arguments(config, cpu, None, progress=False)
    assert found.get("deepspeed") == given.get("deepspeed") and found["max_steps"] == CONFIG.max_steps
