"""The functions of the checkpoint stages: each fills a folder and says what to count and check."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.prompts import prompt_text
from pipelines.store.manifest import Check
from schemas.action_types import ACTION_SPACE, SPACES, WIDEST
from schemas.ids import canonical_json
from trainer.data.clusters import set_aside
from trainer.data.rows import light_rows, pick, with_pictures
from trainer.data.stream import MixtureSource
from trainer.data.window_rows import as_read
from trainer.merging.merge import merge
from trainer.merging.merge_choice import candidates, choose_ties, merged_domains, validation_tasks
from trainer.midtrain.engines import engine
from trainer.midtrain.schedule import scheduled
from trainer.modeling import checkpoint as checkpoints
from trainer.modeling.adapters import add_adapters, take_off_adapters
from trainer.modeling.model import build_model, parameter_count
from trainer.modeling.processor import Processor
from trainer.modeling.published import load_base
from trainer.modeling.quantised import load_in_four_bits, move_adapters
from trainer.modeling.tokenizer import train_tokenizer
from trainer.offline.tasks import RlTask, rows_of
from trainer.offline.train import train_offline
from trainer.presets import Preset, image_processor
from trainer.runtime.tracking import Watch
from trainer.settings.domains import DOMAINS
from trainer.settings.stage_checks import ALL_STEPS, HAS_TEXTS, LOSS_FELL, NANO_SIZE, REWARD_HELD, TRACES_DECIDE
from trainer.settings.stages import CORPUS, MIXTURE
from trainer.stages.checks import did_not_fall, finite, loads, moved_finitely
from trainer.stages.context import Context, StageResult
from trainer.stages.rl_rows import by_cluster, rl_rows
from trainer.stages.settings import preset_from

CURVE = "curve.json"
CHOICE = "merge_choice.json"
"""What was tried for a merge, beside the checkpoint's folder."""
UNLEARNED = 0.1
"""Rise of an objective's validation loss, as a share of it, from which on it counts as unlearned."""
COUNTED = ("updates", "peak_update", "groups", "zero_variance_share", "weight_delta", "weight_delta_norm")
ADAPTERS = "adapters"
"""The adapters of a run with LoRA, beside the checkpoint's folder, which holds the merged weights."""
_ACTION_NAME = re.compile(r"<action>\s*([A-Za-z]+)")
MODEL = "model"
"""The Hugging Face folder within a version; nothing but the checkpoint lies in it."""


def base(context: Context, folder: Path) -> StageResult:
    """Random weights, and a tokenizer learned on the training texts; for a published preset, its weights by name; with
    `weights`, those."""
    preset = preset_from(context.settings)
    if context.settings.weights:
        return _kept_base(context, folder, preset)
    if preset.shape is None:
        return _published_base(context, folder, preset)
    rows = light_rows(context.inputs[CORPUS], ("train",))
    rows = pick(rows, context.settings.tokenizer_texts, 0, lambda row: "all")
    texts = [text for row in rows for text in (prompt_text(row["messages"]), row["answer"])]
    seed = context.settings.seed
    processor = Processor(train_tokenizer(texts, preset.shape.vocab_size), image_processor(preset), preset)
    model = build_model(preset, processor.tokenizer, seed)
    record = checkpoints.lineage(
        context.stage, preset, parents=context.parents, config=context.config, seeds={"weights": seed}
    )
    checkpoints.save_checkpoint(folder / MODEL, model, processor, record)
    count = parameter_count(model)
    checks = [
        finite(model),
        loads(folder / MODEL),
        HAS_TEXTS.check(bool(texts), f"{len(texts)} texts", "at least 1", len(texts), 1),
    ]
    # a shape of one's own has its own size
    if preset.name == "nano" and not context.settings.shape.model_fields_set:
        checks.append(NANO_SIZE.check(2e6 <= count <= 6e6, f"{count:,}", "2 to 6 million parameters", count))
    return StageResult(
        folder, {"parameters": count, "vocabulary": len(processor.tokenizer), "texts": len(texts)}, checks
    )


