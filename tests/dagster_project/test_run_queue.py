"""Runs that would make the same assets wait for each other; what a pull notes for itself starts no refresh."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import BACKFILL_ID_TAG

from dagster_project.automation import asset_jobs, new_files
from dagster_project.settings import dagster_home, deployment
from dagster_project.stages import graph


def test_runs_of_a_job_or_a_backfill_are_taken_one_at_a_time_by_the_shipped_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.delenv("VESPER_POSTGRES_URL", raising=False)
    dagster_home.prepare(tmp_path)
    with dg.DagsterInstance.get() as history:
        assert history.run_monitoring_settings["free_slots_after_run_end_seconds"] > 0, "a killed run keeps its pools"
        limits = history.get_concurrency_config().run_queue_config.tag_concurrency_limits  # type: ignore[union-attr]
    assert limits == [
        {"key": key, "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
        for key in (asset_jobs.ONE_AT_A_TIME, BACKFILL_ID_TAG)
    ]
    jobs = asset_jobs.jobs(graph.stages(deployment.load()))
    assert {job.tags[asset_jobs.ONE_AT_A_TIME] for job in jobs.values()} == set(jobs)


def test_a_pulls_own_record_is_no_new_native_file(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[1]")
    (tmp_path / ".vesper").mkdir()
    record = tmp_path / ".vesper" / "pull.json"
    record.write_text("{}")

    def mark() -> str:
        return new_files.folder_state(tmp_path, time.time()).mark

    before = mark()
    record.write_text('{"commit": "b"}')  # as a refresh that follows the hub does each time
    assert mark() == before
    os.utime(tmp_path / "rows.json", (1, 1))
    assert mark() != before
