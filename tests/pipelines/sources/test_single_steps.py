"""Sources of single rows: evaluation rows don't train, and what stands within an episode isn't its beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import native
import pytest

from pipelines.native.chat import has_steps
from pipelines.prompts import prompt_text
from pipelines.store import Store
from pipelines.unify.unify import unify_source

GAP = "steps_before_are_rows_of_their_own"


def unified(source: str, root: Path, table: str) -> list[dict[str, Any]]:
    native.fixture(source).write(root)
    found = unify_source(Store(root / "home"), source, native.raw_of(source, root)).read(table).to_pylist()
    return list(found)


def test_groundui_s_rows_of_evaluation_sets_are_in_the_test_split(tmp_path: Path) -> None:
    splits = {prompt_text(row["messages"]): row["split"] for row in unified("groundui_18k", tmp_path, "samples")}
    tested = {asked for asked, split in splits.items() if split == "test"}
    assert tested == {"Where is the logo?", "Where is the menu?"} and len(splits) == 5


@pytest.mark.parametrize(
    ("source", "action"),
    [("os_genesis_mobile", "LongPress(box=(1000,1000))"), ("gui_libra", "Scroll(direction='down')")],
)
def test_a_row_whose_prompt_tells_earlier_steps_stands_after_a_gap(source: str, action: str, tmp_path: Path) -> None:
    marked = []
    for row in unified(source, tmp_path, "steps"):
        provenance = json.loads(row["provenance"])
        if GAP in provenance.get("rules", []):
            marked.append((row["action_text"], provenance["gap_at"]))
    assert marked == [(action, 0)]


@pytest.mark.parametrize("history", ["", " \n", "None", " none.\n\nPlease answer.", "[]"])
def test_no_history_tells_no_steps(history: str) -> None:
    assert not has_steps(history)
    assert has_steps("\nStep 1: opened None") and has_steps("none of these, then a click")


def test_every_scroll_of_a_run_after_a_long_press_selects(tmp_path: Path) -> None:
    rules = {
        row["step_index"]: json.loads(row["provenance"]).get("rules", [])
        for row in unified("gui_odyssey", tmp_path, "steps")
        if row["action_type"] in ("Drag", "Scroll")
    }
    assert rules == {
        3: ["scroll_after_long_press_selects"],
        4: ["scroll_after_long_press_selects"],
        9: ["direction_from_points"],
    }
