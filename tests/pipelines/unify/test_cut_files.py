"""A native file that ends too early counts as damaged, whatever the source and the form of its files."""

from __future__ import annotations

import json
from pathlib import Path

import native
import pytest
from tfrecords import small_episode, write_examples

from pipelines import sources
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source


def cut(path: Path) -> None:
    """Takes the end off a file, so that its last record is there in part."""
    data = path.read_bytes()
    if path.suffix == ".jsonl" or _is_json(data.partition(b"\n")[0]):
        lines = [line for line in data.splitlines() if _is_json(line)]
        path.write_bytes(b"\n".join([*lines[:-1], lines[-1][: len(lines[-1]) // 2 + 1]]))
    elif path.suffix == ".csv":  # before the last comma: an unquoted cell that is cut looks like a short one
        path.write_bytes(data.rstrip()[: data.rstrip().rindex(b",")])
    else:
        path.write_bytes(data.rstrip(b"\n")[:-9])


def _is_json(line: bytes) -> bool:
    try:
        return bool(json.loads(line))
    except ValueError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("source", native.names())
def test_each_native_file_that_ends_too_early_counts_as_damaged(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path / "raw")
    raw, adapter = native.raw_of(source, tmp_path / "raw"), sources.get(source)
    files = {file for part in adapter.parts(raw) for file in part}
    for file in files:
        cut(raw.path(file))
    counts = unify_source(Store(tmp_path / "home"), source, raw, bands=ChangeBands(damaged_files=1)).counts
    assert files and {one.rpartition(": ")[0] for one in counts["damages"]} == files


def test_a_record_file_without_its_last_byte_holds_its_source_back(tmp_path: Path) -> None:
    path = tmp_path / "raw/android_control-00000-of-00001"
    write_examples(path, [small_episode([{"action_type": "wait"}], episode_id=[n]) for n in (1, 2)], compress=False)
    path.write_bytes(path.read_bytes()[:-1])
    manifest = unify_source(Store(tmp_path / "home"), "android_control", Raw(tmp_path / "raw"))
    found = {check.name: check.found for check in manifest.checks if not check.passed}
    assert "android_control-00000-of-00001: truncated_record" in found["files_readable"]
    assert manifest.counts["records_mapped"] == 1 and not manifest.checks_passed
