"""Offline RL aligns histories between epochs: what changes, where it is told, and that a killed run ends the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn import draw

from pipelines.prompts import messages, navigation_text, prompt_text, reply_text
from schemas.actions import Finished, Scroll, render
from trainer.data.row_sources import ListSource
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import lineage, load_checkpoint, read_preset, save_checkpoint
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles
from trainer.offline.epoch_alignment import aligned_rows, as_trained, wanted, with_aligned
from trainer.offline.tasks import tasks_of
from trainer.offline.train import train_offline
from trainer.presets import preset
from trainer.settings.grpo import GrpoConfig
from trainer.settings.offline import AlignmentConfig, OfflineConfig
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
THOUGHTS = ("go on", "it is below")
CONFIG = OfflineConfig(
    domain="web",
    updates=5,
    prompts=5,
    num_generations=2,
    learning_rate=1e-4,
    warmup_steps=1,
    validation_limit=3,
    validation_samples=0,
    held_out_limit=3,
    held_out_samples=1,
    eval_steps=5,
    save_steps=1,
    keep="last",
    threads=1,
    grpo=GrpoConfig(max_completion_length=48),
    align=True,
    alignment=AlignmentConfig(num_generations=4, target_length=5, variants=2, sparse_share=0.5),
)


def rows_of(count: int, seed: int, thought: bool = False) -> Rows:
    """Episodes of three steps: scroll down, scroll down, finish; the last is the rarer one."""
    found: Rows = []
    for index in range(count):
        picture = draw({"red": (10 + 37 * index % 150, 40, 50 + 37 * index % 150, 80)})
        for step, action in enumerate((Scroll(direction="down"), Scroll(direction="down"), Finished())):
            history = [(i + 1, render(Scroll(direction="down"), "web")) for i in range(step)]
            said = THOUGHTS[(index + step) % 2] if thought else ""
            found.append(
                {
                    "sample_id": f"{seed}-{index}-{step}",
                    "source": "drawn",
                    "split": "train",
                    "platform": "web",
                    "images": [picture],
                    "target_boxes": [],
                    "licence": "CC0",
                    "synthetic": False,
                    "parents": [f"step:drawn/{seed}-{index}/{step}"],
                    "objective": "navigation",
                    "messages": messages("navigation", navigation_text("scroll on", history)),
                    "answer": reply_text(action, "web", said),
                    "provenance": json.dumps({"episode": f"{seed}-{index}", "step": step}),
                }
            )
    return found


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, tiny_preset: Any, processor: Any) -> Path:
    """A checkpoint that thinks before it acts, in one of two ways."""
    from trainer.modeling.model import build_model

    folder = tmp_path_factory.mktemp("start")
    model = build_model(tiny_preset, processor.tokenizer, seed=1)
    settings = MidtrainConfig(max_steps=120, batch_size=12, learning_rate=4e-3, warmup_steps=5, threads=1)
    train(model, processor, ListSource(rows_of(8, 1, thought=True)), settings, progress=False)
    save_checkpoint(folder, model, processor, lineage("mid_training", tiny_preset))
    return folder


def run(start: Path, out: Path, config: OfflineConfig, **options: Any) -> dict[str, Any]:
    return train_offline(
        start, rows_of(4, 2), rows_of(1, 3), out, config, validation_rows=rows_of(1, 4), **options
    ).metrics


class Stop(Exception):
    pass


def test_epochs_after_the_first_are_aligned_told_and_the_same_after_a_kill(start: Path, tmp_path: Path) -> None:
    events: Rows = []
    whole = run(start, tmp_path / "whole", CONFIG, on_event=events.append)
    [aligned] = whole["alignments"]
    assert aligned == next(event for event in events if event["kind"] == "aligned")
    # twelve tasks: the first epoch ends within the third update, and then two steps of each episode have a history
    assert aligned["epoch"] == 1 and aligned["update"] == 2 and aligned["steps"] == 12
    assert 0 < aligned["changed"] <= 8 and aligned["added"] > 0 and aligned["sparse_types"] == ["Finished"]
    assert aligned["tasks"] == 12 + aligned["added"]
    assert load_checkpoint(tmp_path / "whole").lineage["metrics"]["alignments"] == whole["alignments"]
    for kind, update in (("aligned", 2), ("saved", 4)):  # between epochs; within one that was aligned
        state = tmp_path / kind

        def stop(event: dict[str, Any], kind: str = kind, update: int = update) -> None:
            if event["kind"] == kind and event["update"] == update:
                raise Stop

        with pytest.raises(Stop):
            run(start, tmp_path / "out", CONFIG, state_dir=state, on_event=stop)
        told: Rows = []
        again = run(start, tmp_path / "out", CONFIG, state_dir=state, on_event=told.append)
        assert [event["update"] for event in told if event["kind"] == "resumed"] == [update]
        assert again == whole
        assert WeightFiles(tmp_path / "out").digest() == WeightFiles(tmp_path / "whole").digest()
    preset = read_preset(tmp_path / "out")
    assert (preset.history, preset.thinking) == ("think_action", False)  # thoughts stood there unasked
    plain = run(start, tmp_path / "plain", CONFIG.changed(align=False))
    assert plain["alignments"] == []
    assert (tmp_path / "plain" / "preset.json").read_bytes() == (start / "preset.json").read_bytes()
    assert WeightFiles(tmp_path / "plain").digest() != WeightFiles(tmp_path / "whole").digest()


def test_tasks_get_their_forms_in_order_and_what_can_not_be_laid_out_is_counted(start: Path) -> None:
    loaded = load_checkpoint(start)
    tasks, _ = tasks_of(rows_of(2, 2), "web", loaded.processor)
    made, counts = aligned_rows(Sampler(loaded.model, loaded.processor), tasks, CONFIG.alignment)
    assert counts["steps"] == 6 and made and all("images" not in row for row in made)
    found, used = with_aligned(tasks, made, loaded.processor)
    assert used["tasks"] == len(found) == 6 + used["added"] and used["bad_prompt"] == 0
    of_last = [task for task in found if task.episode == "drawn/2-0" and task.step == 2]
    lines = [prompt_text(task.row["messages"]) for task in of_last]
    assert all(any(f"({thought})" in line for thought in THOUGHTS) for line in lines) and len(set(lines)) == len(lines)
    assert all(task.truth == truth_of_the_last(tasks) and task.row["images"] for task in of_last)
    broken = [{**row, "messages": "[]"} for row in made]
    kept, used = with_aligned(tasks, broken, loaded.processor)
    assert kept == tasks
    assert used == {"tasks": 6, "changed": 0, "thinking": 0, "added": 0, "bad_prompt": len(made)}


def truth_of_the_last(tasks: Any) -> Any:
    return next(task.truth for task in tasks if isinstance(task.truth.action, Finished))


def test_published_presets_align_and_nano_and_grounding_do_not() -> None:
    assert wanted(None, "mobile", preset("8b")) and wanted(None, "web", preset("2b"))
    assert not wanted(None, "mobile", preset("nano")) and wanted(True, "mobile", preset("nano"))
    assert not wanted(False, "mobile", preset("8b")) and not wanted(True, "grounding", preset("8b"))
    made = OfflineConfig.parsed({"domain": "web", "align": True, "alignment": {"variants": 5}})
    assert made.align and made.alignment == AlignmentConfig(variants=5)


def test_a_checkpoint_remembers_thoughts_in_histories_that_came_before_its_peak() -> None:
    start = preset("8b")
    aligned = [(10, 40, 30), (20, 0, 0), (30, 20, 0)]  # updates before, prompts with thoughts, asking for them
    assert as_trained(start, [], 50) == as_trained(start, aligned, 10) == start
    told = as_trained(start, aligned, 11)
    assert (told.history, told.thinking) == ("think_action", True) and as_trained(start, aligned, 50) == told
    asked = as_trained(start, [(0, 40, 10)], 1)
    assert (asked.history, asked.thinking) == ("think_action", False)
    assert as_trained(told, [], 50) == told  # what its start learned isn't forgotten
    assert {"history", "thinking"} <= told.plain().keys() and not {"history", "thinking"} & start.plain().keys()
    with pytest.raises(ValueError, match="expected history action or think_action or conclusion, found 'thoughts'"):
        replace(start, history="thoughts")  # type: ignore[arg-type]
