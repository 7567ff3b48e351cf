"""The functions of the checkpoint stages: each fills a folder and says what to count and check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pipelines.manifest import Check
from pipelines.prompts import prompt_text
from schemas.ids import canonical_json
from trainer import checkpoint as checkpoints
from trainer.batches import Processor, image_processor
from trainer.data import light_rows, pick, with_pictures
from trainer.midtrain import config_from, train
from trainer.model import build_model, parameter_count
from trainer.stages import HELDOUT, SHARDS, SPECIALISTS, Context, Made, preset_from, training_source
from trainer.tokenizer import train_tokenizer

CURVE = "curve.json"


def base(context: Context, folder: Path) -> Made:
    """Random weights, and a tokenizer learned on the training texts; published presets are loaded by name."""
    preset = preset_from(context.config)
    if preset.shape is None:
        raise ValueError(
            f"preset {preset.name}: its base is published as {preset.source}; this stage builds models from scratch"
        )
    rows = light_rows(context.inputs[SHARDS], ("train",))
    rows = pick(rows, int(context.config["tokenizer_texts"]), 0, lambda row: "all")
    texts = [text for row in rows for text in (prompt_text(row["messages"]), row["answer"])]
    seed = int(context.config["seed"])
    processor = Processor(train_tokenizer(texts, preset.shape.vocab_size), image_processor(preset), preset)
    model = build_model(preset, processor.tokenizer, seed)
    made = checkpoints.lineage("base", preset, parents=context.parents, config=dict(context.config),
                               seeds={"weights": seed})  # fmt: skip
    checkpoints.save_checkpoint(folder, model, processor, made)
    count = parameter_count(model)
    checks = [_finite(model), _loads(folder), Check("has texts", bool(texts), f"{len(texts)} texts", "at least 1")]
    if preset.name == "nano" and not context.config["shape"]:
        checks.append(Check("nano size", 2e6 <= count <= 6e6, f"{count:,}", "2 to 6 million parameters"))
    return Made(folder, {"parameters": count, "vocabulary": len(processor.tokenizer), "texts": len(texts)}, checks)


def mid_trained(context: Context, folder: Path) -> Made:
    """Mid-training of base on the mixture."""
    start = checkpoints.load_checkpoint(context.folder("base"))
    config = config_from(context.config["midtrain"])
    light = light_rows(context.inputs[SHARDS], ("validation",))
    chosen = pick(light, int(context.config["validation_rows"]), config.seed, lambda row: row["objective"])
    validation = with_pictures(context.inputs[SHARDS], chosen)
    curve = train(
        start.model, start.processor, training_source(context), config, state_dir=context.state_dir,
        validation=validation, on_event=context.on_event, progress=context.progress,
    )  # fmt: skip
    steps = curve.steps
    tenth = max(1, len(steps) // 10)
    first, last = _mean([s["loss"] for s in steps[:tenth]]), _mean([s["loss"] for s in steps[-tenth:]])
    tokens = sum(step["tokens"] for step in steps)
    metrics = {"first_loss": first, "last_loss": last, "steps": len(steps), "tokens": tokens}
    if curve.validation:
        metrics["validation"] = curve.validation[-1]
    made = checkpoints.lineage(
        "mid_trained", start.processor.preset, parents=context.parents, config=dict(context.config),
        seeds={"order": config.seed}, metrics=metrics,
    )  # fmt: skip
    checkpoints.save_checkpoint(folder, start.model, start.processor, made)
    (folder / CURVE).write_text(canonical_json(curve.plain()) + "\n", encoding="utf-8")
    counts = {"steps": len(steps), "tokens": tokens, "samples": len(steps) * config.batch_size,
              "first_loss": first, "last_loss": last, "bad_rows": curve.bad_rows,
              "validation_rows": len(validation), "parameters": parameter_count(start.model)}  # fmt: skip
    counts |= {f"validation_{name}": value for name, value in (curve.validation or [{}])[-1].items() if name != "step"}
    return Made(folder, counts, [
        _finite(start.model), _loads(folder),
        Check("loss fell", last < first, f"{first:.3f} -> {last:.3f}", "last tenth below first tenth"),
        Check("all steps", len(steps) == config.steps, str(len(steps)), str(config.steps)),
    ])  # fmt: skip


def specialist(context: Context, folder: Path) -> Made:
    """Offline RL of one domain from mid_trained."""
    from trainer.held_out import DOMAINS
    from trainer.offline_rl import OfflineConfig, train_offline

    domain = context.stage.partition("_")[2]
    settings = dict(context.config["offline"])
    config = OfflineConfig(domain=domain, **_nested(settings))
    objective, platforms = DOMAINS[domain]

    def rows(asset: str, splits: Sequence[str], limit: int) -> list[dict[str, Any]]:
        light = light_rows(context.inputs[asset], splits)
        mine = [row for row in light if row["objective"] == objective and row["platform"] in platforms]
        # whole episodes and screens come together, so traces stay whole; the trainer chooses among them
        chosen = _by_cluster(mine, limit, config.seed)
        return with_pictures(context.inputs[asset], chosen)

    result = train_offline(
        context.folder("mid_trained"), rows(SHARDS, ("train",), config.train_limit),
        rows(HELDOUT, ("test",), 2 * config.held_out_limit), folder, config,
        validation_rows=rows(SHARDS, ("validation",), 2 * config.validation_limit) or None,
        state_dir=context.state_dir, parents=context.parents, on_event=context.on_event,
    )  # fmt: skip
    found = result.metrics
    gain = found["reward_gain"]
    counts = {
        "updates": found["updates"], "peak_update": found["peak_update"], "groups": found["groups"],
        "zero_variance_share": found["zero_variance_share"], "weight_delta": found["weight_delta"],
        "weight_delta_norm": found["weight_delta_norm"], "reward_before": found["before"]["reward"],
        "reward_after": found["after"]["reward"], "reward_gain": gain["mean"], "reward_gain_low": gain["low"],
        "reward_gain_high": gain["high"],
    }  # fmt: skip
    share = found["zero_variance_share"]
    return Made(folder, counts, [
        _loads(folder),
        Check("groups differ", share < 1, f"{share:.0%} without variance", "some groups with variance"),
        Check("weights finite", math.isfinite(found["weight_delta_norm"]), str(found["weight_delta_norm"]), "finite"),
    ])  # fmt: skip


def _nested(settings: dict[str, Any]) -> dict[str, Any]:
    """JSON → the dataclasses that `OfflineConfig` holds."""
    from trainer.grpo import GrpoConfig
    from trainer.rewards import RewardConfig

    values = dict(settings)
    if "grpo" in values:
        values["grpo"] = GrpoConfig(**{"max_completion_length": 48, **values["grpo"]})
    if "rewards" in values:
        values["rewards"] = RewardConfig(**values["rewards"])
    return values


def _by_cluster(rows: Sequence[dict[str, Any]], limit: int, seed: int) -> list[dict[str, Any]]:
    """At most `limit` rows, whole parents together, parents in the order of a hash."""
    from schemas.ids import digest

    def parent(row: dict[str, Any]) -> str:
        first = str((row.get("parents") or [row["sample_id"]])[0])
        return first.rpartition("/")[0] if first.startswith("step:") else first

    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(parent(row), []).append(row)
    chosen: list[dict[str, Any]] = []
    for name in sorted(groups, key=lambda name: digest([seed, name])):
        if len(chosen) + len(groups[name]) <= limit:
            chosen += groups[name]
    return chosen


def merged(context: Context, folder: Path) -> Made:
    """`linear` or TIES (`unified`) merge of the specialists, against their common ancestor mid_trained."""
    from trainer.merge import merge

    settings = context.config["merge"]
    method = "linear" if context.stage == "linear" else "ties"
    ties = {"density": settings["density"], "lam": settings["lambda"]} if method == "ties" else {}
    report = merge(
        method, context.folder("mid_trained"), [context.folder(name) for name in SPECIALISTS], folder,
        weights=settings["weights"], on_tensor=lambda tensor: None, **ties,
    )  # fmt: skip
    record = report.record()
    preset = checkpoints.read_preset(folder)
    made = checkpoints.lineage(context.stage, preset, parents=context.parents, config=dict(context.config),
                               metrics={"merge": record})  # fmt: skip
    checkpoints.write_lineage(folder, made)
    loaded = checkpoints.load_checkpoint(folder)
    counts = {"parameters": parameter_count(loaded.model), "models": len(SPECIALISTS), "method": method}
    return Made(folder, counts, [_finite(loaded.model), _loads(folder)])


def _finite(model: Any) -> Check:
    bad = [name for name, tensor in model.named_parameters() if not torch.isfinite(tensor).all()]
    return Check("weights finite", not bad, ", ".join(bad[:3]) or "all finite", "no NaN, no infinity")


def _loads(folder: Path) -> Check:
    """Plain transformers reads the folder, without any of our code."""
    from transformers import AutoImageProcessor, AutoTokenizer, Qwen3VLForConditionalGeneration

    model, info = Qwen3VLForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    AutoImageProcessor.from_pretrained(str(folder))
    missing = sorted({*info["missing_keys"], *info["unexpected_keys"]})
    fits = len(tokenizer) <= model.config.text_config.vocab_size
    return Check("loads with from_pretrained", not missing and fits, f"{len(missing)} keys missing or unexpected",
                 "all keys, a tokenizer that fits")  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
