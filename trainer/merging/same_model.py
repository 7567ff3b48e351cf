"""Whether checkpoints may be merged: the same numbers must mean the same in all of them.

Tensors of equal names and shapes say too little: other rotary angles, another number of heads of the same width in all,
another vocabulary or other pixels make the mean of two models noise. So settings are compared whole, but for those that
are known to change nothing, and what isn't read by this project, too.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.modeling.tensors import CheckpointMismatch

_SAVED_WITH = {"transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "is_local", "auto_map"}
"""Who wrote a file, and from where."""
_RUN_WITH = {"use_cache", "_attn_implementation", "attn_implementation", "gradient_checkpointing", "return_dict"}
"""How a model is run, not what it computes."""
_PRECISION = {"dtype", "torch_dtype"}
_TOKENIZER_STATE = {"truncation", "padding", "version"}
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "add_bos_token", "add_eos_token", "add_prefix_space")
_PIXELS = ("image_mean", "image_std", "patch_size", "merge_size", "temporal_patch_size")
_PIXEL_STEPS = ("do_rescale", "rescale_factor", "do_normalize", "do_resize", "do_convert_rgb", "resample")
_SIZES = ("size", "min_pixels", "max_pixels")
_PRESET = ("architecture", "shape", "image_mean", "image_std")
_PRESET_SIZES = ("max_prompt_tokens", "max_answer_tokens", "max_pixels", "min_pixels")
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")

Plain = dict[str, Any]
"""JSON of a file."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A part of a checkpoint: the file's name as it is shown, how it is read from a folder (None: there is none), keys
    whose difference is only noted, and keys that only some versions write, with the same default."""

    file: str
    read: Callable[[Path], Plain | None]
    noted: frozenset[str] = frozenset()
    defaulted: frozenset[str] = frozenset()


def check_same_model(base: Path, models: Sequence[Path]) -> None:
    """Raise `CheckpointMismatch`, naming the file, the key and both values, unless all checkpoints are of one model:
    configuration, tokenizer, chat template, pixels, and the contract that they were trained under. Of what may differ,
    and of files that a model lacks, a `UserWarning` tells."""
    for model in models:
        notes = [note for part in _PARTS for note in _compare(part, base, model)]
        # Only noted: such settings change how a model is run, so the base's are right for the result.
        if notes:
            warnings.warn(f"merge: {model}: {'; '.join(notes)}; the base's is used", stacklevel=4)


def _compare(part: _Compared, base: Path, model: Path) -> list[str]:
    own, other = part.read(base), part.read(model)
    if own is None or other is None:
        return [] if own is None else [f"no {part.file}"]
    found = list(_differences(own, other))
    if part.file == "config.json" and any(path.split(".")[-1] not in part.noted for path, _, _ in found):
        # written by different versions of transformers, the same settings have other names, or are left out
        found = list(_differences(_completed(base, own), _completed(model, other)))
    notes = []
    for path, expected, value in found:
        if path in part.defaulted and None in (expected, value):
            continue
        note = f"{part.file}: {path}: expected {_short(expected)} as in {base}, found {_short(value)}"
        if path.split(".")[-1] not in part.noted and path.split(".")[0] not in part.noted:
            raise CheckpointMismatch(f"{note} in {model}; merge checkpoints of one model")
        notes.append(note)
    return notes


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(key, value, other value), in the order of the keys; a key that is missing is None."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other} - _SAVED_WITH - _RUN_WITH):
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    # long lists (vocabulary, merges) entry by entry, so that the message names the place
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) > 8:
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif one != other:
        yield path, one, other


def _short(value: Any) -> str:
    if isinstance(value, list | dict) and len(value) > 8:
        return f"{len(value)} entries"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _json(folder: Path, name: str) -> Plain | None:
    path = folder / name
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointMismatch(f"{path}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointMismatch(f"{path}: expected a JSON object, found {type(found).__name__}")
    return found


def _completed(folder: Path, config: Plain) -> Plain:
    """A configuration with all defaults, under today's names; as it is where transformers doesn't know the model."""
    from transformers import AutoConfig

    # a checkpoint's own code is never run
    try:
        whole: Plain = AutoConfig.from_pretrained(str(folder), trust_remote_code=False).to_dict()
    except (ValueError, KeyError, TypeError, OSError):
        return config
    return whole


def _tokenizer(folder: Path) -> Plain | None:
    found = _json(folder, "tokenizer.json")
    if found is None:
        return None
    # Padding and truncation are left by whoever used the tokenizer last.
    model = dict(found.get("model") or {})
    # a merge is written "a b" by older versions and ["a", "b"] by newer ones
    model["merges"] = [" ".join(one) if isinstance(one, list) else one for one in model.get("merges") or []]
    return {**{key: value for key, value in found.items() if key not in _TOKENIZER_STATE}, "model": model}


def _special_tokens(folder: Path) -> Plain | None:
    found = _json(folder, "tokenizer_config.json")
    if found is None:
        return None
    chosen = {key: found.get(key) for key in _SPECIAL}
    return {key: value.get("content") if isinstance(value, dict) else value for key, value in chosen.items()}


def _chat_template(folder: Path) -> Plain | None:
    """From its own file, or from the tokenizer's settings, as older versions wrote it."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return {"chat_template": path.read_text(encoding="utf-8").strip()}
    for name in ("chat_template.json", "tokenizer_config.json"):
        if isinstance(text := (_json(folder, name) or {}).get("chat_template"), str):
            return {"chat_template": text.strip()}
    return None


def _pixels(folder: Path) -> Plain | None:
    found = _json(folder, "preprocessor_config.json") or (_json(folder, "processor_config.json") or {}).get(
        "image_processor"
    )
    return None if found is None else {key: found.get(key) for key in (*_PIXELS, *_PIXEL_STEPS, *_SIZES)}


def _preset(folder: Path) -> Plain | None:
    """Until November 2026 presets could put pictures before the text; the text first is what all others were given."""
    found = _json(folder, "preset.json")
    return (
        None
        if found is None
        else {
            "instruction_first": found.get("instruction_first", True),
            "action_codec": found.get("action_codec", "text"),
            **{key: found.get(key) for key in (*_PRESET, *_PRESET_SIZES)},
        }
    )


def _some(name: str, keys: Sequence[str]) -> Callable[[Path], Plain | None]:
    """Some keys of a JSON file."""

    def read(folder: Path) -> Plain | None:
        found = _json(folder, name)
        return None if found is None else {key: found.get(key) for key in keys}

    return read


_CONTRACT = ("action_space", "prompt_version", "prompt_digest")
_PARTS = (
    _Compared("config.json", lambda folder: _json(folder, "config.json"), frozenset({*_PRECISION, *_TOKEN_IDS})),
    _Compared("tokenizer.json", _tokenizer),
    _Compared("tokenizer_config.json", _special_tokens, frozenset({"pad_token"})),
    _Compared("chat template", _chat_template),
    _Compared("preprocessor_config.json", _pixels, frozenset(_SIZES), frozenset(_PIXEL_STEPS)),
    _Compared("generation_config.json", _some("generation_config.json", _TOKEN_IDS), frozenset(_TOKEN_IDS)),
    _Compared("preset.json", _preset, frozenset(_PRESET_SIZES)),
    _Compared("lineage.json", _some("lineage.json", _CONTRACT), frozenset(_CONTRACT[1:])),
)
