"""Fixtures that all tests share."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from made_once import run_folder

from pipelines.store import Store

ROOT = Path(__file__).parents[1]
IN_MEMORY = Path("/dev/shm")

# A busy machine is no failure: properties are held to their claims, not to milliseconds.
settings.register_profile("vesper", deadline=None, print_blob=True)
settings.register_profile("attack", settings.get_profile("vesper"), max_examples=1000)
settings.load_profile(os.environ.get("VESPER_TEST_PROFILE", "vesper"))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a worker a core: a second thread would only wait
os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Some images switch off that modules are kept compiled. Workers, and the hundreds of processes that tests start, would
# compile the same thousand files again and again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # until all tests are collected: importing torch and Dagster makes much that stays, and nothing to collect

WITH_REAL_PARTS = (
    "e2e",
    "generators",
    "dagster_project",
    "deploy",
    "docs",
    "quality/judges",
    "quality/model_client",
    "pipelines/store/object_store",
    "trainer/online",
    "trainer/suites",
    "trainer/proving",
)
"""Folders whose tests drive browsers, devices, servers and processes of their own; elsewhere a file says so itself with
the mark `real_parts`. What fails there is run once more, and the summary lists it as RERUN: a busy machine may stop any
process for a second, a fault fails twice. Properties are not run again, for a rare counterexample is what they look
for."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # pytest-xdist keeps the order given below
    if "PYTEST_XDIST_WORKER" not in os.environ and "TMPDIR" not in os.environ and _memory_is_roomy():
        # All that tests write lies in memory: stores, journals and Dagster's database wait for the disk at each commit.
        # What a killed process has written is as safe there, and that a commit asks for the disk has tests of its own.
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None  # so that it is looked up anew


def _memory_is_roomy() -> bool:
    """Whether this machine has a folder in memory, and 10 GB of memory that nobody uses (a run fills some two)."""
    try:
        free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        roomy = free is not None and int(free[1]) > 10_000_000
        return roomy and os.access(IN_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(IN_MEMORY).free > 10_000_000_000
    except OSError:
        return False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: three workers on two cores, since a test that drives a browser or a device often waits for it."""
    return max(2, (os.cpu_count() or 2) * 3 // 2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders that the marks asked for leave out whole aren't even imported: that alone would take half a minute."""
    left_out = "not real_parts" in config.option.markexpr
    folder = collection_path.relative_to(ROOT / "tests").as_posix() if collection_path.is_dir() else ""
    return True if left_out and folder in WITH_REAL_PARTS else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what has real parts, and puts slow files first, the longest of them in front: a worker that got one of them
    last would leave the others idle. The rest follows by its number of tests, most first."""
    folders = tuple(f"{ROOT}/tests/{name}/" for name in WITH_REAL_PARTS)
    for item in items:
        if str(item.path).startswith(folders):
            item.add_marker(pytest.mark.real_parts)
        properties = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if item.get_closest_marker("real_parts") and not properties:
            item.add_marker(pytest.mark.flaky(reruns=1))
    tests = Counter(item.path for item in items)
    slow: dict[Path, float] = {}
    for item in items:
        for mark in item.iter_markers("slow"):
            slow[item.path] = max(slow.get(item.path, 0), mark.kwargs.get("seconds", 0))
    items.sort(key=lambda item: (item.path not in slow, -slow.get(item.path, 0), -tests[item.path]))


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
        from generators.proving.embedded.build import build_raw

        home.mkdir(exist_ok=True)
        with keep_browser(), (home.parent / "tiny-home.lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            for source in set(sources) - made:
                build_raw(Store(home), source, home / "raw" / source, size="tiny")
        made.update(sources)
        return home

    return make
