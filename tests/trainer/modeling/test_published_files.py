"""What began as a published folder is saved as one: its files byte for byte, its weights in its dtypes and shards, and
beside them what bfloat16 rounded off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_folder import COMPANIONS, hub_weights, write_hub
from safetensors.torch import load_file, save_file
from tiny_published import KINDS, write_tiny

from trainer.merging.merge import merge
from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint
from trainer.modeling.published import load_base
from trainer.modeling.published_files import usable_weights
from trainer.modeling.tensors import REMAINDER, CheckpointMismatch, WeightFiles, remainder, rounded, unrounded
from trainer.presets import Preset, preset

OLDER = os.environ.get("VESPER_TRANSFORMERS4_PYTHON", "")
"""An interpreter with torch and transformers 4.57, which contradicts our pins."""
FORMS = [("dense", 24, 1), ("dense", 24, 2), ("moe", 24, 3), ("moe", 32, 1), ("moe", 64, 2)]
"""Kind, width of an expert (hidden states are 64 wide: twice it, or it, may be as wide), shards."""


def wanted(kind: str, pixels: int = 96 * 128) -> Preset:
    return replace(preset(KINDS[kind]), max_pixels=pixels, min_pixels=32 * 32)


def saved(source: Path, folder: Path, kind: str, pixels: int = 96 * 128) -> Path:
    """The base of a published folder."""
    model, processor = load_base(wanted(kind, pixels), source)
    save_checkpoint(folder, model, processor, lineage("base", processor.preset))
    return folder


def trained(start: Path, folder: Path, step: float, seed: int = 0) -> dict[str, torch.Tensor]:
    """A checkpoint whose weights moved by about `step` → its float32 weights."""
    loaded = load_checkpoint(start)
    torch.manual_seed(seed)
    with torch.no_grad():
        for one in loaded.model.parameters():
            one.add_(torch.randn_like(one) * step)
    save_checkpoint(folder, loaded.model, loaded.processor, lineage("mid_trained", loaded.processor.preset))
    return {name: one.detach().clone() for name, one in loaded.model.named_parameters()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "width", "shards"), FORMS)
def test_unchanged_weights_are_the_published_folder(kind: str, width: int, shards: int, tmp_path: Path) -> None:
    hub = write_hub(tmp_path / "hub", kind, moe_width=width, shards=shards)
    base = saved(hub, tmp_path / "base", kind)
    loaded = load_checkpoint(base)
    save_checkpoint(tmp_path / "again", loaded.model, loaded.processor, loaded.lineage)
    files = {path.name for path in hub.iterdir()}
    for folder in (base, tmp_path / "again"):
        assert {path.name for path in folder.iterdir()} == files | {"preset.json", "lineage.json"}
        assert [name for name in COMPANIONS if (folder / name).read_bytes() != (hub / name).read_bytes()] == []
        assert same(hub_weights(folder), hub_weights(hub))
        assert all(one.dtype == torch.bfloat16 for one in hub_weights(folder).values())
        if shards > 1:
            index = "model.safetensors.index.json"
            assert json.loads((folder / index).read_text()) == json.loads((hub / index).read_text())


def test_other_pixels_change_their_size_and_nothing_else(tmp_path: Path) -> None:
    hub = write_hub(tmp_path / "hub", "dense")
    base = saved(hub, tmp_path / "base", "dense", 64 * 96)
    before, after = (json.loads((f / "preprocessor_config.json").read_text()) for f in (hub, base))
    size = {"shortest_edge": 32 * 32, "longest_edge": 64 * 96}
    assert after == {**before, "size": size, "min_pixels": 32 * 32, "max_pixels": 64 * 96}
    assert load_checkpoint(base).processor.images.size["longest_edge"] == 64 * 96
    assert (base / "video_preprocessor_config.json").read_bytes() == (
        hub / "video_preprocessor_config.json"
    ).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_stages_go_on_from_float32_and_others_read_bfloat16(kind: str, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    base = saved(write_hub(tmp_path / "hub", kind), tmp_path / "base", kind)
    weights = trained(base, tmp_path / "mid", 1e-6)
    assert all(one.dtype == torch.bfloat16 for one in hub_weights(tmp_path / "mid").values())
    again = load_checkpoint(tmp_path / "mid")
    assert same(dict(again.model.named_parameters()), weights)
    plain: Any = AutoModelForImageTextToText.from_pretrained(tmp_path / "mid")
    assert plain.dtype == torch.bfloat16
    moved = max(
        float((one.float() - weights[name]).abs().max()) for name, one in plain.state_dict().items() if name in weights
    )
    assert 0 < moved < 2**-7  # half a last place of the largest weights
    shutil.rmtree(tmp_path / "mid" / REMAINDER)
    assert same(
        dict(load_checkpoint(tmp_path / "mid").model.named_parameters()),
        {name: one.float() for name, one in plain.named_parameters()},
    )


def test_a_value_and_what_is_left_over_of_it_are_whole() -> None:
    bits = torch.randint(-(2**31), 2**31 - 1, (1 << 16,), generator=torch.Generator().manual_seed(0)).to(torch.int32)
    ties = (torch.arange(0x3F80, 0x4080) << 16) + 0x8000  # halfway between two bfloat16
    values = torch.cat([bits, ties.to(torch.int32), -(2**31) + ties.to(torch.int32)]).view(torch.float32)
    values = torch.cat([values[values.isfinite()], torch.tensor([0.0, -0.0, 1e-45, -1e-45, 65504.0])])
    near = rounded(values, "BF16")
    assert torch.equal(unrounded(near, remainder(values)).view(torch.int32), values.view(torch.int32))
    torch_s = values.to(torch.bfloat16)
    finite = near.isfinite() & torch_s.isfinite()
    halves = (values.view(torch.int32) & 0xFFFF) == 0x8000
    assert torch.equal(near[~halves & finite], torch_s[~halves & finite])
    assert (near[halves & finite].float().abs() > values[halves & finite].abs()).all()


def test_a_merge_reads_what_rounding_left_over(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    base = saved(write_hub(tmp_path / "hub", "dense"), tmp_path / "base", "dense")
    experts = [tmp_path / "one", tmp_path / "two"]
    weights = [trained(base, expert, 1e-6, seed) for seed, expert in enumerate(experts)]
    merge("ties", base, experts[:1], tmp_path / "alone")
    assert same(hub_weights(tmp_path / "alone"), hub_weights(experts[0]))
    merge("linear", base, experts, tmp_path / "mean")
    mean = {name: rounded((one + weights[1][name]) / 2, "BF16") for name, one in weights[0].items()}
    found = hub_weights(tmp_path / "mean")
    assert same({name: found[name] for name in mean}, mean)
    assert [str(one.message) for one in recwarn if "BF16" in str(one.message)] == []
    assert not (tmp_path / "mean" / REMAINDER).exists()
    shutil.rmtree(experts[1] / REMAINDER)
    with pytest.warns(UserWarning, match="BF16"):
        merge("linear", base, experts, tmp_path / "rounded")


def by_newer(folder: Path, kind: str) -> Path:
    """A published folder as transformers 5 writes it once it has loaded it: what people fine-tune with today."""
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    hub = write_hub(folder.with_name("by-older"), kind)
    for part, given in (
        (AutoModelForImageTextToText, {"dtype": "auto"}),
        (AutoTokenizer, {}),
        (AutoImageProcessor, {}),
    ):
        loaded: Any = part.from_pretrained(str(hub), **given)
        loaded.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [by_newer, write_tiny])
def test_files_of_transformers_5_get_the_words_of_4(write: Any, kind: str, tmp_path: Path) -> None:
    from transformers import AutoConfig

    newer = write(tmp_path / "newer", kind)
    base = saved(newer, tmp_path / "base", kind)
    text = json.loads((base / "config.json").read_text())["text_config"]
    assert text["rope_theta"] == 5_000_000.0
    assert text["rope_scaling"] == {"mrope_interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"}
    assert text.get("num_experts") == (4 if kind == "moe" else None)
    assert text["tie_word_embeddings"] is (kind == "dense")
    before, after = (AutoConfig.from_pretrained(str(folder)).to_diff_dict() for folder in (newer, base))
    assert before["vision_config"] == after["vision_config"]
    assert {**before["text_config"], "tie_word_embeddings": kind == "dense"} == after["text_config"]
    tokenizer = json.loads((base / "tokenizer_config.json").read_text())
    assert tokenizer["tokenizer_class"] in ("PreTrainedTokenizerFast", "Qwen2Tokenizer")
    assert not isinstance(tokenizer.get("extra_special_tokens"), list)
    images = json.loads((base / "preprocessor_config.json").read_text())
    assert images["image_processor_type"] in ("Qwen2VLImageProcessorFast", "Qwen2VLImageProcessor")


def test_tensors_that_the_model_lacks_are_told(tmp_path: Path) -> None:
    hub = write_hub(tmp_path / "hub", "dense", shards=1)
    model, processor = load_base(wanted("dense"), hub)
    processor.source = write_hub(tmp_path / "other", "moe", shards=1)
    with pytest.raises(CheckpointMismatch, match="other: expected the tensors of a Qwen3VLForConditionalGeneration"):
        save_checkpoint(tmp_path / "out", model, processor, lineage("base", processor.preset))


BY_NAME = """
import sys
from pathlib import Path
from dataclasses import replace
from trainer.modeling.checkpoint import lineage, save_checkpoint
from trainer.modeling.published import load_base
from trainer.presets import preset
model, processor = load_base(replace(preset("2b"), source="acme/tiny", max_pixels=96 * 128, min_pixels=32 * 32))
save_checkpoint(Path(sys.argv[1]), model, processor, lineage("base", processor.preset))
"""


@pytest.mark.slow
def test_a_name_on_the_hub_keeps_its_files(tmp_path: Path) -> None:
    commit = "0" * 40
    repository = tmp_path / "hf/hub/models--acme--tiny"
    hub = write_hub(repository / "snapshots" / commit, "dense")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", BY_NAME, str(tmp_path / "out")], env=environment, check=True, timeout=240)
    assert [one for one in COMPANIONS if (tmp_path / "out" / one).read_bytes() != (hub / one).read_bytes()] == []
    assert same(hub_weights(tmp_path / "out"), hub_weights(hub))


READ = """
import json, sys
import torch
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer, __version__
model, info = AutoModelForImageTextToText.from_pretrained(sys.argv[1], output_loading_info=True, dtype="auto")
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
turns = [{"role": "user", "content": [{"type": "text", "text": "Where is box [12]?"}]}]
ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False)
with torch.no_grad():
    logits = model.eval().float()(input_ids=torch.tensor([ids])).logits[0, -1]