def _kept_base(context: Context, folder: Path, preset: Preset) -> StageResult:
    """A checkpoint as it is, with its own tokenizer: one of Vesper's, or a folder of published weights. Raises
    `ValueError` if it is of another preset or shape."""
    place, shape = Path(context.settings.weights), context.config["shape"]
    if not (place / checkpoints.LINEAGE).is_file():
        return _published_base(context, folder, preset, place)
    kept = checkpoints.load_checkpoint(place)
    if shape or kept.processor.preset.name != preset.name:
        raise ValueError(
            f"weights {place}: expected a checkpoint of preset {preset.name} and no other shape, found "
            f"{kept.processor.preset.name} and shape {shape} (weights '' begins from random ones)"
        )
    spoken = kept.processor.preset.action_space
    if spoken not in (ACTION_SPACE, preset.action_space):
        raise ValueError(
            f"weights {place}: expected a checkpoint that speaks {preset.action_space}, found one that speaks "
            f"{spoken} (action_space {spoken} trains it on)"
        )
    taught: dict[str, Any] = {
        "reading": context.settings.reading,
        "action_space": preset.action_space,
        "action_codec": preset.action_codec,
        # weights that were aligned to another form keep it, unless the corpus has one of its own
        **context.settings.history.of_preset(),
    }
    kept.processor.preset = replace(kept.processor.preset, **taught)
    record = checkpoints.lineage(
        context.stage,
        kept.processor.preset,
        config=context.config,
        parents={**context.parents, "weights": context.weights_digest},
    )
    checkpoints.save_checkpoint(folder / MODEL, kept.model, kept.processor, record)
    counts = {"parameters": parameter_count(kept.model), "vocabulary": len(kept.processor.tokenizer)}
    return StageResult(folder, counts, [finite(kept.model), loads(folder / MODEL)])


def _published_base(context: Context, folder: Path, preset: Preset, place: Path | None = None) -> StageResult:
    """A published preset's weights, as they are: by name, or those of a folder, whose own sizes count. Raises
    `ValueError` for a folder of published weights without a published preset."""
    if place is not None:
        if preset.shape is not None:
            raise ValueError(
                f"weights {place}: expected a checkpoint with {checkpoints.LINEAGE} for preset {preset.name}; of "
                "published weights say the preset whose architecture and limits they have (2b, 8b or 30b-a3b)"
            )
        preset = replace(preset, source=f"sha256:{context.weights_digest}", reading=context.settings.reading)
    model, processor = load_base(preset, place)
    origin = {preset.source: "published"} if place is None else {"weights": context.weights_digest}
    record = checkpoints.lineage(context.stage, preset, parents={**context.parents, **origin}, config=context.config)
    checkpoints.save_checkpoint(folder / MODEL, model, processor, record)
    counts = {"parameters": parameter_count(model), "vocabulary": len(processor.tokenizer)}
    return StageResult(folder, counts, [finite(model), loads(folder / MODEL)])


def _require_spoken(rows: Sequence[Mapping[str, Any]], preset: Preset) -> None:
    """Raises `ValueError` where the corpus holds actions that the model's space hasn't."""
    others = set(SPACES[WIDEST]) - set(SPACES[preset.action_space])
    answers = (str(row["answer"]) for row in rows if row["objective"] == "navigation") if others else ()
    held = {found[1] for answer in answers if (found := _ACTION_NAME.search(answer))} & others
    if held:
        raise ValueError(
            f"corpus: expected the actions of {preset.action_space}, which the base speaks, found "
            f"{', '.join(sorted(held))}; make the base with the action_space of the corpus"
        )


