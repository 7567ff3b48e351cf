"""Every adapter against its fixture: counts set by hand from the page, points that re-project, real records."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import native
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import sources
from pipelines.prompts import prompt_text
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.unify.unify import unify_source
from schemas.actions import format, parse
from schemas.tables import PLATFORMS, SPLITS

pytestmark = pytest.mark.slow

WITH_POINTS = [name for name in native.names() if native.fixture(name).write_point is not None]
WITH_REAL = [name for name in native.names() if native.fixture(name).real is not None]


def test_every_adapter_has_a_fixture() -> None:
    assert native.names() == sorted(sources.registry())


def episodes_of(steps: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """The actions of each episode in order, where it has any."""
    found: dict[str, list[str]] = {}
    for row in sorted(steps, key=lambda row: row["step_index"]):
        if row["action_text"] is not None:
            found.setdefault(row["episode_id"], []).append(row["action_text"])
    return Counter(map(tuple, found.values()))


def joins_to(episodes: Counter[tuple[str, ...]], listed: tuple[str, ...]) -> bool:
    """Whether a list is these episodes one after the other, in whatever order."""
    if not listed:
        return not episodes
    fitting = [one for one in episodes if listed[: len(one)] == one]
    return any(joins_to(episodes - Counter([one]), listed[len(one) :]) for one in fitting)


def check(source: str, manifest: Manifest, expected: native.Expected) -> None:
    counts: dict[str, Any] = manifest.counts
    samples = manifest.read("samples").to_pylist()
    steps = manifest.read("steps").to_pylist()
    found = (counts["items_in"], counts["items_mapped"], counts["items_quarantined"])
    assert found == (expected.items, expected.mapped, expected.items - expected.mapped), counts["reasons"]
    assert counts["reasons"] == dict(expected.reasons)
    assert (len(steps), len(samples)) == (expected.steps, expected.samples)
    assert not expected.actions or joins_to(episodes_of(steps), expected.actions)
    answers = {prompt_text(row["messages"]): row["answer"] for row in samples}
    assert {asked: answers.get(asked) for asked in expected.answers} == dict(expected.answers)
    for word, by_status in expected.losses.items():
        assert counts["losses"].get(word) == dict(by_status), word
    card = sources.get(source).descriptor
    assert set(counts["losses"]) <= {row.native for row in card.loss}, "every word met stands in the loss table"
    for row in steps:
        assert row["source"] == source and row["split"] in SPLITS and row["platform"] in PLATFORMS
        if row["action_text"] is not None:
            assert format(parse(row["action_text"])) == row["action_text"]
    for row in samples:
        assert row["source"] == source and row["objective"] in card.objectives and row["answer"].strip()


@pytest.mark.parametrize("source", native.names())
def test_native_records_map_as_the_page_says(source: str, tmp_path: Path) -> None:
    wanted = native.fixture(source)
    wanted.write(tmp_path)
    assert 0 < wanted.expected.mapped < wanted.expected.items, (
        "a fixture has sound items, and some that can't be mapped"
    )
    raw = native.raw_of(source, tmp_path)
    first = unify_source(Store(tmp_path / "one"), source, raw)
    check(source, first, wanted.expected)
    if first.read("steps").num_rows:
        assert wanted.expected.actions, "a fixture of steps names their actions"
    second = unify_source(Store(tmp_path / "two"), source, raw)
    assert [entry.sha256 for entry in first.files] == [entry.sha256 for entry in second.files]


@pytest.mark.parametrize("source", WITH_POINTS)
@settings(max_examples=12)
@given(x=st.floats(0, 1), y=st.floats(0, 1))
def test_a_native_point_re_projects_within_half_a_unit(source: str, x: float, y: float) -> None:
    write_point = native.fixture(source).write_point
    assert write_point is not None
    with tempfile.TemporaryDirectory() as folder:
        true_x, true_y = write_point(Path(folder), x, y)
        points = native.mapped_points(sources.get(source), native.raw_of(source, Path(folder)))
    assert points, "the point was lost"
    for found_x, found_y in points:
        assert abs(found_x - 1000 * true_x) <= 0.5 + 1e-6 and abs(found_y - 1000 * true_y) <= 0.5 + 1e-6


@pytest.mark.parametrize("source", WITH_REAL)
def test_real_records_map_as_counted_by_hand(source: str, tmp_path: Path) -> None:
    samples = native.SAMPLES / source
    if not samples.is_dir():
        pytest.skip(f"no real records of {source} beside this checkout")
    wanted = native.fixture(source)
    assert wanted.real is not None and wanted.real_expected is not None
    wanted.real(samples, tmp_path)
    manifest = unify_source(Store(tmp_path / "home"), source, native.raw_of(source, tmp_path))
    assert wanted.real_expected.mapped > 0
    check(source, manifest, wanted.real_expected)
