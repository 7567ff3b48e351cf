"""Real programs on a real desktop: resets, what they refuse, and the checks of tasks."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from generators.devices.desktop.home_folder import HIDDEN
from generators.devices.device import DeviceEndpoint, DeviceError
from generators.tasks.world_interface import World, WorldError
from generators.worlds.desktop import session
from generators.worlds.desktop.desktop_task import failed_checks, rest_digest, sha256_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.program import DesktopProgram
from generators.worlds.desktop.tasks_archives import packed
from schemas.action_types import Click, Hover


def test_a_desktop_that_does_not_start_says_why_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = session._make_plan

    def of_no_size(*given: Any) -> dict[str, Any]:
        return {**plan(*given), "size": ["no", "size"]}

    monkeypatch.setattr(session, "_make_plan", of_no_size)
    why = "desktop session did not start: Xvfb ended with code 1"
    with pytest.raises(DeviceError, match=why) as caught, session.open_desktop((640, 480)):
        pass
    assert "\n" not in str(caught.value)


def test_reset_gives_a_fresh_home(world: DesktopWorld) -> None:
    assert isinstance(world, World)
    start: dict[str, Any] = {"program": "mousepad", "files": {"a/b.txt": "one"}, "open": "a/b.txt"}
    world.reset({"program": "appearance settings", "files": {"other.txt": "x"}})
    assert world.state()["settings"]["xsettings/Gtk/ButtonImages"] == "true"  # held by a service, not by a file
    world.reset(start)
    state = world.state()
    assert [(file["path"], file["text"]) for file in state["files"]] == [("a/b.txt", "one")]
    assert (state["folders"], state["programs"], state["window"]["app"]) == (["a"], ["mousepad"], "mousepad")
    assert not any(key.startswith("xsettings/") for key in state["settings"])


@pytest.mark.parametrize("path", ["../out.txt", "/etc/passwd", "a/../../b", "", ".disposable-home"])
def test_files_stay_inside_the_home(world: DesktopWorld, path: str) -> None:
    with pytest.raises(WorldError, match="inside the home folder"):
        world.reset({"program": "galculator", "files": {path: "x"}})


def test_a_start_without_a_program_is_refused(world: DesktopWorld) -> None:
    with pytest.raises(WorldError, match="name of a program"):
        world.reset({"files": {}})
    with pytest.raises(WorldError, match="expected a start of this world, found one of 'phone'"):
        world.reset({"world": "phone", "program": "mousepad"})
    with pytest.raises(WorldError, match="no program named 'rm -rf"):
        world.reset({"program": "rm -rf /"})


def test_a_program_that_is_not_installed_is_told_with_the_line_that_installs_it(desktop: DeviceEndpoint) -> None:
    nowhere = DesktopProgram("nowhere", "no-such-package", ("no-such-program",))
    more = {"programs": {"nowhere": ["no-such-program"]}, "packages": {"no-such-program": nowhere.package}}
    known = replace(desktop, options={**(desktop.options or {}), **more})
    with DesktopWorld(known) as world, pytest.raises(WorldError, match="apt-get install no-such-package"):
        world.reset({"program": "nowhere"})


def test_settings_archives_and_what_programs_keep_for_themselves_in_the_state(desktop: DeviceEndpoint) -> None:
    files = {"notes.conf": "[page]\nsize=7\n", ".kept": "x", "box.tar": packed({"a.txt": "one\n"})}
    more: dict[str, Any] = {"settings": {"notes": "notes.conf"}, "hidden": (*HIDDEN, ".kept")}
    known = replace(desktop, options={**(desktop.options or {}), **more})
    with DesktopWorld(known) as world:
        world.reset({"program": "calculator", "files": files})
        state = world.state()
    assert state["settings"]["notes/page/size"] == "7"
    assert [(file["path"], file.get("members")) for file in state["files"]] == [
        ("box.tar", {"a.txt": sha256_of("one\n")}),
        ("notes.conf", None),
    ]


def test_a_tooltip_takes_no_click(world: DesktopWorld) -> None:
    world.reset({"program": "calculator", "files": {}})
    at = {one.name: one.centre for one in world.elements() if one.role == "toggle button"}
    for _ in range(2):
        world.act(Hover(at["MS"]))
        time.sleep(1)  # its tooltip lies over the key below by now
        world.act(Click(at["8"]))
    assert [one.text for one in world.elements() if one.role == "text"] == ["88"]


CHECKS: list[dict[str, Any]] = [
    {"check": "file", "path": "a", "text": "1"},
    {"check": "untouched", "path": "a", "sha256": "0"},
    {"check": "gone", "path": "a"},
    {"check": "gone", "path": "b"},
    {"check": "folder", "path": "a"},
    {"check": "rest", "except": [], "digest": rest_digest({}, ())},
    {"check": "setting", "key": "k", "is": "1"},
    {"check": "process", "program": "p", "running": False},
    {"check": "process", "program": "q", "running": True},
    {"check": "window", "app": "x", "role": "text", "text": "1"},
    {"check": "answer", "is": "1"},
    {"check": "has", "path": "a", "lines": ["1"]},
    {"check": "members", "path": "a", "files": {"1": "0"}},
    {"check": "drawn", "path": "a", "digest": "0"},
    {"check": "cells", "path": "a", "cells": {"A1": "1"}},
    {"check": "paragraphs", "path": "a", "lines": ["1"]},
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check["check"]))
def test_every_kind_of_check_can_fail(check: dict[str, Any]) -> None:
    state = {
        "files": [{"path": "a", "text": "2", "sha256": "9"}],
        "folders": ["b"],
        "programs": ["p"],
        "settings": {"k": "2"},
        "window": {"app": "x", "texts": []},
    }
    assert len(failed_checks({"rule": "desktop_state", "checks": [check]}, state, "2")) == 1


def test_unknown_rules_and_checks_are_errors() -> None:
    with pytest.raises(ValueError, match="expected the rule 'desktop_state'"):
        failed_checks({"rule": "other", "checks": []}, {})
    with pytest.raises(ValueError, match="at least one check"):
        failed_checks({"rule": "desktop_state", "checks": []}, {})
    with pytest.raises(ValueError, match="unknown check 'magic'"):
        failed_checks({"rule": "desktop_state", "checks": [{"check": "magic"}]}, {"files": [], "window": {}})