print(json.dumps({"version": __version__, "missing": sorted({*info["missing_keys"], *info["unexpected_keys"]}),
    "dtype": str(model.config.text_config.dtype), "ids": ids, "logits": logits.tolist(),
    "images": type(AutoImageProcessor.from_pretrained(sys.argv[1])).__name__.removesuffix("Pil")}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not OLDER, reason="VESPER_TRANSFORMERS4_PYTHON names no interpreter with transformers 4.57")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [write_hub, by_newer])
def test_transformers_4_reads_the_same(write: Any, kind: str, tmp_path: Path) -> None:
    base = saved(write(tmp_path / "hub", kind), tmp_path / "base", kind)
    trained(base, tmp_path / "mid", 1e-3)
    found = []
    for python in (OLDER, sys.executable):
        done = subprocess.run([python, "-c", READ, tmp_path / "mid"], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads(done.stdout.splitlines()[-1]))
    older, newer = found
    assert older.pop("version").startswith("4.57") and newer.pop("version").startswith("5")
    assert older.pop("logits") == pytest.approx(newer.pop("logits"), abs=1e-4)
    assert older == newer and older["missing"] == []


def _lacks_a_tensor(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    plain = json.loads(index.read_text())
    name = "model.visual.merger.norm.weight"
    file = folder / plain["weight_map"].pop(name)
    save_file({key: one for key, one in load_file(file).items() if key != name}, file, {"format": "pt"})
    index.write_text(json.dumps(plain))


def _says(folder: Path, **words: object) -> None:
    plain = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**plain, **words}))


