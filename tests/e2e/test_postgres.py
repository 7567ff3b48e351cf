"""Dagster's history in a PostgreSQL of its own: a run recorded there is read back, through a kill of the server too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dagster_project.settings import dagster_home
from dagster_project.settings.deployment import DeploymentError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECORD = """
import dagster as dg
from dagster_project.settings import dagster_home
dagster_home.prepare()
@dg.op
def one(): return 1
@dg.job
def tiny(): one()
with dg.DagsterInstance.get() as history:
    result = tiny.execute_in_process(instance=history)
    print(type(history.run_storage).__name__, result.run_id)
"""
READ = """
import sys, dagster as dg
with dg.DagsterInstance.get() as history:
    run = history.get_run_by_id(sys.argv[1])
    print(run.job_name, run.status.value, len(history.all_logs(run.run_id)), type(history.run_launcher).__name__)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    pytest.importorskip("dagster_postgres", reason="dagster-postgres isn't installed (extra `production`)")
    from postgres import PostgresMissing, postgres

    try:
        with postgres() as made:
            yield made
    except PostgresMissing as missing:
        pytest.skip(str(missing))


def _python(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_run_is_recorded_in_postgres_and_read_back_after_a_kill(server: Any, tmp_path: Path) -> None:
    said = {"VESPER_HOME": str(tmp_path), "VESPER_POSTGRES_URL": server.url}
    storage, run_id = _python(RECORD, **said).splitlines()[-1].split()
    assert storage == "PostgresRunStorage"
    assert server.url not in (tmp_path / "dagster" / "dagster.yaml").read_text()
    assert not list((tmp_path / "dagster").rglob("*.db")), "something was still written to SQLite"
    server.kill()
    server.start()
    read = _python(READ, run_id, DAGSTER_HOME=str(tmp_path / "dagster"), **said).split()
    assert read[:2] == ["tiny", "SUCCESS"] and int(read[2]) > 5 and read[3] == "CheckedRunLauncher"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("VESPER_POSTGRES_URL", "postgresql+psycopg2://somebody:secret@nowhere/x")
    return tmp_path


def test_the_storage_is_added_to_edited_settings_once(home: Path) -> None:
    pytest.importorskip("dagster_postgres")
    settings = home / "dagster" / "dagster.yaml"
    settings.parent.mkdir()
    settings.write_text("telemetry: {enabled: false}\nrun_launcher: {module: mine, class: Mine}\n")
    dagster_home.prepare(home)
    once = settings.read_text()
    dagster_home.prepare(home)
    assert settings.read_text() == once and "secret" not in once
    said = yaml.safe_load(once)
    assert said["storage"] == {"postgres": {"postgres_url": {"env": "VESPER_POSTGRES_URL"}}}
    assert said["run_launcher"] == {"module": "mine", "class": "Mine"}
    assert sorted(path.name for path in settings.parent.iterdir()) == ["dagster.yaml"]


def test_another_storage_is_never_replaced_silently(home: Path) -> None:
    pytest.importorskip("dagster_postgres")
    (home / "dagster").mkdir()
    (home / "dagster" / "dagster.yaml").write_text("storage: {sqlite: {base_dir: /data}}\n")
    with pytest.raises(DeploymentError, match="names another storage"):
        dagster_home.prepare(home)


def test_a_url_whose_driver_would_be_another_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dagster_postgres")
    monkeypatch.setenv("VESPER_POSTGRES_URL", "postgresql://somebody:secret@nowhere/x")
    with pytest.raises(DeploymentError, match=r"expected postgresql\+psycopg2://") as told:
        dagster_home.prepare(home)
    assert "secret" not in str(told.value)


def test_without_the_package_it_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagster_home.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeploymentError, match=r'pip install "vesper\[production\]"'):
        dagster_home.prepare(home)
