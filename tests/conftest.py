"""Fixtures that all tests share."""

from __future__ import annotations

import fcntl
import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from made_once import run_folder

from pipelines.store import Store

ROOT = Path(__file__).parents[1]

# A busy machine is no failure: properties are held to their claims, not to milliseconds.
settings.register_profile("vesper", deadline=None, print_blob=True)
settings.load_profile("vesper")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a worker a core: a second thread would only wait
os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

gc.disable()  # until all tests are collected: importing torch and Dagster makes much that stays, and nothing to collect

LONGEST_FIRST = (
    "generators/proving/judge_bench/test_judge_bench",
    "e2e/test_ui",
    "generators/proving/judge_bench/test_web_pages",
    "trainer/offline/test_train",
    "e2e/test_kill",
    "e2e/test_review",
    "quality/contamination/test_shard_scan",
    "trainer/online/vllm/test_engine",
    "trainer/proving/nano_base/test_nano_base",
    "generators/test_registries",
    "e2e/test_generation",
    "generators/devices/test_driver_ssh",
    "e2e/test_gateway_equal",
    "generators/worlds/webapps/test_django_admin",
    "pipelines/test_fixtures",
    "generators/harvesting/test_web_harvest",
    "trainer/proving/nano_base/test_nano_base_weights",
    "pipelines/raw/test_hub",
    "generators/proving/judge_bench/test_bench_losses",
    "trainer/stages/test_launch",
    "dagster_project/test_ranks",
    "trainer/online/test_learner_ranks",
    "quality/contamination/test_contamination",
    "generators/worlds/webapps/test_datasette",
    "quality/safety/test_triggers",
    "generators/proving/embedded/test_embedded_build",
    "generators/proving/judge_bench/test_failing_policies",
    "generators/devices/test_gateway_faults",
    "generators/proving/judge_bench/test_bench_phone_fsm",
    "dagster_project/test_after_refresh",
    "trainer/online/test_train",
    "pipelines/store/object_store/test_faults",
    "generators/execution/test_scheduling",
    "quality/judges/test_judge_contract",
    "trainer/proving/nano_base/test_nano_vision",
    "dagster_project/test_missing_sources",
    "generators/devices/test_browser",
    "generators/worlds/desktop/test_desktop_tasks",
    "generators/proving/perception/test_perception",
    "generators/proving/judge_bench/test_odd_pages",
    "generators/generation/test_proposers",
    "pipelines/takedown/test_takedown",
    "trainer/stages/test_stages",
    "e2e/test_evaluation_items",
    "generators/proving/judge_bench/test_bench_miniwob",
    "trainer/runtime/test_parallel",
    "trainer/proving/staircase/test_run",
    "quality/model_client/test_judge_book",
    "dagster_project/test_graph",
    "trainer/offline/test_epoch_alignment",
    "trainer/serving/test_serve",
    "docs/test_site",
    "pipelines/store/object_store/test_collect_there",
    "quality/judges/nano/test_nano",
    "pipelines/store/object_store/test_same_graph",
    "trainer/midtrain/test_train",
    "generators/worlds/phone/test_phone_tasks",
    "e2e/test_one_source",
    "generators/generation/test_rounds",
    "trainer/online/test_learner",
    "quality/model_client/test_failing_endpoints",
    "pipelines/store/object_store/test_takedown_there",
    "generators/devices/test_driver_cdp",
    "quality/duplicates/test_dedup",
    "pipelines/store/object_store/test_same_store",
    "generators/devices/test_node",
    "e2e/test_postgres",
    "pipelines/mapping/test_columns",
    "generators/proving/embedded/test_defects",
)
"""Files that take 9 s and more, by the last whole run. A worker that got one of them last would leave the others idle;
the rest follows by its number of tests, most first."""

REAL_PARTS = (
    "e2e/",
    "generators/",
    "dagster_project/",
    "deploy/",
    "docs/",
    "quality/judges/",
    "quality/model_client/",
    "pipelines/store/object_store/",
    "pipelines/raw/test_hub",
    "pipelines/unify/test_dask",
    "trainer/online/",
    "trainer/suites/",
    "trainer/proving/nano_base/",
    "trainer/proving/staircase/",
    "trainer/stages/test_launch",
    "trainer/runtime/test_parallel",
    "trainer/serving/test_rollout_server",
    "trainer/serving/test_serve",
)
"""Tests that drive browsers, devices, servers and processes of their own. What fails there is run once more, and the
summary lists it as RERUN: a busy machine may stop any process for a second, a fault fails twice. Properties are not
run again, for a rare counterexample is what they look for."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # pytest-xdist keeps the order given below


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: three workers on two cores, since a test that drives a browser or a device often waits for it."""
    return max(2, (os.cpu_count() or 2) * 3 // 2)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {ROOT / "tests" / f"{name}.py": at for at, name in enumerate(LONGEST_FIRST)}
    if gone := [str(path) for path in place if not path.exists()]:
        raise pytest.UsageError(f"LONGEST_FIRST names {gone[0]}, which isn't there: take it out or give its new name")
    real = tuple(f"{ROOT}/tests/{name}" for name in REAL_PARTS)
    for item in items:
        properties = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if str(item.path).startswith(real) and not properties:
            item.add_marker(pytest.mark.flaky(reruns=1))
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (place.get(item.path, len(place)), -tests[item.path]))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # no collection looks at the libraries again


@pytest.fixture(scope="session")
def samples_dir() -> Callable[[str], Path]:
    """Folder of a source's real records, which lie outside the repository; skips where they aren't there."""

    def find(source: str) -> Path:
        path = (ROOT / "../shared/sources/samples" / source).resolve()
        if not path.is_dir():
            pytest.skip(f"no real records of {source} beside this checkout")
        return path

    return find


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "home")


@pytest.fixture(scope="session")
def has_chromium() -> None:
    """Skips where no Chromium is found."""
    from generators.devices.browser import BrowserMissing, find_chromium

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def shared_chromium() -> Iterator[None]:
    """All browsers that this file opens in its own thread are contexts of one Chromium: see `keep_browser`."""
    from generators.devices.browser import keep_browser

    with keep_browser():
        yield


@pytest.fixture(scope="session")
def tiny_home(tmp_path_factory: pytest.TempPathFactory, has_chromium: None) -> Callable[..., Path]:
    """`tiny_home("rico", "aitz")`: a $VESPER_HOME that holds these sources' tiny embedded raw assets, made once a run
    by whichever worker asks first. Not to be written."""
    home, made = run_folder(tmp_path_factory) / "tiny-home", set[str]()

    def make(*sources: str) -> Path:
        from generators.devices.browser import keep_browser
        from generators.proving.embedded import build_raw

        home.mkdir(exist_ok=True)
        with keep_browser(), (home.parent / "tiny-home.lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            for source in set(sources) - made:
                build_raw(Store(home), source, home / "raw" / source, size="tiny")
        made.update(sources)
        return home

    return make
