"""Frozen manifests: one stays as it was frozen, the pointer names the last, and what they stand on is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.store.files import StoreError
from pipelines.store.frozen import POINTER, freeze, frozen_digest, frozen_versions, point_to, read_frozen

KEY = "feedback/policy"


def test_the_last_one_is_current_and_each_is_found_by_its_digest(tmp_path: Path) -> None:
    assert frozen_digest(tmp_path, KEY) == "" and read_frozen(tmp_path, KEY) == {}
    first = freeze(tmp_path, KEY, {"digest": "a1", "score": 1})
    second = freeze(tmp_path, KEY, {"digest": "b2", "score": 2})
    assert frozen_digest(tmp_path, KEY) == "b2" and read_frozen(tmp_path, KEY) == second
    assert read_frozen(tmp_path, KEY, "a1") == first
    point_to(tmp_path, KEY, "a1")
    assert read_frozen(tmp_path, KEY) == first


def test_what_was_frozen_is_never_written_again(tmp_path: Path) -> None:
    first = freeze(tmp_path, KEY, {"digest": "a1", "score": 1})
    freeze(tmp_path, KEY, {"digest": "a1", "score": 2})
    assert read_frozen(tmp_path, KEY) == first


@pytest.mark.parametrize("digest", ["c3", "../policy/a1", "a1/"])
def test_a_digest_that_was_not_frozen_is_refused(tmp_path: Path, digest: str) -> None:
    freeze(tmp_path, KEY, {"digest": "a1"})
    with pytest.raises(StoreError, match="feedback/policy: nothing was promoted as"):
        read_frozen(tmp_path, KEY, digest)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    freeze(tmp_path, KEY, {"digest": "a1"})
    (tmp_path / KEY / POINTER).write_text("{")
    with pytest.raises(StoreError, match=r"current\.json: expected JSON.*repair it first"):
        frozen_digest(tmp_path, KEY)


def test_versions_behind_all_that_was_frozen(tmp_path: Path) -> None:
    freeze(tmp_path, KEY, {"digest": "a1", "inputs": {"checkpoints/unified": "1"}})
    freeze(tmp_path, KEY, {"digest": "b2", "inputs": {"checkpoints/unified": "2"}})
    freeze(tmp_path, "feedback/verified", {"digest": "c3", "rounds": {"round_001": "3"}})
    assert sorted(frozen_versions(tmp_path)) == [
        ("checkpoints/unified", "1"),
        ("checkpoints/unified", "2"),
        ("generation/verified/round_001", "3"),
    ]
