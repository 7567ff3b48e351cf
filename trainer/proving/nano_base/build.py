"""Building nano-base: a nano model that can see, as Qwen3-VL's published weights are for the larger presets.

One command, resumable: sheets of elements are drawn once, a tokenizer is learned on the words of the curriculum, the
vision tower learns names, the model trains on pasted screens lesson after lesson, and the gate measures what it sees on
sheets that training never saw, beside the blind table, the random element and the swapped screen. Everything but the
measure's wall time is a function of the config. The instruction stands before the image, one question a sequence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.generation.task_worlds.registry import open_task_world
from generators.proving.perception.questions import LAYOUTS, LESSONS, WINDOW_LESSONS, WORLDS
from generators.worlds.miniwob.html import html_folder
from pipelines.prompts import prompt_text
from schemas.ids import digest
from trainer.data.image_labels import LabelledImages
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import LINEAGE, Lineage, lineage, load_checkpoint, read_lineage, save_checkpoint
from trainer.modeling.model import build_model
from trainer.modeling.processor import Processor
from trainer.modeling.tensors import WeightFiles
from trainer.modeling.tokenizer import train_tokenizer
from trainer.presets import image_processor
from trainer.proving.nano_base.curriculum import NanoBaseConfig, Phase
from trainer.proving.nano_base.gate import gate
from trainer.proving.nano_base.source import Drawings, PerceptionSource
from trainer.proving.nano_base.vision import FilledScreens, VisionConfig, train_vision
from trainer.runtime.tracking import OnEvent
from trainer.settings.model_shape import Shape
from trainer.settings.tree import TrainerSettings
from trainer.stages.settings import preset_from

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GATE = "gate.json"


def build_nano_base(
    out: Path,
    work: Path,
    config: NanoBaseConfig | None = None,
    *,
    texts: Iterable[str] = (),
    begin: Path | None = None,
    on_event: OnEvent | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Build (or go on building) in `work`, write the checkpoint and its `gate.json` to `out`; → the gate's figures.

    Each phase lies in `work/<number>-<name>` once it is done, and isn't done again while what it depends on is the
    same; within one, mid-training resumes. `texts` join the curriculum's words for the tokenizer. With
    `begin`, the folder of nano-base weights, the curriculum's phases go on from those, with their tokenizer, in a
    folder of their own in `work`. Needs Chromium for sheets that aren't drawn yet.
    Raises `ValueError` for an `out` that is `begin`, and a `begin` that isn't nano-base's.
    """

    config = config or NanoBaseConfig()
    if begin is not None and begin.resolve() == out.resolve():
        raise ValueError(f"{out}: expected another folder than the weights to begin from; name one with --out")
    # Kept before `work` may become a folder of its own below: all starts use the same drawings.
    drawn, seen = (
        work,
        Drawings.of_split(work, "train", config.sheets, config.layouts, config.pages, config.kits, config.apps),
    )
    seen.draw([], progress)
    if begin is None:
        start = _start(work, seen, config, texts)
        vision = config.vision.changed(threads=config.threads)
        folder = _vision(work, start, "1-vision", seen, vision, config.seed, on_event, progress)
    else:
        # Named after the weights: two starts in one working folder don't share phases.
        work, folder = work / f"from-{WeightFiles(begin).digest()[:8]}", begin
        start = _first_embeddings(work, begin, config.seed)
    for number, phase in enumerate(config.curriculum, 2):
        seen.draw([*phase.lessons, *(phase.look.shown() if phase.look else ())], progress)
        if phase.look:
            look = phase.look.changed(threads=config.threads)
            folder = _vision(work, folder, f"{number}-look", seen, look, config.seed, on_event, progress, start)
        folder = _phase(work, folder, number, phase, seen, config, on_event, progress)
    made = load_checkpoint(folder)
    # The checkpoint is written in bfloat16, which is what the gate measures and what is published.
    save_checkpoint(out, made.model.bfloat16(), made.processor, made.lineage)
    # Another split: pages that no phase has drawn from.
    counts = (config.held_out_sheets, config.held_out_layouts, config.held_out_pages)
    unseen = Drawings.of_split(drawn, "test", *counts, config.held_out_kits, config.held_out_apps)
    found = gate(out, seen, unseen, config)
    (out / GATE).write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return found


