"""The program of docs/add-a-computer-program.md, as it stands there: found by its path, gated on a real desktop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dagster_project import cli
from generators.generation.task_worlds.registry import load_task_world
from generators.worlds.app_tasks import work_of
from generators.worlds.desktop import check
from generators.worlds.desktop.desktop_tasks import FAMILIES, TASKS, enter, make_task
from generators.worlds.desktop.program import DesktopProgram
from generators.worlds.desktop.programs import PROGRAMS, called, driver_options, find_program, missing_packages
from generators.worlds.desktop.session import DesktopMissing, find_base_missing

ROOT = Path(__file__).parents[2]
GATE = ("desktop", "gate", "--only", "notepad.")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    """Where the page's file stands."""
    page = (ROOT / "docs/add-a-computer-program.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "notepad.py").write_text(code, encoding="utf-8")
    yield f"{tmp_path}/notepad.py:notepad"
    PROGRAMS.pop("notepad", None)
    FAMILIES.pop("notepad.sign", None)


def test_the_table_of_programs_is_true() -> None:
    """Of packages, names, trees and counts of tasks; versions and times are of the machine that measured them."""
    page = (ROOT / "docs/worlds.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| \S+ \| (yes|no) \| .+? \| (\d+) \|$", page, re.MULTILINE)
    begun = Counter(program.name for task in TASKS if (program := called(str(task.start["program"]))))
    assert [(package, names, tree == "yes", int(tasks)) for package, names, tree, tasks in rows] == [
        (program.package, ", ".join(program.names), program.tree, begun[program.name]) for program in PROGRAMS.values()
    ]


def test_its_path_is_a_world_of_its_tasks(path: str) -> None:
    assert find_program("gnumeric").package == "gnumeric"
    # Every task of the desktop is looked up once before the program is entered: what was kept of that must not hide it.
    assert work_of(replace(TASKS[0].contract(), instruction="Something else.")) is None
    world = load_task_world(path)(path, 3, 0)
    assert world.targets == ("desktop/notepad",)
    idea = next(iter(world.ideas("desktop/notepad", Random(0))))
    task = world.contract([idea], Random(0))
    assert task is not None and world.shortest(task) == 3 and work_of(task) is not None
    known = driver_options(list(PROGRAMS.values()))
    assert dict(known["programs"])["notepad"] == ["l3afpad"]  # type: ignore[call-overload]


def test_the_page_s_task_passes_the_gate(path: str, tmp_path: Path) -> None:
    program = find_program(path)
    if lacking := find_base_missing() + missing_packages([program]):
        pytest.skip(f"not installed: {', '.join(lacking)}; apt-get install {' '.join(lacking)}")
    assert cli.main([*GATE, "--program", path, "--out", str(tmp_path / "out")]) == 0
    (row,) = check.rows_of(tmp_path / "out/rows.jsonl").values()
    assert (row.family, row.steps, row.passed) == ("notepad.sign", 3, True)


def test_where_no_session_can_start_the_gate_says_what_installs_it(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object) -> None:
        raise DesktopMissing("desktop session: not installed: xvfb; apt-get install xvfb")

    monkeypatch.setattr(check, "open_desktop", missing)
    assert cli.main([*GATE, "--program", path, "--out", str(tmp_path / "out")]) == 2
    assert "apt-get install xvfb" in capsys.readouterr().err


def test_names_that_are_taken_and_paths_to_something_else_are_refused(path: str) -> None:
    program = find_program(path)
    enter(program)
    enter(program)  # the same again is welcome
    assert make_task("notepad.sign", 1).start["program"] == "notepad"
    with pytest.raises(ValueError, match="the name 'editor' is taken"):
        enter(DesktopProgram("editor", "p", ("p",)))
    with pytest.raises(ValueError, match="the family 'files.move' is taken"):
        enter(DesktopProgram("other", "p", ("p",), families={"files.move": program.families["notepad.sign"]}))
    with pytest.raises(ValueError, match="expected a DesktopProgram, found tuple"):
        find_program(path.replace(":notepad", ":PEOPLE"))
    with pytest.raises(ValueError, match="desktop program: .*found 'moon'"):
        find_program("moon")
