"""The weights that come with nano: whole, told by their lineage, past the gate, and seeing what training never saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer.modeling.checkpoint import load_checkpoint, read_lineage
from trainer.modeling.tensors import WeightFiles
from trainer.presets import NANO_BASE
from trainer.proving.nano_base.build import GATE
from trainer.proving.nano_base.curriculum import CURRICULUM, FROM_WEIGHTS, NanoBaseConfig
from trainer.proving.nano_base.gate import gate
from trainer.proving.nano_base.source import Drawings
from trainer.stages.settings import weights_folder

pytestmark = pytest.mark.slow


def test_they_tell_what_they_were_made_of() -> None:
    made = read_lineage(NANO_BASE)
    assert made["stage"] == "nano_base"
    scratch = CURRICULUM[: [phase.name for phase in CURRICULUM].index("settle") + 1]
    # what the weights went through: up to `settle` from random ones, from those `kits` and `missing`, numbered anew,
    # and from the result, the weights of before, `apps`
    phases = {f"{n}-{phase.name}" for some in (scratch, FROM_WEIGHTS[:-1]) for n, phase in enumerate(some, 2)}
    assert set(made["metrics"]["loss"]) == phases | {f"2-{FROM_WEIGHTS[-1].name}"}
    assert set(made["parents"]) == {"nano_base/2-look"}
    assert sum(path.stat().st_size for path in NANO_BASE.iterdir()) < 12_000_000
    assert weights_folder("nano_base") == str(NANO_BASE) and weights_folder("") == ""


def test_they_passed_the_gate() -> None:
    found = json.loads((NANO_BASE / GATE).read_text(encoding="utf-8"))
    mixed = found["lessons"]["mixed"]
    assert found["passed"] and mixed["present"]["n"] >= 150
    assert mixed["present"]["mean"] >= 3 * mixed["controls"]["random_element"]["mean"]
    assert mixed["controls"]["blind"]["mean"] <= 0.05 and mixed["controls"]["swapped"]["mean"] <= 0.05


@pytest.mark.parametrize(("lesson", "unseen"), [("kits", 0.03), ("kits_held_out", 0.03), ("apps", 0.1)])
def test_they_read_real_fonts(lesson: str, unseen: float) -> None:
    """Also of page families, fonts and looks that training never showed: by sight, since another page's picture and a
    table without pictures hit next to nothing. Our own apps are few, and a name has its usual places in them."""
    found = json.loads((NANO_BASE / GATE).read_text(encoding="utf-8"))["lessons"][lesson]
    assert found["present"]["n"] >= 150
    assert found["present"]["low"] > found["controls"]["random_element"]["high"]
    assert found["controls"]["blind"]["mean"] <= unseen and found["controls"]["swapped"]["mean"] <= unseen


def test_they_load_in_transformers_as_they_are() -> None:
    import torch
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

    model = Qwen3VLForConditionalGeneration.from_pretrained(NANO_BASE, dtype=torch.float32)
    ours = load_checkpoint(NANO_BASE)
    assert len(AutoTokenizer.from_pretrained(str(NANO_BASE))) == model.config.text_config.vocab_size
    for name, tensor in ours.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name
    assert len(WeightFiles(NANO_BASE).digest()) == 64


@pytest.mark.timeout(240)
def test_they_see_on_sheets_drawn_now(tmp_path: Path) -> None:
    """Other sheets than those of the gate and of training; two lessons, few questions: a long way from chance."""
    config = NanoBaseConfig(gate_rows=48, gated=("icons", "mixed"), threads=1)
    seen = Drawings.of_split(tmp_path, "unseen-a", 2, 0, 0)
    found = gate(NANO_BASE, seen, Drawings.of_split(tmp_path, "unseen-b", 3, 0, 0), config)
    icons, mixed = found["lessons"]["icons"], found["lessons"]["mixed"]
    assert icons["present"]["mean"] >= 0.7
    assert mixed["present"]["mean"] >= 2 * mixed["controls"]["random_element"]["mean"]
    assert mixed["controls"]["swapped"]["mean"] <= 0.15