def _start(work: Path, drawings: Drawings, config: NanoBaseConfig, texts: Iterable[str]) -> Path:
    """Random weights, and a tokenizer of the curriculum's words and `texts`; kept in `work/0-random`."""

    # Sorted: the order of the goals must not change the tokenizer, which is part of every digest.
    folder, used, texts = work / "0-random", preset_from(TrainerSettings(shape=Shape(**config.shape))), sorted(texts)
    # Without layouts, worlds and kits: their words come by `texts`, and their pages needn't be drawn yet.
    every = PerceptionSource(
        drawings, {name: 1.0 for name in LESSONS if name not in (LAYOUTS, WORLDS, *WINDOW_LESSONS)}, "tokenizer"
    )
    plain = {
        "seed": config.seed,
        "preset": used.plain(),
        "tokenizer_rows": config.tokenizer_rows,
        "data": every.digest(),
        "texts": digest(texts),
    }
    if _done(folder, plain):
        return folder
    assert used.shape is not None
    rows = [every.question(place)[0] for place in range(config.tokenizer_rows)]
    words = [text for row in rows for text in (prompt_text(row["messages"]), row["answer"])]
    processor = Processor(train_tokenizer([*words, *texts], used.shape.vocab_size), image_processor(used), used)
    model = build_model(used, processor.tokenizer, config.seed)
    _keep(folder, model, processor, lineage("random", used, config=plain, seeds={"weights": config.seed}))
    return folder


def _first_embeddings(work: Path, weights: Path, seed: int) -> Path:
    """The random weights that these began with, from their tokenizer and sizes: their embeddings are what the tower was
    taught. Raises `ValueError` for weights that aren't nano-base's."""

    made, folder = load_checkpoint(weights), work / "0-random"
    if made.lineage["stage"] != "nano_base":
        raise ValueError(
            f"{weights}: expected weights of nano-base, found those of the stage {made.lineage['stage']!r}"
        )
    plain = {"seed": seed, "of": WeightFiles(weights).digest()}
    if not _done(folder, plain):
        used = made.processor.preset
        model = build_model(used, made.processor.tokenizer, seed)
        _keep(folder, model, made.processor, lineage("random", used, config=plain, seeds={"weights": seed}))
    return folder


def _vision(
    work: Path,
    start: Path,
    name: str,
    drawings: Drawings,
    config: VisionConfig,
    seed: int,
    on_event: OnEvent | None,
    progress: bool,
    anchor: Path | None = None,
) -> Path:
    """The tower alone; `anchor` is the checkpoint whose embeddings it was taught before (those of its own, if None)."""

    # The anchor is part of what decides the weights, so its digest is noted beside the start's.
    folder, before, known = work / name, WeightFiles(start).digest(), WeightFiles(anchor).digest() if anchor else ""
    made = load_checkpoint(start)
    screens = FilledScreens(
        drawings,
        LabelledImages.of(made.processor),
        config.kinds,
        str(seed),
        config.full_size,
        config.worlds,
        config.kits,
        config.apps,
    )
    plain = {"vision": config.run_part(), "data": screens.digest(), "start": before, "anchor": known}
    if _done(folder, plain):
        return folder
    state = work / "state" / folder.name
    taught = load_checkpoint(anchor).model.get_input_embeddings().weight.detach() if anchor else None
    curve = train_vision(
        made.model,
        screens,
        config,
        start=before + known,
        anchor=taught,
        state_dir=state,
        on_event=on_event,
        progress=progress,
    )
    # A mean over the last steps: a single step's figures say little.
    tail = curve[-min(50, len(curve)) :]
    metrics = {name: round(sum(row[name] for row in tail) / len(tail), 4) for name in tail[0]}
    earlier = made.lineage.get("metrics", {})
    _keep(
        folder,
        made.model,
        made.processor,
        lineage(
            "nano_base",
            made.processor.preset,
            config=plain,
            seeds={"order": seed},
            parents={f"nano_base/{start.name}": before},
            metrics={**earlier, name.partition("-")[2]: metrics},
        ),
    )
    return folder


