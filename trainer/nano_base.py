"""Building nano-base: a nano model that can see, as Qwen3-VL's published weights are for the larger presets.

One command, resumable: sheets of elements are drawn once, a tokenizer is learned on the words of the curriculum, the
vision tower learns names, the model trains on pasted screens lesson after lesson, and the gate measures what it sees on
sheets that training never saw, beside the blind table, the random element and the swapped screen. Everything but the
measure's wall time is a function of the config. The instruction stands before the image, one question a sequence.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.ids import digest
from trainer.perception import Drawings, PerceptionSource
from trainer.presets import NANO_BASE
from trainer.vision_names import FilledScreens, VisionConfig, train_vision

if TYPE_CHECKING:
    from trainer.batches import Processor
    from trainer.checkpoint import Lineage
    from trainer.midtrain import MidtrainConfig

OnEvent = Callable[[dict[str, Any]], None]
GATE = "gate.json"
GATED = ("shapes", "icons", "words", "texts", "mixed", "acts", "layouts")
"""Lessons that the gate measures unless others are named; it is passed on "mixed"."""


@dataclass(frozen=True)
class Phase:
    """A part of the curriculum: `steps` batches of lessons drawn by weight, with a learning rate and the width of
    coordinate targets (0..1000) at its first and last step. It leaves a checkpoint that the next one starts from.

    While `frozen` the vision tower stays as it is: a decoder that can't compare yet would unlearn it to read."""

    name: str
    lessons: Mapping[str, float]
    steps: int
    lr: float = 6e-4
    sigma: tuple[float, float] = (60.0, 30.0)
    frozen: bool = True
    batch_size: int = 32


SHAPE: dict[str, Any] = {
    "vocab_size": 3072, "vision_hidden": 160, "vision_heads": 5, "vision_intermediate": 320,
    "deepstack": [], "position_grid": 28,
    "position_init": 0.2, "pixels": 320 * 448, "enlarged_to": 0.1,
}  # fmt: skip
"""What nano-base changes of the nano preset: text of 16 px is large enough to be read, and is never another size."""
CURRICULUM = (
    Phase("few", {"colour": 0.25, "shapes": 0.15, "icons": 0.2, "words": 0.4}, 900, 1e-3),
    Phase("wide", {"wide": 0.6, "words": 0.2, "icons": 0.1, "shapes": 0.1}, 600, sigma=(50.0, 25.0), batch_size=16),
    Phase("texts", {"texts": 0.6, "wide": 0.2, "words": 0.1, "mixed": 0.1}, 300, sigma=(40.0, 20.0), batch_size=16),
    Phase("mixed", {"mixed": 0.35, "layouts": 0.15, "texts": 0.15, "words": 0.25, "icons": 0.1}, 1000,
          sigma=(30.0, 12.0), batch_size=16),
    Phase("acts", {"acts": 0.7, "mixed": 0.15, "layouts": 0.15}, 600, sigma=(30.0, 12.0), batch_size=16),
    Phase("all", {"acts": 0.35, "layouts": 0.15, "mixed": 0.1, "words": 0.15, "icons": 0.1, "shapes": 0.15}, 400, 4e-4,
          sigma=(30.0, 12.0), batch_size=16),
)  # fmt: skip
"""One attribute and few elements first, crowds later; then elements as people name them, and goals as a navigation
sample puts them. Each phase keeps a share of what came before."""


