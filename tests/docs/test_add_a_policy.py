"""The policy of docs/add-a-policy.md, as it stands there: found by its path, it keeps what every policy keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guided import tasks_of
from policy_contract import check_policy

from generators.policies.registry import build_policy

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> str:
    page = (ROOT / "docs/add-a-policy.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "clicker.py").write_text(code, encoding="utf-8")
    return f"{tmp_path}/clicker.py:clicker"


def test_the_page_s_policy_keeps_the_contract(path: str) -> None:
    maker = build_policy(path, turns=3)
    assert maker.name == "clicker"
    check_policy(maker.make, tasks_of(["shop"], 1)[0], tasks_of(["bank"], 1)[0])


def test_an_option_that_it_lacks_is_said_with_those_it_has(path: str) -> None:
    with pytest.raises(ValueError, match=r"clicker.*unexpected keyword argument 'steps'; it takes turns"):
        build_policy(path, steps=3)
