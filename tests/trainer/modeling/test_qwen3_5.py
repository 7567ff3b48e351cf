"""Qwen3.5, whose layers are mostly linear attention, from a folder as a hub holds it: packed, sampled, trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows
from hub_folder import hub_weights, write_hub
from safetensors.torch import load_file, save_file
from tiny_published import QWEN3_5, QWEN3_5_MOE, write_tiny

from trainer.data.row_sources import ListSource
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint
from trainer.modeling.generation import generate
from trainer.modeling.model import reply_logprobs
from trainer.modeling.packing import packed
from trainer.modeling.published import load_base
from trainer.presets import preset
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[QWEN3_5, QWEN3_5_MOE])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("qwen3_5") / "tiny", request.param)


def _architecture(folder: Path) -> str:
    return str(json.loads((folder / "config.json").read_text())["architectures"][0])


@pytest.fixture
def base(folder: Path) -> tuple[Any, Any]:
    small = replace(
        preset("30b-a3b" if "moe" in _architecture(folder).lower() else "2b"), min_pixels=32 * 32, max_pixels=96 * 128
    )
    model, processor = load_base(small, folder)
    assert processor.preset.architecture == _architecture(folder)
    return model.eval(), processor


def test_logits_of_a_packed_row_are_those_of_plain_transformers(folder: Path, base: tuple[Any, Any]) -> None:
    from transformers import AutoModelForImageTextToText

    model, processor = base
    plain = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    rows = make_rows(5, seed=3)
    batch = processor.training_batch(rows)
    with torch.no_grad():
        found = reply_logprobs(model, packed(batch))
        padded = reply_logprobs(model, batch)
        torch.testing.assert_close(found.logprobs, padded.logprobs, rtol=1e-4, atol=1e-4)
        for number, row in enumerate(rows):
            alone = processor.training_batch([row])
            logits = plain(**alone.model_inputs()).logits[0]
            places = (alone.labels[0] != -100).nonzero()[:, 0]
            said = torch.log_softmax(logits[places - 1], -1).gather(1, alone.labels[0, places][:, None])[:, 0]
            torch.testing.assert_close(found.logprobs[number, : len(said)], said, rtol=1e-4, atol=1e-4)


def test_transformers_alone_refuses_a_packed_row_without_its_kernels(base: tuple[Any, Any]) -> None:
    model, processor = base
    flat = packed(processor.training_batch(make_rows(3, seed=3)))
    for layer in model.model.language_model.layers:
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.forward = layer.linear_attn.forward.args[0]
    with pytest.raises(ValueError, match="can't keep packed sequences apart"), torch.no_grad():
        reply_logprobs(model, flat)


def test_sampled_logprobs_are_those_of_training_and_greedy_is_transformers(folder: Path, base: tuple[Any, Any]) -> None:
    from transformers import AutoModelForImageTextToText

    model, processor = base
    rows = make_rows(3, seed=5)
    sampled = generate(
        model, processor, rows, group=2, temperature=1.0, max_new_tokens=9, generator=torch.Generator().manual_seed(1)
    )
    replied = [rows[one.row] for one in sampled]
    batch = processor.reply_batch(replied, [one.token_ids for one in sampled])
    with torch.no_grad():
        again = reply_logprobs(model, packed(batch), never=processor.never)
    for number, one in enumerate(sampled):
        assert again.logprobs[number, : len(one.logprobs)].tolist() == pytest.approx(one.logprobs, abs=1e-4)
    plain = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    [greedy] = generate(model, processor, rows[:1], max_new_tokens=8)
    inputs = processor.prompt_batch(rows[:1]).model_inputs()
    made = plain.generate(**inputs, do_sample=False, max_new_tokens=8, suppress_tokens=processor.never)
    assert made[0, inputs["input_ids"].shape[1] :].tolist()[: len(greedy.token_ids)] == greedy.token_ids


def test_it_learns_and_is_saved_in_its_own_form(folder: Path, base: tuple[Any, Any], tmp_path: Path) -> None:
    model, processor = base
    rows = make_rows(4, seed=1)[:2]
    config = MidtrainConfig(
        max_steps=6, batch_size=2, learning_rate=5e-3, sigma=(0, 0), eval_steps=0, threads=1, packing=True
    )
    curve = train(model, processor, ListSource(rows), config, progress=False)
    assert curve.steps[-1]["loss"] < 0.8 * curve.steps[0]["loss"]
    save_checkpoint(tmp_path / "saved", model, processor, lineage("mid_trained", processor.preset))
    source, saved = (load_file(at / "model.safetensors") for at in (folder, tmp_path / "saved"))
    assert {name: tensor.shape for name, tensor in saved.items()} == {name: t.shape for name, t in source.items()}
    again = load_checkpoint(tmp_path / "saved")
    batch = processor.training_batch(rows)
    with torch.no_grad():
        torch.testing.assert_close(
            reply_logprobs(again.model, batch).logprobs, reply_logprobs(model, batch).logprobs, rtol=2e-2, atol=2e-2
        )


@pytest.mark.parametrize("experts", ["dense", "together", "each alone"])
def test_unchanged_weights_go_out_bit_for_bit(experts: str, tmp_path: Path) -> None:
    """With the head that predicts ahead, which no model here holds; experts by the names that the folder has."""
    hub = write_hub(tmp_path / "hub", QWEN3_5 if experts == "dense" else QWEN3_5_MOE)
    if experts == "each alone":
        save_file(_each_alone(hub_weights(hub)), hub / "model.safetensors", {"format": "pt"})
        for path in hub.glob("model*-of-*"):
            path.unlink()
        (hub / "model.safetensors.index.json").unlink()
    small = replace(preset("2b" if experts == "dense" else "30b-a3b"), min_pixels=32 * 32, max_pixels=96 * 128)
    model, processor = load_base(small, hub)
    save_checkpoint(tmp_path / "base", model, processor, lineage("base", processor.preset))
    before, after = hub_weights(hub), hub_weights(tmp_path / "base")
    assert set(before) == set(after) and "mtp.fc.weight" in after
    assert all(torch.equal(after[name], one) and after[name].dtype == one.dtype for name, one in before.items())
    again = load_checkpoint(tmp_path / "base")
    with torch.no_grad():
        for one in again.model.parameters():
            one.add_(1e-4)  # less than bfloat16 holds of most
    save_checkpoint(tmp_path / "trained", again.model, again.processor, lineage("mid_trained", processor.preset))
    last = load_checkpoint(tmp_path / "trained").model.state_dict()
    assert all(torch.equal(last[name], one) for name, one in again.model.state_dict().items())


def _each_alone(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As transformers 5 writes a mixture's experts."""
    found = {name: one for name, one in weights.items() if ".mlp.experts." not in name}
    for name, one in weights.items():
        if name.endswith("gate_up_proj"):
            halves = [(part, one[:, at : at + 24]) for part, at in (("gate_proj", 0), ("up_proj", 24))]
        else:
            halves = [("down_proj", one)] if ".mlp.experts." in name else []
        for part, all_of_them in halves:
            place = name.rpartition(".")[0]
            found |= {f"{place}.{number}.{part}.weight": own.clone() for number, own in enumerate(all_of_them)}
    return found
