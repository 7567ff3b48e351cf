"""A worker that shares no disk with the process that asks it, as on another machine: its home is an empty one of its
own at the same path, in a mount namespace. Over an object store it makes the same bytes; without one that is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import native
import pytest
from s3_server import KEYS, S3Server, s3_server

from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.store import Manifest, Store, StoreError
from pipelines.unify.unify import unify_source
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter

SOURCE = "aitw"
NAMESPACE = ["unshare", "--map-root-user", "--mount"]
# The disk that the worker has is taken away before it starts; it is told the home by the path that the driver uses.
WORKER = 'mount -t tmpfs none "$VESPER_HOME" && exec "$0" -m distributed.cli.dask_worker "$@"'

pytestmark = [pytest.mark.slow, pytest.mark.real_parts]


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    pytest.importorskip("distributed")
    can = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
    if not can:
        pytest.skip("needs unshare (util-linux) and a machine that lets it make mount namespaces")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def s3_url(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{server.bucket()}/vesper"


@contextmanager
def a_worker_elsewhere(home: Path, **environment: str) -> Iterator[tuple[Execution, Callable[..., Any]]]:
    """Parts run by one Dask worker to which `home` is an empty folder of its own, and what calls a function there."""
    import cloudpickle
    import distributed

    paths = os.pathsep.join(filter(None, sys.path))
    around = {**os.environ, "VESPER_HOME": str(home), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment}
    local: Any = {"n_workers": 0, "protocol": "tcp", "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(**local) as cluster:
        flags = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        flags += ["--local-directory", str(home.parent / "dask")]
        command = [*NAMESPACE, "sh", "-c", WORKER, sys.executable, cluster.scheduler_address, *flags]
        with subprocess.Popen(command, env=around, cwd=home.parent, stderr=subprocess.PIPE) as worker:
            try:
                cluster.wait_for_workers(1, timeout=100)
                flags = ["--runner=DaskRunner", f"--dask_client_address={cluster.scheduler_address}"]
                cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a worker can't import a test
                with distributed.Client(cluster.scheduler_address) as client:
                    execution = Execution(EngineSettings(runner="beam", options=tuple(flags), part_bytes=1))
                    yield execution, lambda *call: next(iter(client.run(*call).values()))
            finally:
                worker.terminate()


def judged(store: Store, execution: Execution | None) -> list[Manifest]:
    config = JudgeConfig()
    judge, rewriter = build_judge(config), build_rewriter(config)
    return [
        judge_source(store, SOURCE, judge, config=config, execution=execution),
        build_gold(store, SOURCE, judge, rewriter, judge_config=config, execution=execution),
    ]


def unified(store: Store, folder: Path) -> Store:
    native.fixture(SOURCE).write(folder)
    here = Execution(EngineSettings(runner="in-process", part_bytes=1))
    unify_source(store, SOURCE, Raw(folder), execution=here)
    return store


def _tables(home: Path) -> list[str]:
    """The tables that this process sees below a home."""
    return [path.relative_to(home).as_posix() for path in home.rglob("*.parquet")]


@pytest.mark.timeout(240)
def test_two_machines_that_share_an_object_store_alone_make_the_same_bytes(tmp_path: Path, s3_url: str) -> None:
    alone = judged(unified(Store(tmp_path / "alone"), tmp_path / "raw"), None)
    shared = unified(Store(tmp_path / "home", s3_url), tmp_path / "raw")
    with a_worker_elsewhere(shared.home, VESPER_STORE_URL=s3_url) as (execution, there):
        assert there(_tables, shared.home) == [], "the worker begins on an empty disk"
        found = judged(shared, execution)
        assert {"verdicts", "gold"} <= {name.split("/")[1] for name in there(_tables, shared.home)}, "it made the parts"
    assert [one.version for one in found] == [one.version for one in alone]
    assert [one.data_version for one in found] == [one.data_version for one in alone]
    assert found[0].read("verdicts").equals(alone[0].read("verdicts")) and alone[0].rows("verdicts")


@pytest.mark.timeout(240)
def test_without_one_the_place_that_only_the_worker_sees_is_named(tmp_path: Path) -> None:
    store = unified(Store(tmp_path / "home"), tmp_path / "raw")
    with a_worker_elsewhere(store.home) as (execution, _), pytest.raises(StoreError) as told:
        judged(store, execution)
    assert f"no manifest of version {store.require('unified/aitw').version} in {store.home}" in str(told.value)
    assert "another machine's disk" in str(told.value) and "VESPER_STORE_URL" in str(told.value)
