"""QLoRA: adapters learn above a decoder in 4 bits, and end in the weights as they were."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.data.row_sources import ListSource
from trainer.midtrain.engines import engine
from trainer.modeling.adapters import add_adapters, merge_adapters
from trainer.modeling.checkpoint import lineage, save_checkpoint
from trainer.modeling.quantised import load_in_four_bits, move_adapters
from trainer.runtime.parallel import Ranks
from trainer.settings.offline import OfflineConfig
from trainer.settings.supervised import MidtrainConfig, MidtrainLora

LORA = MidtrainLora(rank=4, alpha=8, quantisation="nf4")
CONFIG = MidtrainConfig(
    max_steps=6,
    batch_size=4,
    warmup_steps=1,
    save_steps=2,
    eval_steps=0,
    learning_rate=0.02,
    threads=1,
    sigma=(0, 0),
    engine="trl",
    lora=LORA,
)


@pytest.fixture
def folder(model: Any, processor: Any, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "start", model, processor, lineage("base", processor.preset))
    return tmp_path / "start"


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"lora\.quantisation nf4: expected the package bitsandbytes .* found none"):
        load_in_four_bits(tmp_path, "cpu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr("trainer.modeling.quantised.ranks", lambda: Ranks(0, 2))
    with pytest.raises(ValueError, match=r"lora\.quantisation nf4: expected one process, found 2 ranks"):
        load_in_four_bits(tmp_path, "cpu")


@pytest.mark.parametrize("other", [{"engine": "own"}, {"lora": MidtrainLora(quantisation="nf4")}])
def test_what_contradicts_it_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected engine trl and lora\.rank above 0 with lora\.quantisation nf4"):
        CONFIG.changed(**other)
    with pytest.raises(ValueError, match="unknown 'quantisation'"):  # whose replies are drawn by the weights that learn
        OfflineConfig.parsed({"domain": "web", "lora": {"rank": 4, "quantisation": "nf4"}})


@pytest.mark.slow
def test_adapters_above_four_bits_learn_and_end_in_the_weights_as_they_were(
    folder: Path, model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    bnb = pytest.importorskip("bitsandbytes", reason="QLoRA needs bitsandbytes")
    trained = load_in_four_bits(folder, "cpu")
    kinds = {name: type(module) for name, module in trained.named_modules() if name.endswith("_proj")}
    assert kinds and all(kind is bnb.nn.Linear4bit for kind in kinds.values())
    assert not any(isinstance(module, bnb.nn.Linear4bit) for module in trained.model.visual.modules())
    add_adapters(trained, LORA)
    curve = engine("trl")(
        trained,
        processor,
        ListSource(rows, 3),
        CONFIG,
        state_dir=tmp_path / "state",
        validation=rows[:4],
        progress=False,
    )
    assert curve.validation[-1]["all"] < curve.validation[0]["all"] - 0.05
    merged = copy.deepcopy(model)
    add_adapters(merged, LORA)
    move_adapters(trained, merged)
    merge_adapters(merged)
    before, after = model.state_dict(), merged.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert before.keys() == after.keys() and len(changed) == len(kinds)
    inputs = processor.training_batch(rows[:2]).model_inputs()
    with torch.no_grad():
        apart = (merged(**inputs).logits - trained(**inputs).logits).abs().mean()
        moved = (merged(**inputs).logits - model(**inputs).logits).abs().mean()
    assert apart < moved / 2, "they differ by what 4 bits round off alone"


@pytest.mark.slow
def test_a_killed_run_goes_on(folder: Path, processor: Any, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="QLoRA needs bitsandbytes")

    class Killed(Exception):
        pass

    def kill(event: dict[str, Any]) -> None:
        if event["kind"] == "step" and event["step"] == 5:
            raise Killed

    def run(state: Path | None, on_event: Any = None) -> list[float]:
        trained = load_in_four_bits(folder, "cpu")
        add_adapters(trained, LORA)
        given: dict[str, Any] = {"state_dir": state, "on_event": on_event, "progress": False}
        curve = engine("trl")(trained, processor, ListSource(rows, 3), CONFIG, **given)
        return [step["loss"] for step in curve.steps]

    whole = run(None)
    with pytest.raises(Killed):
        run(tmp_path / "state", kill)
    seen: list[int] = []
    again = run(tmp_path / "state", lambda event: seen.append(event["step"]) if event["kind"] == "step" else None)
    assert seen == [5, 6] and again == pytest.approx(whole, abs=1e-5)
