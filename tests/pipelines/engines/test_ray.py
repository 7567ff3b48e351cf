"""Ray: what it asks of a cluster, what it survives, and that nothing of a Ray of our own stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import engine_parts
import native
import psutil
import pytest

from pipelines.engines.engine import EngineError
from pipelines.engines.run_parts import Execution, run_parts
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.store import PartResult, Store
from pipelines.unify.unify import unify_source

pytest.importorskip("ray", reason="the extra ray isn't installed")
pytestmark = [pytest.mark.slow(seconds=90), pytest.mark.real_parts]


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Iterator[None]:
    """The workers of a cluster find no more than what the environment says."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one node with four cores, that somebody else started → its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(_head_folder(f"127.0.0.1:{port}"))
    words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=4", f"--temp-dir={folder}"]
    words += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats"]
    out = (tmp_path_factory.mktemp("ray") / "out").open("w")
    command = [sys.executable, "-m", "ray.scripts.scripts", *words]
    with out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as head:
        try:
            said = Path(out.name)
            assert engine_parts.becomes(lambda: "Ray runtime started" in said.read_text(), 300), said.read_text()
            yield f"127.0.0.1:{port}"
            assert head.poll() is None and psutil.pid_exists(head.pid), "it still runs when the parts have ended"
        finally:
            below = psutil.Process(head.pid).children(recursive=True)
            head.send_signal(signal.SIGTERM)
            head.wait(30)
            _, alive = psutil.wait_procs(below, timeout=20)
            for one in alive:
                one.kill()
            subprocess.run(["rm", "-rf", str(folder)], check=True)


def _head_folder(address: str) -> str:
    """The files of the cluster at an address; its sockets want a short path."""
    return f"/tmp/rayhead-{address.partition(':')[2]}"


def _by(cluster: str, **more: object) -> Execution:
    return Execution(EngineSettings(runner="ray", options=(f"--address={cluster}",), **more))


def _run(home: Path, execution: Execution, count: int = 3, **does: str) -> list[PartResult]:
    parts = engine_parts.parts(home, count, **does)
    return run_parts(Store(home), engine_parts.ASSET, engine_parts.write, parts, execution)


def test_a_killed_worker_s_part_is_begun_once_more(tmp_path: Path, cluster: str) -> None:
    results = _run(tmp_path, _by(cluster, workers=2), n1="die once")
    assert [result.counts["sum"] for result in results] == [0, 1, 2]
    assert [len(engine_parts.begun(tmp_path, number)) for number in range(3)] == [1, 2, 1]


def test_a_part_whose_worker_dies_twice_is_an_error(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(EngineError, match=r"part 2 of 3: its worker was lost 2 times .*--workers"):
        _run(tmp_path, _by(cluster, workers=1), n1="die")
    assert [len(engine_parts.begun(tmp_path, number)) for number in range(3)] == [1, 2, 0]


def test_parts_under_way_end_before_an_error_is_raised_and_no_other_is_begun(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(ValueError, match="part 0 is bad") as raised:
        _run(tmp_path, _by(cluster, workers=2), 4, n0="fail", n1="sleep")
    assert "engine_parts.py" in raised.value.__notes__[0]
    [second] = _run(tmp_path, Execution(EngineSettings(runner="in-process")), 2)[1:]
    assert second.skipped and not engine_parts.begun(tmp_path, 2) and not engine_parts.begun(tmp_path, 3)


def test_a_part_has_the_cores_that_it_asks_for_to_itself(tmp_path: Path, cluster: str) -> None:
    _run(tmp_path, _by(cluster, workers=2, cpus=2), 2, n0="sleep", n1="sleep")
    begun = [engine_parts.begun(tmp_path, number)[0].split() for number in (0, 1)]
    assert {threads for _, threads in begun} == {"2"}
    assert len({process for process, _ in begun} | {str(os.getpid())}) == 3, "two at a time"


def test_what_no_node_has_is_an_error_and_no_endless_wait(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(EngineError, match=r"a part asks for 1 CPU and 99 GPU .*which no node has: \d+ CPU, \d+ GPU"):
        _run(tmp_path, _by(cluster, gpus=99))


def test_no_cluster_at_the_address_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineError, match=f"engine ray: no cluster answers at {place}"):
        _run(tmp_path, _by(place))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_ray_of_our_own_is_loopback_and_ends_with_the_process_that_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # short, for the sockets
    with engine_parts.running(tmp_path, "ray", TMPDIR=str(folder)) as parent:
        below = psutil.Process(parent.pid).children(recursive=True)
        assert any("raylet" in one.name() for one in below) and [*folder.iterdir()]
        heard = set[str]()
        for one in below:
            with suppress(psutil.NoSuchProcess):  # some of them live for a moment only
                heard |= {c.laddr.ip for c in one.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        parent.send_signal(number)
    assert heard <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"} and heard
    assert not psutil.wait_procs(below, timeout=60)[1]
    assert engine_parts.becomes(lambda: not [*folder.iterdir()])
    folder.rmdir()


def test_a_cluster_gives_the_same_bytes_though_a_worker_is_killed(tmp_path: Path, cluster: str) -> None:
    wanted = native.fixture("aitw")
    (tmp_path / "all").mkdir()
    for number in range(4):  # four folders with the same episodes: the last three meet ids of the first
        wanted.write(tmp_path / str(number))
        (tmp_path / str(number) / "raw").rename(tmp_path / "all" / str(number))
    raw, killed = Raw(tmp_path / "all"), list[int]()

    def kill_one(event: Mapping[str, object]) -> None:
        """The first time that a part ends, a worker of this cluster that has another."""
        raylets = [one for one in psutil.process_iter(["cmdline"]) if _head_folder(cluster) in str(one.info)]
        with suppress(psutil.NoSuchProcess):
            below = [worker for raylet in raylets for worker in raylet.children()]
            busy = [one for one in below if "ray::answer_apart" in " ".join(one.cmdline())]
            if not killed and busy:
                busy[0].kill()
                killed.append(busy[0].pid)

    here = Execution(EngineSettings(runner="in-process", part_bytes=1))
    one = unify_source(Store(tmp_path / "one"), "aitw", raw, execution=here)
    there = replace(_by(cluster, part_bytes=1), on_event=kill_one)
    two = unify_source(Store(tmp_path / "two"), "aitw", raw, execution=there)
    assert killed
    assert two.data_version == one.data_version and two.version == one.version
    assert [entry.sha256 for entry in two.files] == [entry.sha256 for entry in one.files]
