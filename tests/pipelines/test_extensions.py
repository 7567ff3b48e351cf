"""Parts by name, by import path and by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.extensions import find_part, is_outside

MEMBERS = {"rules": 1, "cascade": 2}


def test_a_member_by_its_name() -> None:
    assert find_part("judge", "cascade", MEMBERS) == 2
    assert not is_outside("cascade")


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"judge: expected one of rules, cascade, .* found 'ruels'; did you mean"):
        find_part("judge", "ruels", MEMBERS)


def test_a_part_of_a_module() -> None:
    assert find_part("judge", "fractions:Fraction", MEMBERS) is __import__("fractions").Fraction


def test_a_part_of_a_file_is_the_same_object_each_time(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    pass\n")
    assert find_part("world", f"{file}:Mine", {}) is find_part("world", f"{file}:Mine", {})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.part:it", "can't be imported .*PYTHONPATH"),
        ("fractions:Fractoin", "expected 'Fractoin' in .*fractions.py"),
        ("/nowhere/mine.py:it", "expected a file, found none"),
    ],
)
def test_what_is_not_there_is_said(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_part("policy", name, MEMBERS)


def test_a_file_that_fails_is_read_again_once_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(ValueError, match="broken.py can't be loaded: ZeroDivisionError"):
        find_part("policy", f"{file}:it", {})
    file.write_text("it = 3\n")
    assert find_part("policy", f"{file}:it", {}) == 3