@dataclass(frozen=True)
class NanoBaseConfig:
    """What decides the weights, beside the curriculum."""

    seed: int = 0
    sheets: int = 200
    layouts: int = 1200
    held_out_sheets: int = 8
    held_out_layouts: int = 80
    vision: VisionConfig = field(default_factory=VisionConfig)
    """The vision tower alone, before any question."""
    curriculum: tuple[Phase, ...] = CURRICULUM
    warmup: int = 30
    final_lr_share: float = 0.3
    tokenizer_rows: int = 6_000
    gate_rows: int = 240
    gated: tuple[str, ...] = GATED
    """Lessons that the gate measures; "mixed" must be one."""
    threads: int = 2
    save_every: int = 100
    shape: Mapping[str, Any] = field(default_factory=lambda: dict(SHAPE))

    def __post_init__(self) -> None:
        if (
            min(
                self.sheets,
                self.layouts,
                self.held_out_sheets,
                self.held_out_layouts,
                self.gate_rows,
                self.tokenizer_rows,
            )
            < 1
        ):
            raise ValueError(f"nano-base: expected sheets, layouts and rows of at least 1, found {self}")
        if "mixed" not in self.gated:
            raise ValueError(f'nano-base: gated: expected "mixed" among the lessons, found {self.gated}')

    def midtrain(self, phase: Phase) -> MidtrainConfig:
        """A phase as the settings of `trainer.midtrain.train`."""
        from trainer.midtrain import MidtrainConfig
        from trainer.span_weights import SpanWeights

        return MidtrainConfig(
            steps=phase.steps, batch_size=phase.batch_size, lr=phase.lr, warmup=min(self.warmup, phase.steps),
            final_lr_share=self.final_lr_share, sigma=phase.sigma, seed=self.seed, threads=self.threads, bf16=True,
            save_every=self.save_every, validate_every=0, freeze_vision=phase.frozen,
            spans=SpanWeights(coordinate=1.0, text=2.0),
        )  # fmt: skip


