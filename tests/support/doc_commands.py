"""Whether a command of the documentation is one that its program understands, without doing its work."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from dagster_project import cli

ROOT = Path(__file__).parents[2]
VESPER = ("vesper", ".venv/bin/vesper")
PYTHON = ("python", "python3", ".venv/bin/python")
TORCHRUN = re.compile(r"--(nproc-per-node|nnodes|node-rank|rdzv-[a-z]+|master-[a-z]+)(=.*)?")
HARMLESS = (".", "cd", "export", "mkdir", "git", "echo")
"""What may stand in an unmarked block and is no program of ours."""
OTHERS = ("pytest", "playwright", "tensorboard.main")
"""Modules that aren't ours: that they are there is all that is looked at."""


class Understood(Exception):
    """Raised in the place of the work, once a program has understood its arguments."""


@contextmanager
def only_parsing() -> Iterator[None]:
    """Within it parsers parse, and what would follow doesn't happen."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self: Any, *given: Any, **more: Any) -> Any:
        parse(self, *given, **more)
        raise Understood

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        yield


def understand(words: list[str]) -> None:
    """Raises `AssertionError` saying what is wrong with a command."""
    with only_parsing():
        _understand(words[0], words[1:], words)


def said_to_ours(words: list[str]) -> list[str]:
    """What a command says to a program of this repository, also where a container runs it; [] if it says nothing."""
    if words[0] in ("docker", "kubectl") and "exec" in words:
        words = next((words[place:] for place, word in enumerate(words) if word in VESPER), ["docker"])
    ours = words[0] in (*VESPER, *PYTHON, "make", "torchrun") or words[0].startswith("deploy/")
    return words if ours else []


def _understand(program: str, rest: list[str], words: list[str]) -> None:
    if program in VESPER:
        _parses(lambda: cli.main(rest), words)
    elif program == "make":
        _is_target(rest)
    elif program in PYTHON or program == "torchrun":
        _is_module(rest if program in PYTHON else _without_launcher(rest))
    elif program.startswith("deploy/"):
        assert os.access(ROOT / program, os.X_OK), f"{program} is no executable of this repository"
        subprocess.run(["bash", "-n", ROOT / program], check=True)
    else:
        assert program in HARMLESS, (
            f"{program!r}: a program that this test can neither run nor read; "
            "put <!-- not run: WHY --> before its block"
        )


def _parses(call: Callable[[], object], words: list[str]) -> None:
    try:
        call()
    except Understood:
        return
    except SystemExit as ended:
        assert ended.code == 0 and {"--help", "-h"} & set(words), f"not understood: {shlex.join(words)}"
    else:
        raise AssertionError(f"nothing was parsed: {shlex.join(words)}")


def _is_target(words: list[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, sign, _ = word.partition("=")
        assert re.search(rf"\b{name}\b" if sign else rf"^{name}:", text, re.MULTILINE), f"the Makefile has no {name}"


def _is_module(words: list[str]) -> None:
    if words[:1] != ["-m"]:
        script = ROOT / words[0]
        assert script.is_file(), f"{words[0]} isn't there"
        if "parse_args" not in script.read_text(encoding="utf-8"):
            assert len(words) == 1, f"{words[0]} takes no arguments"
            return
        _parses(lambda: run_as_program(script, words[1:]), words)
        return
    name, rest = words[1], words[2:]
    found = importlib.util.find_spec(name)
    assert found is not None, f"there is no module {name}"
    if name in OTHERS:
        assert all((ROOT / word).exists() for word in rest if word.startswith("tests/")), f"no such test: {rest}"
        return
    if found.submodule_search_locations:
        found = importlib.util.find_spec(f"{name}.__main__")
    assert found is not None and found.origin, f"{name} can't be run"
    if "parse_args" in Path(found.origin).read_text(encoding="utf-8"):
        _parses(lambda: run_as_program(name, rest), words)
    else:
        assert not rest, f"{name} takes no arguments"


def run_as_program(program: str | Path, arguments: list[str]) -> None:
    before = sys.argv
    sys.argv = [str(program), *arguments]
    try:
        if isinstance(program, Path):
            runpy.run_path(str(program), run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__")
    finally:
        sys.argv = before


def _without_launcher(words: list[str]) -> list[str]:
    rest = list(words)
    while rest and (match := TORCHRUN.fullmatch(rest[0])):
        del rest[: 1 if match[2] else 2]
    return rest
