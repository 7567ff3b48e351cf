"""What adapters drop of right clicks and choices under v1.5 is mapped under v2, and nothing else changes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import native
import pytest

from pipelines import sources
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.unify.unify import unify_source
from schemas.action_types import ADDED_IN_V2, ActionSpace
from schemas.actions import parse

pytestmark = pytest.mark.slow

DROPPED = re.compile(
    r"has no .*(?:right_?click|select)|with button '(?:right|secondary)'|of the right button", re.IGNORECASE
)
"""How a reject says that a right click or a choice is meant."""
CHOICES = ("SELECT", "select", "Select", "select_option", "change")
"""Native words of choices that v1.5 writes as what it has: lossy."""
MAPPED = {
    "agentnet": ["RightClick"],
    "aguvis_stage1": ["RightClick"],
    "aguvis_stage2": ["RightClick"],
    "gui_360": ["RightClick"],
    "gui_libra": ["SelectOption"],
    "gui_net": ["RightClick"],
    "guiact_web_single": ["SelectOption"],
    "insta": ["SelectOption"],
    "mind2web": ["SelectOption"],
    "multimodal_mind2web": ["SelectOption"],
    "omniact": ["RightClick"],
    "recordings": ["RightClick"],
    "scalecua": ["RightClick"],
    "weblinx": ["SelectOption"],
}
"""What the fixtures hold of them, counted by hand."""


def unified(source: str, raw: Raw, home: Path, space: ActionSpace) -> Manifest:
    return unify_source(Store(home), source, raw, space=space)


def lost(manifest: Manifest) -> int:
    """Right clicks and choices that aren't what they are in the source: dropped, or written as other actions."""
    dropped = [row for row in manifest.read("quarantine").to_pylist() if row["reason"] == "no_counterpart"]
    lossy = sum(manifest.counts["losses"].get(word, {}).get("lossy", 0) for word in CHOICES)
    return int(sum(DROPPED.search(row["detail"]) is not None for row in dropped) + lossy)


def added(manifest: Manifest) -> list[str]:
    """Types of its steps that only v2 has."""
    kinds = [row["action_type"] for row in manifest.read("steps").to_pylist()]
    return sorted(kind for kind in kinds if kind in ADDED_IN_V2)


def others(manifest: Manifest) -> Counter[str]:
    """Native actions that no right click or choice is part of, with what became of them."""
    rows = [row for row in manifest.read("steps").to_pylist() if row["native_action"] != "null"]
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(f"{row['episode_id']} {row['native_action']}", []).append(str(row["action_text"]))
    return Counter(f"{key} {texts}" for key, texts in kinds.items())


def test_at_least_99_in_100_of_what_v1_drops_is_mapped(tmp_path: Path) -> None:
    before = after = 0
    for source in native.names():
        native.fixture(source).write(tmp_path / source)
        raw = native.raw_of(source, tmp_path / source)
        narrow, wide = (unified(source, raw, tmp_path / f"{source}.{space}", space) for space in ("v1.5", "v2"))
        assert (lost(narrow), added(narrow), added(wide)) == (len(MAPPED.get(source, [])), [], MAPPED.get(source, []))
        assert narrow.counts["items_in"] == wide.counts["items_in"]
        before, after = before + lost(narrow), after + lost(wide)
        if source not in MAPPED:
            assert narrow.data_version == wide.data_version, source
        known = {row.native for row in sources.get(source).descriptor.loss}
        assert set(wide.counts["losses"]) <= known, "every native word met stands in the loss table"
    assert before == 14 and (before - after) / before >= 0.99


@pytest.mark.parametrize("source", MAPPED)
def test_what_v1_maps_without_loss_is_the_same_under_v2(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    raw = native.raw_of(source, tmp_path)
    narrow, wide = (unified(source, raw, tmp_path / f"home.{space}", space) for space in ("v1.5", "v2"))
    changed = others(narrow) - others(wide)
    assert all("Click(box" in text for text in changed) and sum(changed.values()) <= len(MAPPED[source])
    assert all(any(kind in text for kind in ADDED_IN_V2) for text in others(wide) - others(narrow))


@pytest.mark.parametrize("source", [name for name in native.names() if native.fixture(name).real is not None])
def test_real_records_lose_no_right_click_and_no_choice_under_v2(source: str, tmp_path: Path) -> None:
    samples, wanted = native.SAMPLES / source, native.fixture(source)
    if not samples.is_dir():
        pytest.skip(f"no real records of {source} beside this checkout")
    assert wanted.real is not None
    wanted.real(samples, tmp_path)
    raw = native.raw_of(source, tmp_path)
    narrow, wide = (unified(source, raw, tmp_path / f"home.{space}", space) for space in ("v1.5", "v2"))
    assert lost(wide) == 0 and added(narrow) == []
    assert len(added(wide)) >= lost(narrow)


def test_both_spaces_of_one_source_stand_side_by_side(tmp_path: Path) -> None:
    """A rerun in the other space does its own work, and one in the same space none."""
    native.fixture("gui_net").write(tmp_path)
    raw, home = native.raw_of("gui_net", tmp_path), tmp_path / "home"
    narrow, wide, again = (unified("gui_net", raw, home, space) for space in ("v1.5", "v2", "v1.5"))
    assert "action_space" not in narrow.counts and wide.counts["action_space"] == "v2"
    assert narrow.code_version != wide.code_version and wide.code_version.endswith(".v2")
    assert narrow.data_version == again.data_version != wide.data_version
    texts: list[Any] = [row["action_text"] for row in wide.read("steps").to_pylist()]
    assert [text for text in texts if text.startswith("RightClick")] == ["RightClick(box=(100,200))"]
    with pytest.raises(ValueError, match="unknown name 'RightClick'"):
        parse("RightClick(box=(100,200))", "v1.5")