def build_nano_base(
    out: Path, work: Path, config: NanoBaseConfig | None = None, *, texts: Iterable[str] = (),
    on_event: OnEvent | None = None, progress: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Build (or go on building) in `work`, write the checkpoint and its `gate.json` to `out`; → the gate's figures.

    Each phase lies in `work/<number>-<name>` once it is done, and isn't done again while what it depends on is the
    same; within one, `trainer.midtrain` resumes. `texts` join the curriculum's words for the tokenizer. Needs Chromium
    for sheets that aren't drawn yet.
    """
    from trainer.checkpoint import load_checkpoint, save_checkpoint

    config = config or NanoBaseConfig()
    seen = Drawings.of_split(work, "train", config.sheets, config.layouts)
    seen.draw([], progress)
    folder = _start(work, seen, config, texts)
    folder = _vision(work, folder, seen, config, on_event, progress)
    for number, phase in enumerate(config.curriculum, 2):
        seen.draw(phase.lessons, progress)
        folder = _phase(work, folder, number, phase, seen, config, on_event, progress)
    made = load_checkpoint(folder)
    save_checkpoint(out, made.model.bfloat16(), made.processor, made.lineage)
    found = gate(out, seen, Drawings.of_split(work, "test", config.held_out_sheets, config.held_out_layouts), config)
    (out / GATE).write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return found


def _start(work: Path, drawings: Drawings, config: NanoBaseConfig, texts: Iterable[str]) -> Path:
    """Random weights, and a tokenizer of the curriculum's words and `texts`; kept in `work/0-random`."""
    from generators.perception.questions import LAYOUTS, LESSONS
    from pipelines.prompts import prompt_text
    from trainer.batches import Processor, image_processor
    from trainer.checkpoint import lineage
    from trainer.model import build_model
    from trainer.stages import preset_from
    from trainer.tokenizer import train_tokenizer

    folder, used, texts = work / "0-random", preset_from({"preset": "nano", "shape": config.shape}), sorted(texts)
    every = PerceptionSource(drawings, {name: 1.0 for name in LESSONS if name != LAYOUTS}, "tokenizer")
    plain = {"seed": config.seed, "preset": used.plain(), "tokenizer_rows": config.tokenizer_rows,
             "data": every.digest(), "texts": digest(texts)}  # fmt: skip
    if _done(folder, plain):
        return folder
    assert used.shape is not None
    rows = [every.question(place)[0] for place in range(config.tokenizer_rows)]
    words = [text for row in rows for text in (prompt_text(row["messages"]), row["answer"])]
    processor = Processor(train_tokenizer([*words, *texts], used.shape.vocab_size), image_processor(used), used)
    model = build_model(used, processor.tokenizer, config.seed)
    _keep(folder, model, processor, lineage("random", used, config=plain, seeds={"weights": config.seed}))
    return folder


def _vision(
    work: Path, start: Path, drawings: Drawings, config: NanoBaseConfig, on_event: OnEvent | None, progress: bool
) -> Path:
    from trainer.checkpoint import lineage, load_checkpoint
    from trainer.image_labels import LabelledImages
    from trainer.tensors import WeightFiles

    folder, before = work / "1-vision", WeightFiles(start).digest()
    made = load_checkpoint(start)
    screens = FilledScreens(drawings, LabelledImages.of(made.processor), config.vision.kinds, str(config.seed),
                            config.vision.full_size)  # fmt: skip
    plain = {"vision": asdict(config.vision), "data": screens.digest(), "start": before}
    if _done(folder, plain):
        return folder
    state = work / "state" / folder.name
    curve = train_vision(made.model, screens, config.vision, start=before, state_dir=state, on_event=on_event,
                         progress=progress)  # fmt: skip
    tail = curve[-min(50, len(curve)) :]
    metrics = {name: round(sum(row[name] for row in tail) / len(tail), 4) for name in tail[0]}
    _keep(folder, made.model, made.processor, lineage(
        "nano_base", made.processor.preset, config=plain, seeds={"order": config.seed},
        parents={f"nano_base/{start.name}": before}, metrics={"vision": metrics},
    ))  # fmt: skip
    return folder


def _phase(
    work: Path, start: Path, number: int, phase: Phase, drawings: Drawings, config: NanoBaseConfig,
    on_event: OnEvent | None, progress: bool,
) -> Path:  # fmt: skip
    from trainer.checkpoint import lineage, load_checkpoint
    from trainer.image_labels import LabelledImages
    from trainer.midtrain import train
    from trainer.tensors import WeightFiles

    folder = work / f"{number}-{phase.name}"
    source = PerceptionSource(drawings, phase.lessons, f"{config.seed}-{number}")
    settings = config.midtrain(phase)
    before = WeightFiles(start).digest()
    plain = json.loads(json.dumps({"midtrain": asdict(settings), "data": source.digest(), "start": before}))
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
    told = made.lineage.get("metrics", {})
    _keep(folder, made.model, made.processor, lineage(
        "nano_base", made.processor.preset, config=plain, seeds={"order": config.seed}, parents=parents,
        metrics={**told, "loss": {**told.get("loss", {}), folder.name: round(sum(tail) / len(tail), 4)}},
    ))  # fmt: skip
    return folder


def _done(folder: Path, plain: Mapping[str, Any]) -> bool:
    """Whether a folder holds the checkpoint of just this config (its lineage is written last)."""
    from trainer.checkpoint import LINEAGE, read_lineage

    return (folder / LINEAGE).exists() and read_lineage(folder)["config"] == json.loads(json.dumps(plain))


def _keep(folder: Path, model: Any, processor: Processor, made: Lineage) -> None:
    from trainer.checkpoint import LINEAGE, save_checkpoint

    (folder / LINEAGE).unlink(missing_ok=True)
    save_checkpoint(folder, model, processor, made)


def goal_texts(targets: int = 12) -> list[str]:
    """Goals of the worlds' tasks, as material for the tokenizer: phone, sites, and what MiniWoB++'s pages say."""
    import re
    from itertools import islice
    from random import Random

    from generators.environments.miniwob.html import html_folder
    from generators.generation.ground import open_ground

    found: list[str] = []
    for name in ("fsm", "phone"):
        ground = open_ground(name, targets)
        for target in ground.targets:
            rng = Random(f"nano-base/{target}")
            made = (ground.contract([idea], rng) for idea in islice(ground.ideas(target, rng), 40))
            found += [contract.instruction for contract in made if contract is not None]
    said = re.compile(r"'([A-Z][^'<>{}\n]{8,120})'")
    for page in sorted(html_folder().rglob("*.html")):
        found += said.findall(page.read_text(encoding="utf-8", errors="replace"))
    return found


def gate(checkpoint: Path, seen: Drawings, unseen: Drawings, config: NanoBaseConfig) -> dict[str, Any]:
    """What the checkpoint sees on unseen sheets, by lesson: hit rate, random element, blind table, swapped screen.

    `passed`: over the crowded screens at least three times the random-element rate, and the swapped-screen control
    within chance of the blind table's.
    """
    from generators.perception.questions import LESSONS
    from trainer.checkpoint import load_checkpoint
    from trainer.controls import BlindTable
    from trainer.evaluate import EvalConfig, evaluate

    seen.draw(LESSONS)
    unseen.draw(LESSONS)
    loaded = load_checkpoint(checkpoint)
    report: dict[str, Any] = {}
    for lesson in config.gated:
        table = PerceptionSource(seen, {lesson: 1.0}, "blind")
        blind = BlindTable(table.question(place)[0] for place in range(4 * config.gate_rows))
        rows, elements = gate_rows(PerceptionSource(unseen, {lesson: 1.0}, "gate"), config.gate_rows)
        asked = EvalConfig(grounding=len(rows), navigation=0, seed=config.seed, threads=config.threads)
        found = evaluate(loaded, rows, asked, blind=blind, elements=elements, progress=False)["summary"]["grounding"]
        report[lesson] = {name: found[name] for name in ("present", "absent", "controls")}
    crowded = report["mixed"]
    hit, random_element = crowded["present"]["mean"], crowded["controls"]["random_element"]["mean"]
    swapped, blind_rate = crowded["controls"]["swapped"], crowded["controls"]["blind"]
    passed = hit >= 3 * random_element and swapped["low"] <= blind_rate["high"]
    return {"lessons": report, "passed": bool(passed), "times_random": hit / random_element}


def gate_rows(source: PerceptionSource, count: int) -> tuple[list[dict[str, Any]], dict[str, list[list[float]]]]:
    """The first `count` grounding rows with encoded pictures, and the boxes of all elements by picture."""
    from pipelines.images import encode_png
    from schemas.coordinates import box_to_unit
    from trainer.controls import picture_key

    rows: list[dict[str, Any]] = []
    elements: dict[str, list[list[float]]] = {}
    for place in itertools.count():
        made, screen = source.question(place)
        if made["objective"] == "grounding":
            rows.append({**made, "images": [encode_png(screen.pixels)]})
            elements[picture_key(rows[-1])] = [box_to_unit(one.box, screen.size_px) for one in screen.elements]
        if len(rows) == count:
            break
    return rows, elements


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m trainer.nano_base`; exit code 1 if the gate isn't passed."""
    parser = argparse.ArgumentParser(prog="python -m trainer.nano_base", description=(__doc__ or "").strip(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--out", type=Path, default=NANO_BASE, help="the checkpoint's folder (the package's own)")
    parser.add_argument("--work", type=Path, required=True, help="sheets and resumable state")
    parser.add_argument("--phases", type=int, default=len(CURRICULUM), help="end after so many phases (all)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    options = parser.parse_args(argv)
    config = NanoBaseConfig(vision=VisionConfig(threads=options.threads), curriculum=CURRICULUM[: options.phases],
                            threads=options.threads)  # fmt: skip
    found = build_nano_base(options.out, options.work, config, texts=goal_texts())
    print(json.dumps({name: lesson["present"]["mean"] for name, lesson in found["lessons"].items()}))
    print(f"gate {'passed' if found['passed'] else 'NOT passed'}: {found['times_random']:.2f} times the random element")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
