"""`make attack` names tests that exist, and tells a hole from what held and from what didn't run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def attack() -> Any:
    spec = importlib.util.spec_from_file_location("attack", ROOT / "bench" / "attack.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["attack"] = module
    spec.loader.exec_module(module)
    return module


def test_every_group_names_tests_that_are_there(attack: Any) -> None:
    for group in attack.GROUPS:
        for named in group.tests:
            file, _, test = named.partition("::")
            assert f"def {test}" in (ROOT / file).read_text(), named
            assert len(group.asks) <= 50


def test_a_hole_a_skip_and_a_missing_test_fail_it(
    attack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_toy.py").write_text(
        "import pytest\ndef test_held(): pass\ndef test_hole(): assert 0\n@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    toy = str(tmp_path / "test_toy.py")
    monkeypatch.setattr(
        attack,
        "GROUPS",
        (
            attack.Group("held", "what holds", (f"{toy}::test_held",)),
            attack.Group("hole", "what doesn't", (toy,)),
            attack.Group("gone", "what isn't there", (f"{toy}::test_gone",)),
        ),
    )
    assert attack.main(["--only", "held"]) == 0
    assert "HOLE" not in capsys.readouterr().out
    assert attack.main(["--only", "hole", "--json", str(tmp_path / "out.json")]) == 1
    said = capsys.readouterr().out
    assert "test_hole" in said and "test_skipped" in said and "HOLE" in said
    assert '"tried": 3' in (tmp_path / "out.json").read_text() and '"held": 1' in (tmp_path / "out.json").read_text()
    assert attack.main(["--only", "gone"]) == 1
    monkeypatch.setattr(attack, "BUDGET_S", 0.0)
    assert attack.main(["--only", "held"]) == 1
