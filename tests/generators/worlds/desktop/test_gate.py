"""The gate of the desktop's tasks: what it reports, that it goes on where it ended, and what rounds must agree on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_project import cli
from generators.devices.device import DeviceError
from generators.worlds.desktop import check
from generators.worlds.desktop.check import GateRow, code_digest, differing, rows_of, table
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.program import DesktopProgram
from generators.worlds.desktop.programs import PROGRAMS

ROW = GateRow("a.one", 0, 0, code_digest(), "mousepad", steps=3)


def test_rounds_that_differ_are_named() -> None:
    assert differing([ROW, replace(ROW, round=1)]) == []
    assert differing([ROW, replace(ROW, round=1, why="the plan doesn't reach the goal")]) == ["a.one"]


def test_rows_of_other_code_and_a_torn_line_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written = [asdict(ROW), asdict(replace(ROW, family="a.two", code="other"))]
    path.write_text("".join(json.dumps(row) + "\n" for row in written) + '{"family": "a.th')
    assert list(rows_of(path).values()) == [ROW]
    assert rows_of(tmp_path / "none") == {}


def test_the_table_has_a_line_a_program() -> None:
    rows = [ROW, replace(ROW, family="a.two", why="x"), replace(ROW, program="gnumeric", skipped="apt-get install x")]
    lines = [line.split() for line in table(rows)[1:]]
    assert [(line[0], line[-6:-2]) for line in lines] == [
        ("gnumeric", ["yes", "1", "0", "1"]),
        ("mousepad", ["yes", "2", "1", "0"]),
    ]


@pytest.fixture
def desktops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Desktops that aren't there: what is gated on them, one broken desktop first."""
    gated: list[str] = []

    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield SimpleNamespace()

    def gate(task: Any, world: object) -> tuple[int, str, float]:
        gated.append(task.name)
        if len(gated) == 1:
            raise DeviceError("gone")
        if task.name == "editor.read":
            raise ValueError("wrong")
        return 2, "actions", 0.5

    monkeypatch.setattr(check, "open_desktop", opened)
    monkeypatch.setattr(check, "DesktopWorld", opened)
    monkeypatch.setattr(check, "gate", gate)
    monkeypatch.setattr(check, "missing_packages", lambda programs: [])
    return gated


def test_it_goes_on_where_it_ended_and_survives_a_broken_desktop(desktops: list[str], tmp_path: Path) -> None:
    asked = ["desktop", "gate", "--out", str(tmp_path), "--only", "editor.read", "--only", "editor.append"]
    assert cli.main(asked) == 1
    assert sorted(desktops[1:]) == ["editor.append", "editor.read"]
    assert cli.main([*asked, "--rounds", "1"]) == 1
    assert desktops[3:] == ["editor.read"]  # what passed is not done again
    assert cli.main(["desktop", "gate", "--out", str(tmp_path), "--only", "editor.append", "--rounds", "2"]) == 0
    assert desktops[4:] == ["editor.append"]


def test_a_missing_program_is_skipped_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = DesktopProgram("nowhere", "no-such-package", ("no-such-program",))
    monkeypatch.setitem(PROGRAMS, "nowhere", nowhere)
    task: Any = SimpleNamespace(name="x.y", start={"program": "nowhere"}, plan=())
    world: Any = None
    assert check.row_of(task, 0, 0, world).skipped == "apt-get install no-such-package"
    assert not nowhere.installed() and nowhere.version() == ""


def test_a_task_passes_the_gate_on_a_real_desktop(world: DesktopWorld) -> None:
    row = check.row_of(check.make_task("files.view", 3), 3, 0, world)
    assert row.passed and row.steps == 2 and row.reset_s > 0