def _adapters(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "acme/base"}')


def _gguf(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "model-Q4_K_M.gguf").write_bytes(b"GGUF")


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, "expected the folder of a checkpoint"),
    "no shard": (lambda at: next(at.glob("*-00002-of*")).unlink(), "names 'model-00002-of-00002.safetensors', which"),
    "cut off": (lambda at: os.truncate(next(at.glob("*-00002-of*")), 50_000), "is it cut off?"),
    "a tensor missing": (_lacks_a_tensor, "1 tensors of a Qwen3VL.* are missing, first 'model.visual.merger.norm"),
    "another model": (lambda at: _says(at, model_type="qwen2_vl"), "expected a model of type .*, found 'qwen2_vl'"),
    "no JSON": (lambda at: (at / "config.json").write_text("{"), "config.json: expected the configuration"),
    "8 bits": (lambda at: _says(at, quantization_config={"quant_method": "fp8"}), "found 'fp8' quantisation"),
    "adapters": (_adapters, r"adapters \(LoRA\) of 'acme/base'; merge them"),
    "GGUF": (_gguf, "GGUF, which is quantised"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_a_base_is_told_in_one_line(
    wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hub = write_hub(tmp_path / "hub", "dense")
    spoil, message = WRONG[wrong]
    spoil(hub)
    capfd.readouterr()
    with pytest.raises((ValueError, OSError), match=message) as told:
        folder = usable_weights(str(hub))
        WeightFiles(folder)
        load_base(wanted("dense"), folder)
    assert "\n" not in str(told.value) and capfd.readouterr().err == ""
