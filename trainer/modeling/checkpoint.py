"""Checkpoints: Hugging Face folders that plain `from_pretrained` loads, with `lineage.json` beside the weights.

    model.safetensors config.json generation_config.json      the model
    tokenizer.json tokenizer_config.json chat_template.jinja  the tokenizer
    preprocessor_config.json                                  the image processor
    fp32_remainder/                                           what bf16 rounded off, of a published preset in training
    preset.json                                               how rows become sequences
    lineage.json                                              from what, how, by which code, under which contract

One that began as a published folder has the files of that one instead (`published_files`). Everything in the folder is
a function of inputs, config and seed: no time, no host, no path.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pipelines.prompts import template_digest
from schemas.actions import ACTION_SPACE
from schemas.ids import canonical_json
from trainer.modeling.model import load_model
from trainer.modeling.processor import Processor
from trainer.modeling.published_files import copy_companions, save_like
from trainer.modeling.published_layout import save_weights
from trainer.presets import Preset, image_processor
from trainer.settings.model_shape import Shape
from trainer.settings.reading import Reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CODE_VERSION = "1"
"""Of trainer code that decides weights; raise it when the same config must train anew."""

LINEAGE, PRESET = "lineage.json", "preset.json"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a checkpoint comes from: `parents` maps asset → version."""

    stage: str
    preset: str
    parents: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    code_version: str = CODE_VERSION
    action_space: str = ACTION_SPACE
    prompt_version: str = ""
    prompt_digest: str = ""


@dataclass
class Checkpoint:
    """A loaded checkpoint: model, processor, and what its `lineage.json` says (a merge writes its own form)."""

    model: Any
    processor: Processor
    lineage: dict[str, Any]
    folder: Path | None = None


def lineage(
    stage: str,
    preset: Preset,
    *,
    parents: Mapping[str, str] | None = None,
    config: Mapping[str, object] | None = None,
    seeds: Mapping[str, int] | None = None,
    metrics: Mapping[str, object] | None = None,
) -> Lineage:
    """A lineage under the preset's action space and prompts."""
    return Lineage(
        stage,
        preset.name,
        dict(parents or {}),
        dict(config or {}),
        dict(seeds or {}),
        dict(metrics or {}),
        action_space=preset.action_space,
        prompt_version=preset.prompt_version,
        prompt_digest=template_digest(preset.prompt_version),
    )


def save_checkpoint(
    folder: str | Path, model: PreTrainedModel, processor: Processor, made: Lineage | Mapping[str, object]
) -> list[Path]:
    """Write a checkpoint; returns its files, sorted. The same weights give the same bytes. Raises `CheckpointMismatch`
    where it began as a published folder (`Processor.source`) whose tensors aren't the model's."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if processor.source is not None:
        save_like(processor.source, folder, model)
    else:
        with quiet():
            save_weights(folder, model)
        for name in ("config.json", "generation_config.json"):
            _tidy(folder / name)
    save_processor(folder, processor)
    write_lineage(folder, made)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def save_processor(folder: str | Path, processor: Processor) -> None:
    """Tokenizer, image processor and preset files."""
    plain = json.dumps(processor.preset.plain(), indent=2, sort_keys=True)
    (Path(folder) / PRESET).write_text(plain + "\n", encoding="utf-8")
    if processor.source is not None:
        copy_companions(processor.source, Path(folder), processor.images)
        return
    processor.tokenizer.save_pretrained(folder)
    processor.images.save_pretrained(folder)
    _tidy(Path(folder) / "tokenizer_config.json")


def _tidy(path: Path) -> None:
    """Sort keys and drop what depends on how the object was made, so that equal checkpoints have equal bytes."""
    if not path.exists():
        return
    plain = json.loads(path.read_text(encoding="utf-8"))
    # these say how the object came about, not what it is
    for key in ("_from_model_config", "is_local", "local_files_only", "name_or_path"):
        plain.pop(key, None)
    for part in ("text_config", "vision_config"):
        plain.get(part, {}).pop("dtype", None)
    path.write_text(json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and warnings of transformers: what it warns of when it loads a folder is an error here."""
    from transformers.utils import logging

    was, told = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(told)
        if was:
            logging.enable_progress_bar()


def write_lineage(folder: str | Path, made: Lineage | Mapping[str, object]) -> None:
    """`lineage.json`, canonical."""
    plain = asdict(made) if isinstance(made, Lineage) else dict(made)
    (Path(folder) / LINEAGE).write_text(canonical_json(plain) + "\n", encoding="utf-8")


def read_lineage(folder: str | Path) -> dict[str, Any]:
    """What `lineage.json` says. Raises `ValueError` if the folder has none that can be read."""
    found = _read(Path(folder) / LINEAGE)
    if "stage" not in found:
        raise ValueError(f"{LINEAGE}: expected a stage, found the keys {sorted(found)}")
    return found


def read_preset(folder: str | Path) -> Preset:
    """The preset as it was when the checkpoint was made. Raises `ValueError` if it can't be read."""
    plain = _read(Path(folder) / PRESET)
    plain.pop("dtype", None)  # which presets had until November 2026, and nothing read
    if plain.pop("instruction_first", True) is False:
        warnings.warn(
            f"{folder}: was trained with pictures before the text, which its preset asked for; prompts now have their "
            "parts in the order of the messages, the text first. Train it again from its base",
            stacklevel=2,
        )
    try:
        if plain.get("shape") is not None:
            # JSON has no tuples
            sizes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain["shape"].items()}
            plain["shape"] = Shape(**sizes)
        if "reading" in plain:
            plain["reading"] = Reading.parsed(plain["reading"], PRESET)
        return Preset(**plain)
    except TypeError as error:
        raise ValueError(f"{PRESET}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"checkpoint {path.parent.name}: expected a readable {path.name}, found {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"checkpoint {path.parent.name}: {path.name} holds no object")
    return found


def load_processor(folder: str | Path) -> Processor:
    """Tokenizer and image processor of a Vesper checkpoint folder."""
    from transformers import AutoTokenizer

    preset = read_preset(folder)
    images = type(image_processor(preset)).from_pretrained(str(folder))
    source = Path(folder) if preset.source else None
    return Processor(AutoTokenizer.from_pretrained(str(folder)), images, preset, source=source)


def load_checkpoint(folder: str | Path, *, device: str | torch.device = "cpu") -> Checkpoint:
    """A Vesper checkpoint folder → model (sped up, eval mode), processor, lineage."""
    made, processor = read_lineage(folder), load_processor(folder)
    with quiet():
        model = load_model(folder, device).eval()
    return Checkpoint(model, processor, made, Path(folder))
