"""What derivers of whole trajectories make for offline RL: tasks with a checkable answer, and no step of a trace."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from PIL import Image

from pipelines.derivers.base import DeriveConfig
from pipelines.derivers.derive import screen_facts
from pipelines.derivers.trajectories import derive_trajectories
from pipelines.derivers.trajectory import JudgedTrajectory, RunVerdict
from schemas.action_types import Finished
from schemas.actions import format, parse
from schemas.tables import Screens
from trainer.modeling.processor import Processor
from trainer.offline.tasks import complete_episodes, tasks_of

ACTIONS = [f"Click(box=({place},{place}))" for place in range(100, 900, 100)]
PICTURES = {}
for place in range(len(ACTIONS) + 1):
    png = io.BytesIO()
    Image.new("RGB", (64, 64), (20 * place, 90, 90)).save(png, "PNG")
    PICTURES[f"{place:064x}"] = png.getvalue()


def rows_of(derivers: list[str], verdict: RunVerdict) -> list[dict[str, Any]]:
    """Samples of a run of eight clicks over nine screens, with their pictures."""
    steps = [
        {
            "source": "generated",
            "episode_id": "run",
            "step_index": step,
            "split": "train",
            "platform": "web",
            "instruction": "Go there",
            "screenshot_sha256": sha,
            "width_px": 64,
            "height_px": 64,
            "action_text": [*ACTIONS, format(Finished())][step],
            "thought": None,
            "conclusion": None,
            "target_box": None,
        }
        for step, sha in enumerate(PICTURES)
    ]
    facts = screen_facts(steps, Screens.table([]), DeriveConfig())  # type: ignore[arg-type]
    run = JudgedTrajectory(steps, verdict, facts, {})  # type: ignore[arg-type]
    found = derive_trajectories([run], derivers, licence="MIT").corpus.to_pylist()
    return [{**row, "images": [PICTURES[sha] for sha in row["images"]]} for row in found]


def test_which_action_came_first_is_a_task_with_two_pictures(processor: Processor) -> None:
    rows = rows_of(["dynamics"], RunVerdict(10, "success", True))
    tasks, unusable = tasks_of(rows, "web", processor)
    assert tasks and not unusable
    for task in tasks:
        first = PICTURES[f"{ACTIONS.index(format(task.truth.action)):064x}"]  # type: ignore[arg-type]
        assert len(task.row["images"]) == 2 and task.row["images"][0] == first
    learned = {row["sample_id"] for row in rows} - {task.row["sample_id"] for task in tasks}
    assert learned, "the others train mid-training, and no row both"
    assert not tasks_of(rows_of(["dynamics"], RunVerdict(5, "rough")), "web", processor)[0]


def test_a_correction_is_no_step_of_a_trace(processor: Processor) -> None:
    wrong = RunVerdict(0, "failure", True, frozenset({8}), {8: ACTIONS[0]}, {7: "PressBack()"})
    verdict = replace(wrong, wrong=frozenset({7, 8}))
    tasks, _ = tasks_of(rows_of(["error_recovery"], verdict), "web", processor)
    assert [task.truth.action for task in tasks if task.row["provenance"].count('"correction"')] == [parse(ACTIONS[0])]
    assert len(tasks) == 2 and {task.episode for task in tasks} == {None} and not complete_episodes(tasks)
