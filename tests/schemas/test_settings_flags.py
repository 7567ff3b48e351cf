"""Flags of a command come from the fields of a model: names, kinds, texts, defaults."""

from __future__ import annotations

import argparse
from typing import Literal

import pytest

from schemas.settings import Flag, Number, Settings, Whole, setting
from schemas.settings_flags import add_flags, flag_names, given_flags, listing


class Loss(Settings):
    """Settings within settings."""

    beta: Number = setting(0.0, "Weight of the KL term, in % of all.", ge=0)


class Run(Settings):
    """One of each kind."""

    steps: Whole = setting(3, "Steps.", ge=1)
    rate: Number = setting(0.5, "The rate.")
    limit: Whole | None = setting(None, "At most so many.", ge=1)
    kind: Literal["a", "b"] = setting("a", "Which.")
    on: Flag = setting(True, "Whether.")
    edges: tuple[Whole, Whole] = setting((1, 2), "Two of them.")
    names: tuple[str, ...] = setting((), "Any number of them.")
    word_of: str = setting("", "A word.")
    loss: Loss = setting(Loss(), "The loss.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="x")
    add_flags(parser, Run(steps=7), flag_names(Run))
    return parser


def test_only_what_is_given_is_set() -> None:
    parser = _parser()
    assert given_flags(parser.parse_args([]), flag_names(Run)) == {}
    words = "--steps 4 --rate 1 --limit 2 --kind b --no-on --edges 3 4 --word-of y"
    found = given_flags(parser.parse_args(words.split()), flag_names(Run))
    assert found == {"steps": 4, "rate": 1, "limit": 2, "kind": "b", "on": False, "edges": [3, 4], "word_of": "y"}
    assert isinstance(found["rate"], int), "as it is written: a version holds 1, not 1.0"
    assert Run.parsed(found).steps == 4


@pytest.mark.parametrize("words", [["--steps", "x"], ["--steps", "1.5"], ["--rate", "true"], ["--kind", "c"]])
def test_other_kinds_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(words)
    assert words[0] in capsys.readouterr().err


def test_help_and_listing_tell_texts_and_defaults() -> None:
    told = _parser().format_help()
    assert "Steps (7)" in told and "Two of them (1 2)" in told and "--names" not in told and "--loss" not in told
    assert "    beta: Weight of the KL term, in % of all (0.0)" in listing(Run).splitlines()
