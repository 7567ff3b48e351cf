"""A TIES merge gets the density and lambda with which it does most on validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drawn import draw

from pipelines.prompts import messages, navigation_text, reply_text
from schemas.actions import Scroll
from trainer.data.row_sources import ListSource
from trainer.merging.merge import REPORT
from trainer.merging.merge_choice import candidates, choose_ties, merged_domains, validation_tasks
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import lineage, read_lineage, save_checkpoint
from trainer.modeling.model import build_model
from trainer.modeling.tensors import WeightFiles
from trainer.settings.supervised import MidtrainConfig


def scrolls(count: int, direction: str) -> list[dict[str, Any]]:
    """Rows that are done by scrolling."""
    return [
        {
            "sample_id": f"{number:032x}",
            "source": "drawn",
            "split": "train",
            "platform": "web",
            "target_boxes": [],
            "images": [draw({"red": (10 + number, 40, 50 + number, 80)})],
            "licence": "CC0",
            "objective": "navigation",
            "parents": [f"step:drawn/{number}/0"],
            "messages": messages("navigation", navigation_text("scroll on", [])),
            "answer": reply_text(Scroll(direction=direction), "web"),
            "provenance": json.dumps({"episode": f"{number}", "step": 0}),
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_preset: Any, processor: Any) -> tuple[Path, Path]:
    """A base that scrolls up, and a specialist that scrolls down."""
    root = tmp_path_factory.mktemp("merge")
    model = build_model(tiny_preset, processor.tokenizer, seed=1)
    for name, direction in (("base", "up"), ("specialist", "down")):
        settings = MidtrainConfig(max_steps=60, batch_size=8, learning_rate=4e-3, warmup_steps=5, threads=1)
        train(model, processor, ListSource(scrolls(16, direction)), settings, progress=False)
        save_checkpoint(root / name, model, processor, lineage(name, tiny_preset))
    return root / "base", root / "specialist"


def test_every_density_meets_every_lambda() -> None:
    assert candidates(0.5, 1.0) == [(0.5, 1.0)]
    assert candidates([0.2, [0.5, 1.0]], [0.7, 1]) == [(0.2, 0.7), (0.2, 1), ([0.5, 1.0], 0.7), ([0.5, 1.0], 1)]
    with pytest.raises(ValueError, match=r"expected a density and a lambda at least, found \[\] and 1.0"):
        candidates([], 1.0)


def test_the_best_on_validation_is_kept_and_of_equals_the_first(folders: tuple[Path, Path], tmp_path: Path) -> None:
    base, specialist = folders
    domains = merged_domains(["offline_web", "online_web", "offline_grounding"])
    assert domains == ["grounding", "web"]
    tasks = validation_tasks({domain: scrolls(9, "down") for domain in domains}, base, 6)
    assert {domain: len(some) for domain, some in tasks.items()} == {"web": 6}  # there is none of grounding
    events: list[dict[str, Any]] = []
    options = [(0.5, 0.0), (1.0, 1.0), (1.0, 0.999999)]
    report, tried = choose_ties(
        base, [specialist], tmp_path / "out", options, tasks, on_event=events.append, stage="unified"
    )
    assert [one.mean for one in tried] == [0.0, 1.0, 1.0] and [event["success"] for event in events] == [0.0, 1.0, 1.0]
    assert (report.density, report.lam) == ((1.0,), 1.0)
    assert WeightFiles(tmp_path / "out").digest() == WeightFiles(specialist).digest() == report.weights_digest
    assert json.loads((tmp_path / "out" / REPORT).read_text())["lam"] == 1.0
    assert read_lineage(tmp_path / "out")["stage"] == "unified"
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left of what was tried"
    assert tried[1].plain() == {"density": 1.0, "lambda": 1.0, "success": {"web": 1.0}, "mean": 1.0}


def test_a_wrong_option_is_told_and_leaves_nothing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    base, specialist = folders
    tasks = validation_tasks({"web": scrolls(4, "down")}, base, 4)
    with pytest.raises(ValueError, match="density: expected numbers in 0..1"):
        choose_ties(base, [specialist], tmp_path / "out", [(1.5, 1.0)], tasks)
    assert not any(tmp_path.iterdir())