def midtrain(context: Context, folder: Path) -> StageResult:
    """Mid-training of base on the mixture."""
    config = context.settings.midtrain
    quantised = config.lora.quantisation != "none"
    # the weights as they were wait in the machine's memory for what adapters above 4 bits have learned
    start = checkpoints.load_checkpoint(context.start, device="cpu" if quantised else context.device)
    # whole screens and episodes are kept out of training: the validation loss is of pictures never trained on
    rows = light_rows(context.inputs[CORPUS], ("train",))
    _require_spoken(rows, start.processor.preset)
    aside = set_aside(rows, context.settings.validation_share, context.settings.validation_episodes)
    chosen = pick(aside, context.settings.validation_rows, config.seed, lambda row: row["objective"])
    validation: Sequence[Mapping[str, Any]] = with_pictures(context.inputs[CORPUS], chosen)
    # by id, before the order of rows is made, so that none of them is ever drawn
    without = [str(row["sample_id"]) for row in aside]
    kept_out = set(without)
    mixture = MixtureSource(context.store, context.inputs[MIXTURE], seed=config.seed, without=without)
    source = scheduled(mixture, config, [row for row in rows if row["sample_id"] not in kept_out])
    source, validation = as_read(source, validation, start.processor, config.seed)
    trained = load_in_four_bits(context.start, context.device, bf16=config.bf16) if quantised else start.model
    if config.lora.rank:
        add_adapters(trained, config.lora, config.seed)
    curve = engine(config.engine)(
        trained,
        start.processor,
        source,
        config,
        state_dir=context.state_dir,
        validation=validation,
        on_event=context.on_event,
        progress=context.progress,
    )
    if quantised:
        add_adapters(start.model, config.lora, config.seed)
        move_adapters(trained, start.model)
    if config.lora.rank:
        take_off_adapters(start.model, config.lora, folder / ADAPTERS)
    steps = curve.steps
    tenth = max(1, len(steps) // 10)  # single steps are too noisy to say whether the loss fell
    first, last = fmean([s["loss"] for s in steps[:tenth]]), fmean([s["loss"] for s in steps[-tenth:]])
    tokens = sum(step["tokens"] for step in steps)
    metrics = {"first_loss": first, "last_loss": last, "steps": len(steps), "tokens": tokens}
    if curve.validation:
        metrics["validation"] = curve.validation[-1]
    record = checkpoints.lineage(
        context.stage,
        start.processor.preset,
        parents=context.parents,
        config=context.config,
        seeds={"order": config.seed},
        metrics=metrics,
    )
    checkpoints.save_checkpoint(folder / MODEL, start.model, start.processor, record)
    (folder / CURVE).write_text(canonical_json(curve.plain()) + "\n", encoding="utf-8")
    counts = {
        "steps": len(steps),
        "tokens": tokens,
        "samples": sum(step["samples"] for step in steps),
        "first_loss": first,
        "last_loss": last,
        "bad_rows": curve.bad_rows,
        "validation_rows": len(validation),
        "parameters": parameter_count(start.model),
    }
    counts |= {f"validation_{name}": value for name, value in (curve.validation or [{}])[-1].items() if name != "step"}
    return StageResult(
        folder,
        counts,
        [
            finite(start.model),
            loads(folder / MODEL),
            _loss_fell(curve.validation, first, last),
            ALL_STEPS.check(len(steps) == config.max_steps, len(steps), config.max_steps),
        ],
    )


def _loss_fell(validation: Sequence[Mapping[str, float]], first: float, last: float) -> Check:
    """On validation, before and after: that of all fell, and of no objective it rose by more than `UNLEARNED`, which a
    few rows may do by chance; without validation by the first and the last tenth of the steps, whose loss also moves
    with the mixture. It warns: a run of days isn't lost for it."""
    before, after = (validation[0], validation[-1]) if validation else ({"all": first}, {"all": last})
    names = sorted(name for name in after if name != "step" and name in before)
    worse = [name for name in names if after[name] >= before[name] * (1 if name == "all" else 1 + UNLEARNED)]
    shown = ", ".join(f"{name} {before[name]:.3f} -> {after[name]:.3f}" for name in worse or names)
    expected = f"all below the start, no objective {UNLEARNED:.0%} above it"
    return LOSS_FELL.check(not worse, shown, expected, after["all"], before["all"])


def specialist(context: Context, folder: Path) -> StageResult:
    """Offline RL of one domain from the mid-trained checkpoint."""
    config = context.settings.offline.of_domain(context.domain)
    if config.semi_online and (form := context.settings.history.form) != "action":
        raise ValueError(
            f"offline.semi_online: expected a corpus whose history is action, which the policy's own words replace, "
            f"found {form}"
        )
    rows = rl_rows(context, config, context.settings.domains)
    with Watch(context.state_dir, context.on_event, progress=context.progress, label=context.stage) as watch:
        result = train_offline(
            context.start,
            rows.train,
            rows.held_out,
            folder / MODEL,
            config,
            validation_rows=rows.validation or None,
            state_dir=context.state_dir,
            parents=context.parents,
            on_event=watch,
            device=context.device,
            adapters=folder / ADAPTERS,
        )
    found, has_episodes = result.metrics, DOMAINS[context.domain].objective == "navigation"
    gain = found["reward_gain"]
    counts = {
        **{name: found[name] for name in COUNTED},
        "reward_before": found["before"]["reward"],
        "reward_after": found["after"]["reward"],
        "reward_gain": gain["mean"],
        "reward_gain_low": gain["low"],
        "reward_gain_high": gain["high"],
        "alignments": len(found["alignments"]),
        "aligned_tasks": sum(event["changed"] for event in found["alignments"]),
        "validation_traces": found["validation_traces"],
        "peak_criterion": found["peak_criterion"],
    }
    traces = TRACES_DECIDE.check(
        found["peak_criterion"] == "trace_success",
        f"{found['peak_criterion']}, of {found['validation_traces']} whole episodes of validation",
        f"trace_success, of at least {config.min_traces}",
        found["validation_traces"],
        config.min_traces,
    )
    return StageResult(
        folder,
        counts,
        [
            *([traces] if config.warn_without_traces and has_episodes else []),
            loads(folder / MODEL),
            REWARD_HELD.check(*did_not_fall(gain, f"{gain['mean']:.4f}")),
            moved_finitely(found),
        ],
    )


def linear_merge(context: Context, folder: Path) -> StageResult:
    """The specialists' mean."""
    return _merged(context, folder, "linear")


def ties_merge(context: Context, folder: Path) -> StageResult:
    """TIES merge of the specialists, against the checkpoint that they all started from; of several densities and
    lambdas those that do best on validation."""
    return _merged(context, folder, "ties")


def _merged(context: Context, folder: Path, method: str) -> StageResult:
    settings = context.settings.merge
    start, specialists = context.start, [context.folder(name) for name in settings.specialists]
    how: dict[str, Any] = {"weights": settings.weights, "parents": context.parents, "stage": context.stage}
    options = candidates(settings.density, settings.lam) if method == "ties" else []
    counts: dict[str, Any] = {}
    if len(options) > 1 and (tasks := _validation_of_merge(context)):
        how |= {"device": context.device, "replies": settings, "on_event": context.on_event}
        report, tried = choose_ties(start, specialists, folder / MODEL, options, tasks, **how)
        (folder / CHOICE).write_text(canonical_json([one.plain() for one in tried]) + "\n", encoding="utf-8")
        counts = {"tried": len(tried), "validation_success": max(one.mean for one in tried)}
    else:
        # one candidate needs no validation
        ties: dict[str, Any] = {"density": options[0][0], "lam": options[0][1]} if options else {}
        report = merge(method, start, specialists, folder / MODEL, **how, **ties)
    counts |= {"density": list(report.density), "lambda": report.lam} if options else {}
    loaded = checkpoints.load_checkpoint(folder / MODEL)
    counts = {
        "parameters": parameter_count(loaded.model),
        "models": len(specialists),
        "method": method,
        **report.counts(),
        **counts,
    }
    return StageResult(folder, counts, [finite(loaded.model), loads(folder / MODEL)])


def _validation_of_merge(context: Context) -> dict[str, list[RlTask]]:
    """Tasks of each merged domain from the rows that no training has seen."""
    settings, shards = context.settings.merge, context.inputs[CORPUS]
    limit = settings.validation_rows
    aside = set_aside(
        light_rows(shards, ("train",)), context.settings.validation_share, context.settings.validation_episodes
    )
    domains = merged_domains(settings.specialists)
    rows = {
        # twice as many as are wanted: some can't be used as tasks
        domain: with_pictures(shards, by_cluster(rows_of(aside, domain, domains), 2 * limit, 0))
        for domain in domains
    }
    return validation_tasks(rows, context.start, limit)
