"""Checkpoints of different models aren't merged, whatever makes them so; what changes nothing is no hindrance."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dagster_project.cli import main
from trainer.merging.merge import merge
from trainer.modeling.tensors import CheckpointMismatch

pytestmark = pytest.mark.real_parts


@pytest.fixture(scope="module")
def specialists(processor: Any, tiny_preset: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base and a specialist of it, saved as training saves them."""
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    root = tmp_path_factory.mktemp("specialists")
    for seed, name in enumerate(("base", "expert")):
        made = build_model(tiny_preset, processor.tokenizer, seed=seed)
        save_checkpoint(root / name, made, processor, lineage(name, tiny_preset))
    return root / "base", root / "expert"


def edited(expert: Path, folder: Path, file: str, edit: Callable[[Any], object]) -> Path:
    """A copy of a checkpoint with one of its files changed."""
    shutil.copytree(expert, folder)
    path = folder / file
    plain = json.loads(path.read_text(encoding="utf-8"))
    edit(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")
    return folder


def text_config(**changes: Any) -> Callable[[Any], object]:
    return lambda plain: plain["text_config"].update(changes)


DIFFERENT: list[tuple[str, str, Callable[[Any], object]]] = [
    ("config.json", "rope_theta", lambda p: p["text_config"]["rope_parameters"].update(rope_theta=123.0)),
    ("config.json", "mrope_section", lambda p: p["text_config"]["rope_parameters"].update(mrope_section=[1, 1, 6])),
    ("config.json", "num_attention_heads", text_config(num_attention_heads=4)),
    ("config.json", "num_key_value_heads", text_config(num_key_value_heads=1)),
    ("config.json", "rms_norm_eps", text_config(rms_norm_eps=0.1)),
    ("config.json", "hidden_act", text_config(hidden_act="gelu")),
    ("config.json", "vocab_size", text_config(vocab_size=1537)),
    ("config.json", "num_heads", lambda p: p["vision_config"].update(num_heads=1)),
    ("config.json", "image_token_id", lambda p: p.update(image_token_id=3)),
    ("config.json", "tie_word_embeddings", lambda p: p.update(tie_word_embeddings=not p.get("tie_word_embeddings"))),
    ("tokenizer.json", "model.vocab.", lambda p: p["model"]["vocab"].update({"0": 1, "1": 0})),
    ("tokenizer.json", "model.merges", lambda p: p["model"]["merges"].pop()),
    ("tokenizer.json", "pre_tokenizer", lambda p: p.update(pre_tokenizer=None)),
    ("tokenizer_config.json", "eos_token", lambda p: p.update(eos_token="<|endoftext|>")),
    ("preprocessor_config.json", "image_mean", lambda p: p.update(image_mean=[0.5, 0.5, 0.5])),
    ("preprocessor_config.json", "patch_size", lambda p: p.update(patch_size=14)),
    ("preset.json", "instruction_first", lambda p: p.update(instruction_first=False)),
    ("lineage.json", "action_space", lambda p: p.update(action_space="another")),
]


@pytest.mark.parametrize(("file", "key", "edit"), DIFFERENT, ids=[f"{file}-{key}" for file, key, _ in DIFFERENT])
@pytest.mark.parametrize("method", ["linear", "ties"])
def test_experts_of_another_model_are_refused(
    specialists: tuple[Path, Path],
    tmp_path: Path,
    method: str,
    file: str,
    key: str,
    edit: Callable[[Any], object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    base, expert = specialists
    other = edited(expert, tmp_path / "other", file, edit)
    words = ["merge", "--method", method, "--base", str(base), "--out", str(tmp_path / "out")]
    assert main([*words, "--model", str(expert), "--model", str(other)]) == 2
    told = capsys.readouterr().err
    assert f"{file}: " in told and key in told and f"as in {base}, found " in told and f"in {other}" in told
    assert len(told.strip().splitlines()) == 1 and not (tmp_path / "out").exists()


def test_another_chat_template_is_refused(specialists: tuple[Path, Path], tmp_path: Path) -> None:
    base, expert = specialists
    shutil.copytree(expert, tmp_path / "other")
    (tmp_path / "other/chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(CheckpointMismatch, match=r"chat template: .* found \"\{\{ messages \}\}\" in "):
        merge("ties", base, [tmp_path / "other"], tmp_path / "out")


SAME: list[tuple[str, Callable[[Any], object]]] = [
    ("config.json", lambda p: p.update(transformers_version="4.57.0", use_cache=False)),
    # a default that another version leaves out
    ("config.json", lambda p: p["text_config"].pop("attention_bias", None)),
    ("tokenizer.json", lambda p: p.update(truncation={"max_length": 8}, padding=None)),
    ("tokenizer.json", lambda p: p["model"].update(merges=[" ".join(one) for one in p["model"]["merges"]])),
    ("tokenizer_config.json", lambda p: p.update(padding_side="right", eos_token={"content": p["eos_token"]})),
    ("preprocessor_config.json", lambda p: p.pop("do_convert_rgb", None)),
]


@pytest.mark.parametrize(("file", "edit"), SAME)
def test_who_saved_a_checkpoint_makes_no_difference(
    specialists: tuple[Path, Path], tmp_path: Path, file: str, edit: Callable[[Any], object]
) -> None:
    base, expert = specialists
    other = edited(expert, tmp_path / "other", file, edit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merge("ties", base, [expert, other], tmp_path / "out")


def test_what_may_differ_is_told(specialists: tuple[Path, Path], tmp_path: Path) -> None:
    base, expert = specialists
    for name, file, edit in (
        ("config.json: dtype", "config.json", lambda p: p.update(dtype="bfloat16")),
        ("preprocessor_config.json: size.longest_edge", "preprocessor_config.json", larger),
        ("lineage.json: prompt_digest", "lineage.json", lambda p: p.update(prompt_digest="another")),
    ):
        other = edited(expert, tmp_path / name.replace(": ", "-"), file, edit)
        with pytest.warns(UserWarning, match=f"{name}: expected .* the base's is used"):
            merge("ties", base, [other], tmp_path / f"out-{name.split()[1]}")
    shutil.copytree(expert, tmp_path / "bare")
    (tmp_path / "bare/tokenizer.json").unlink()
    with pytest.warns(UserWarning, match=r"no tokenizer\.json; the base's is used"):
        merge("ties", base, [tmp_path / "bare"], tmp_path / "out-bare")


def larger(plain: dict[str, Any]) -> None:
    plain["size"]["longest_edge"] *= 4
