"""The capacity page is what its command makes of the figures, and every knob of that command does something."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from bench import capacity  # noqa: E402
from bench.capacity import Assumptions, cost, growing, page  # noqa: E402

FIGURES = json.loads((ROOT / "bench" / "capacity_figures.json").read_text())


def _values(said: Assumptions | None = None) -> list[float]:
    return [line.value for line in cost(FIGURES, said or Assumptions(), 10e9, 30_000)]


def _growing(said: Assumptions) -> list[str]:
    return growing(cost(FIGURES, said, 10e9, 30_000), said)


def test_the_page_is_made_by_its_command(tmp_path: Path) -> None:
    assert capacity.main(["--out", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "capacity.md").read_text()


@pytest.mark.parametrize("knob", [one.name for one in fields(Assumptions)])
def test_every_assumption_matters_and_is_named_on_the_page(knob: str) -> None:
    said = replace(Assumptions(), **{knob: type(getattr(Assumptions(), knob))(getattr(Assumptions(), knob) * 2)})
    assert _values(said) != _values() or _growing(said) != _growing(Assumptions())
    assert f"`--{knob.replace('_', '-')}`" in page(FIGURES, said, 1e9, 10)


def test_every_measured_figure_matters_and_says_where_it_was_measured() -> None:
    for name, figure in FIGURES.items():
        other = {**FIGURES, name: {**figure, "value": figure["value"] * 2}}
        changed = [line.value for line in cost(other, Assumptions(), 10e9, 30_000)]
        assert (changed != _values()) or name == "rows unified, flat", name
        assert figure["where"] and figure["date"].startswith("20") and figure["value"] > 0


def test_what_breaks_first_is_the_smaller_bound() -> None:
    text = " ".join(_growing(replace(Assumptions(), machine_tb=1.0)))
    assert "the disk on one machine of 16 cores" in text and "the night on one core" in text


def test_costs_grow_with_what_is_asked_for() -> None:
    lines = cost(FIGURES, Assumptions(), 10e9, 30_000)
    doubled = cost(FIGURES, Assumptions(), 20e9, 60_000)
    assert [line.value for line in doubled] == pytest.approx([2 * line.value for line in lines])
    # 6 x 8.8e9 x 10e9 FLOPs at 35 % of 989e12 a second
    trained = next(line.value for line in lines if line.what == "mid-training")
    assert trained == pytest.approx(6 * 8.8e9 * 10e9 / (989e12 * 0.35) / 3600)
