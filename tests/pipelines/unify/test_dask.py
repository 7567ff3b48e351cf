"""The same parts on a Dask cluster of two worker processes: the same bytes as in one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cloudpickle
import native
import pytest

from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.unify.unify import unify_source

pytestmark = pytest.mark.real_parts


@pytest.mark.timeout(120)
def test_two_dask_workers_give_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    wanted = native.fixture("aitw")
    for number in range(4):  # four folders with the same episodes: the last three meet ids of the first
        wanted.write(tmp_path / str(number))
        (tmp_path / "all").mkdir(exist_ok=True)
        (tmp_path / str(number) / "raw").rename(tmp_path / "all" / str(number))
    raw = Raw(tmp_path / "all")
    here = Execution(EngineSettings(runner="in-process", part_bytes=1))
    one = unify_source(Store(tmp_path / "one"), "aitw", raw, execution=here)
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        flags = ["--runner=DaskRunner", f"--dask_client_address={cluster.scheduler_address}"]
        on_dask = Execution(EngineSettings(runner="beam", options=tuple(flags), part_bytes=1))
        two = unify_source(Store(tmp_path / "two"), "aitw", raw, execution=on_dask)
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers can't import a test
        with distributed.Client(cluster.scheduler_address) as client:
            worked = client.run(_has_worked)
    assert list(worked.values()) == [True, True], "both workers had parts"
    assert two.data_version == one.data_version and two.version == one.version
    assert [entry.sha256 for entry in two.files] == [entry.sha256 for entry in one.files]
    assert json.loads(json.dumps(two.counts)) == json.loads(json.dumps(one.counts))


def _has_worked() -> bool:
    """Whether a part was mapped in this process: that reads the registry of sources."""
    module = sys.modules.get("pipelines.sources")
    return module is not None and module.registry.cache_info().misses > 0
