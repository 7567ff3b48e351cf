"""The gate of nano-base: what its weights see where training never looked, beside those who can't see."""

import itertools
from pathlib import Path
from typing import Any

from pipelines.store.images import encode_png
from schemas.coordinates import box_to_unit
from trainer.data.clusters import picture_key
from trainer.evaluation.controls import BlindTable
from trainer.evaluation.evaluate import evaluate
from trainer.modeling.checkpoint import load_checkpoint
from trainer.proving.nano_base.curriculum import NanoBaseConfig
from trainer.proving.nano_base.source import Drawings, PerceptionSource
from trainer.settings.measuring import EvalConfig


def gate(checkpoint: Path, seen: Drawings, unseen: Drawings, config: NanoBaseConfig) -> dict[str, object]:
    """What the checkpoint sees on unseen sheets, layouts and pages, by lesson: hit rate, random element, blind table,
    swapped screen.

    `passed`: over the crowded screens at least three times the random-element rate, and the swapped-screen control
    within chance of the blind table's.
    """

    # Lessons on seen pages too: the blind table is made from them.
    seen.draw(config.gated)
    unseen.draw(config.gated)
    loaded = load_checkpoint(checkpoint)
    report: dict[str, Any] = {}
    for lesson in config.gated:
        table = PerceptionSource(seen, {lesson: 1.0}, "blind")
        # Four times the gate's questions: a table from fewer would know too little to be a fair opponent.
        blind = BlindTable(table.question(place)[0] for place in range(4 * config.gate_rows))
        rows, elements = _gate_rows(PerceptionSource(unseen, {lesson: 1.0}, "gate"), config.gate_rows)
        asked = EvalConfig(grounding=len(rows), navigation=0, seed=config.seed, threads=config.threads)
        found = evaluate(loaded, rows, asked, blind=blind, elements=elements, progress=False)["summary"]["grounding"]
        report[lesson] = {name: found[name] for name in ("present", "absent", "controls")}
    # The crowded lesson decides: a few elements can be told apart by chance.
    crowded = report["mixed"]
    hit, random_element = crowded["present"]["mean"], crowded["controls"]["random_element"]["mean"]
    swapped, blind_rate = crowded["controls"]["swapped"], crowded["controls"]["blind"]
    # What the swapped screen gives may not lie above what a blind table
    # reaches, or pictures weren't needed for the hits.
    passed = hit >= 3 * random_element and swapped["low"] <= blind_rate["high"]
    return {"lessons": report, "passed": bool(passed), "times_random": hit / random_element}


def _gate_rows(source: PerceptionSource, count: int) -> tuple[list[dict[str, Any]], dict[str, list[list[float]]]]:
    """The first `count` grounding rows with encoded pictures, and the boxes of all elements by picture."""

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