def _phase(
    work: Path,
    start: Path,
    number: int,
    phase: Phase,
    drawings: Drawings,
    config: NanoBaseConfig,
    on_event: OnEvent | None,
    progress: bool,
) -> Path:
    folder = work / f"{number}-{phase.name}"
    source = PerceptionSource(drawings, phase.lessons, f"{config.seed}-{number}")
    settings = config.midtrain(phase)
    before = WeightFiles(start).digest()
    # Through JSON, as it will be read back: tuples would never equal lists.
    plain = json.loads(json.dumps({"midtrain": settings.plain(), "data": source.digest(), "start": before}))
    if _done(folder, plain):
        return folder
    made = load_checkpoint(start)
    if progress:
        print(f"phase {number} of {len(config.curriculum) + 1}: {phase.name}", file=sys.stderr, flush=True)
    state = work / "state" / folder.name
    seeing = LabelledImages.of(made.processor)
    curve = train(made.model, seeing, source, settings, state_dir=state, on_event=on_event, progress=progress)
    losses = [step["loss"] for step in curve.steps]
    tail = losses[-min(50, len(losses)) :]
    parents = {f"nano_base/{start.name}": before}
    earlier = made.lineage.get("metrics", {})
    _keep(
        folder,
        made.model,
        made.processor,
        lineage(
            "nano_base",
            made.processor.preset,
            config=plain,
            seeds={"order": config.seed},
            parents=parents,
            metrics={**earlier, "loss": {**earlier.get("loss", {}), folder.name: round(sum(tail) / len(tail), 4)}},
        ),
    )
    return folder


def _done(folder: Path, plain: Mapping[str, object]) -> bool:
    """Whether a folder holds the checkpoint of just this config (its lineage is written last), in either precision."""

    # Precision is left out: the same config on a machine without bfloat16 finds what was made with it.
    def asked(config: Mapping[str, object]) -> dict[str, Any]:
        return {
            name: {key: value for key, value in part.items() if key != "bf16"} if isinstance(part, dict) else part
            for name, part in config.items()
        }

    return (folder / LINEAGE).exists() and asked(read_lineage(folder)["config"]) == asked(json.loads(json.dumps(plain)))


def _keep(folder: Path, model: PreTrainedModel, processor: Processor, made: Lineage) -> None:
    # Removed first, written last: a folder without lineage is unfinished.
    (folder / LINEAGE).unlink(missing_ok=True)
    save_checkpoint(folder, model, processor, made)


def goal_texts(targets: int = 12) -> list[str]:
    """Goals of the worlds' tasks, as material for the tokenizer: phone, sites, and what MiniWoB++'s pages say."""
    import re
    from itertools import islice
    from random import Random

    found: list[str] = []
    for name in ("fsm", "phone"):
        task_world = open_task_world(name, targets)
        for target in task_world.targets:
            rng = Random(f"nano-base/{target}")
            # Forty ideas of a target: enough words, and no minutes of drawing tasks.
            made = (task_world.contract([idea], rng) for idea in islice(task_world.ideas(target, rng), 40))
            found += [contract.instruction for contract in made if contract is not None]
    said = re.compile(r"'([A-Z][^'<>{}\n]{8,120})'")
    for page in sorted(html_folder().rglob("*.html")):
        found += said.findall(page.read_text(encoding="utf-8", errors="replace"))
    return found
