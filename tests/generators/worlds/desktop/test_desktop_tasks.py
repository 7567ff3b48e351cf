"""Tasks on real programs: a plan reaches its goal by clicks and keys, and nothing less does.

A run proves a sample of the families, drawn by a digest of the code it proves: another change, another sample.
VESPER_DESKTOP_TASKS=all proves all of them (several minutes), VESPER_DESKTOP_TASKS=files.move,editor.read these.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import generators.worlds.desktop as package
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.desktop.desktop_task import DesktopTask, Intent
from generators.worlds.desktop.desktop_tasks import FAMILIES, TASKS, make_task, programs_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.plan import action_of, near_miss_of, prove, refute
from generators.worlds.desktop.programs import PROGRAMS, missing_packages
from generators.worlds.evaluators import holds
from schemas.actions import Click
from schemas.ids import digest
from schemas.tables import Tasks

pytestmark = pytest.mark.slow

SWITCH = "VESPER_DESKTOP_TASKS"
KINDS = sorted({family.partition(".")[0] for family in FAMILIES})
SAMPLED = 5
"""Kinds of which a run proves a task."""
SHORT = 4
"""Steps of the longest plan in a sample."""


def sample() -> list[str]:
    """One short family of some kinds of programs, unless the switch names others."""
    asked = os.environ.get(SWITCH, "")
    if asked:
        return list(FAMILIES) if asked == "all" else asked.split(",")
    folder = Path(package.__file__).parent
    rng = Random(digest([path.read_text() for path in sorted(folder.glob("*.py"))]))
    short = [task.name for task in TASKS if task.expected_steps <= SHORT]
    found = [[name for name in short if name.startswith(f"{kind}.")] for kind in KINDS]
    return [rng.choice(names) for names in rng.sample([names for names in found if names], SAMPLED)]


@pytest.mark.parametrize("family", sample())
def test_a_plan_reaches_the_goal_and_a_shorter_one_or_a_near_miss_does_not(world: DesktopWorld, family: str) -> None:
    task = make_task(family, 50)
    if lacking := missing_packages(programs_of(task)):
        pytest.skip(f"not installed: {', '.join(lacking)}; apt-get install {' '.join(lacking)}")
    assert len(prove(task, world)) == task.expected_steps
    assert refute(task, world)


class Told:
    """Stands in for a desktop: tells these states one after the other, the last one again and again."""

    answer = ""

    def __init__(self, *settings: str) -> None:
        self._states: list[dict[str, object]] = [{"settings": {"k": value}} for value in settings]

    def reset(self, start: object) -> None:
        pass

    def act(self, action: object) -> None:
        pass

    def state(self) -> dict[str, object]:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (("0", "0", "0"), "the plan doesn't reach the goal"),
        (("1",), "its goal holds at the reset"),
        (("0", "1", "1"), "its goal holds before the last step"),
        (("0", "0", "1"), ""),
    ],
)
def test_a_plan_is_a_proof_only_if_its_last_step_makes_the_goal_true(told: tuple[str, ...], why: str) -> None:
    check = {"check": "setting", "key": "k", "is": "1"}
    task = DesktopTask("t", "g", {"program": "p"}, (check,), (("enter",), ("enter",)))
    world = cast(DesktopWorld, Told(*told))
    if why:
        with pytest.raises(WorldError, match=why):
            prove(task, world, patience_s=0.0)
    else:
        assert len(prove(task, world, patience_s=0.0)) == 2


def test_an_intent_without_its_element_or_meaning_is_named() -> None:
    place = ScreenElement((0, 0, 9, 9), "push button", "", "Save", "k")
    with pytest.raises(WorldError, match="expected one push button named 'Save', found 2"):
        action_of(("click", "push button", "Save"), [place, place])
    assert action_of(("click", "push button", "Save"), [place, replace(place, clickable=False)]) == Click((5, 5))
    with pytest.raises(WorldError, match="unknown intent 'fly'"):
        action_of(("fly", "away"))


def test_the_large_programs_have_ten_tasks_and_all_strata_are_populated() -> None:
    programs = Counter(task.name.partition(".")[0] for task in TASKS)
    assert all(programs[kind] >= 10 for kind in ("calculator", "editor", "files", "settings", "spreadsheet", "writer"))
    strata = defaultdict(set)
    for task in (make_task(family, seed) for seed in range(3) for family in FAMILIES):
        strata[task.contract().stratum].add(task.name)
    assert len(strata["easy"]) >= 30 and len(strata["medium"]) >= 3 and len(strata["hard"]) >= 1, strata


def test_rows_fit_the_table_and_read_back_as_contracts() -> None:
    tasks = [make_task(family, 5) for family in FAMILIES]
    table = Tasks.table([task.contract().as_row() for task in tasks])
    assert table.num_rows == len(FAMILIES) == len(set(table.column("task_id").to_pylist()))
    assert [TaskSpec.from_row(task.contract().as_row()) for task in tasks] == [task.contract() for task in tasks]
    assert {task.contract().world for task in tasks} == {"desktop"}


def _state(task_start: dict[str, object]) -> dict[str, object]:
    """What a desktop tells right after a reset, as far as tasks look at it."""
    from generators.worlds.desktop.desktop_task import sha256_of

    files = task_start.get("files", {})
    assert isinstance(files, dict)
    shown = {path: text for path, text in files.items() if not path.startswith(".")}
    return {
        "files": [{"path": path, "text": text, "sha256": sha256_of(text)} for path, text in shown.items()],
        "folders": sorted({path.rpartition("/")[0] for path in shown if "/" in path}),
        "programs": sorted({program.command[0] for program in PROGRAMS.values()} - {"mousepad"}),
        "settings": {"thunar/last-view": "ThunarDetailsView"},
        "window": {},
    }


def test_a_near_miss_that_fulfils_the_task_is_named() -> None:
    check = {"check": "setting", "key": "k", "is": "1"}
    task = DesktopTask("t", "g", {"program": "p"}, (check,), (("type", "7"),))
    with pytest.raises(WorldError, match="its goal holds after a near miss"):
        refute(task, cast(DesktopWorld, Told("1")), settle_s=0.0)
    assert len(refute(task, cast(DesktopWorld, Told("0")), settle_s=0.0)) == 1


@pytest.mark.parametrize(
    ("plan", "slipped"),
    [
        ((("type", "7"), ("enter",)), (("type", "6"), ("enter",))),
        ((("type", "ab\n"),), (("type", "ax\n"),)),
        ((("answer", "12"),), (("answer", "11"),)),
        ((("click", "toggle button", "9"), ("click", "toggle button", "=")), (("click", "toggle button", "0"),)),
    ],
)
def test_a_slip_is_in_the_last_text_or_figure(plan: tuple[Intent, ...], slipped: tuple[Intent, ...]) -> None:
    task = DesktopTask("t", "g", {}, (), plan)
    assert near_miss_of(task)[: len(slipped)] == slipped and len(near_miss_of(task)) == len(plan)


@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 10**6))
def test_every_task_has_a_near_miss_that_differs_from_its_plan(family: str, seed: int) -> None:
    task = make_task(family, seed)
    assert near_miss_of(task) not in ((), task.plan)


def test_a_plan_without_anything_to_mistake_needs_a_near_miss_of_its_own() -> None:
    with pytest.raises(ValueError, match="give it a near miss of its own"):
        near_miss_of(DesktopTask("t", "g", {}, (), (("enter",),)))


@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 10**6))
def test_no_goal_holds_at_the_start_and_tasks_are_a_function_of_the_seed(family: str, seed: int) -> None:
    task = make_task(family, seed)
    assert make_task(family, seed) == task and task.name == family
    assert not holds(task.evaluator(), _state(task.start), "")
    assert task.goal.endswith((".", "?")) and "{" not in task.goal


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(ValueError, match=r"no family of tasks 'editor\.fly'"):
        make_task("editor.fly", 0)
