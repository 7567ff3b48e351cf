"""The driver of the engine `ray`: `python -m pipelines.engines.ray_driver PARENT FD` runs the calls of a `RayJob`.

A Ray of our own is a cluster of this machine: it listens on loopback alone, wants a password that its processes have
from their environment, reports no usage, shows no dashboard, and stops with this process, also where that is killed.
"""

from __future__ import annotations

import math
import os
import pickle
import secrets
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import psutil

from pipelines.engines.child import THREADS
from pipelines.engines.cores import usable_cores
from pipelines.engines.engine import EngineError
from pipelines.engines.ray import RayJob
from pipelines.engines.worker import answer_apart
from pipelines.processes import die_with_parent

if TYPE_CHECKING:
    import ray

OURS = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # its switch, on any system, to loopback and no other address
    "RAY_USAGE_STATS_ENABLED": "0",
}
STORE_BYTES = 80 << 20
"""Shared memory for what tasks are called with, about the least that Ray takes: no payload goes through it."""
BEGUN = 2
"""Times that a part is begun whose worker was killed."""
REMOVE = """import shutil, sys, time
sys.stdin.read()
for _ in range(25):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.2)
"""
"""Removes a folder for five seconds, from when whoever holds the other end of its input has ended."""


def main() -> None:
    """Run a job: each call's end is told by its place, then None, or the first error."""
    parent, channel = map(int, sys.argv[1:])
    die_with_parent(parent, signal.SIGTERM, lambda: os.kill(os.getpid(), signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent says what follows
    signal.signal(signal.SIGTERM, _end)
    with Connection(channel) as line:
        job: RayJob = pickle.loads(line.recv_bytes())
        try:
            with _connected(job):
                error = run(job, lambda place: line.send_bytes(pickle.dumps(place)))
        except EngineError as problem:
            error = problem
        line.send_bytes(pickle.dumps(error))


def _end(*_: object) -> None:
    """Once: what follows mustn't be cut short by who says it a second time."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


@contextmanager
def _connected(job: RayJob) -> Iterator[None]:
    """Connected to the job's cluster, or to a Ray that runs meanwhile."""
    if job.address is None:
        # Before the import: Ray reads them once, when its module is loaded.
        os.environ.update(OURS, RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    # Not by this process: what Ray started ends a little later, writes until then, and may end this one at any time.
    remove = [sys.executable, "-I", "-S", "-c", REMOVE, job.folder]
    remover = subprocess.Popen(
        remove, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    # A part computes in as many threads as it asked for cores.
    threads = dict.fromkeys(THREADS, str(max(1, int(job.cpus))))
    try:
        _connect(job, {"env_vars": threads})
        signal.signal(signal.SIGTERM, _end)  # Ray has put its own there
        yield
    finally:
        # While they have their parents, by whom they are known; of those that outlive Ray some take a minute to notice.
        started = psutil.Process().children(recursive=True)
        ray.shutdown()
        for process in reversed(started):
            with suppress(psutil.NoSuchProcess):
                if process.pid != remover.pid:
                    process.kill()
        assert remover.stdin is not None, "it was opened with a pipe"
        remover.stdin.close()  # it begins, as it would at this process's end


def _connect(job: RayJob, worker_environment: dict[str, object]) -> None:
    import ray

    both: dict[str, Any] = {"runtime_env": worker_environment, "logging_level": "WARNING"}
    if job.address is None:
        # Rounded up: a node has whole cores, a part may ask for a fraction of one.
        cores = math.ceil(job.workers * job.cpus) if job.workers else usable_cores()
        config = {"task_oom_retries": BEGUN - 1}
        ours: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        ray.init("local", **both, **ours, _temp_dir=job.folder, _system_config=config)
        return
    try:
        ray.init(job.address, **both)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise EngineError(f"engine ray: can't join the cluster at {job.address}: {error}") from error


def run(job: RayJob, ended: Callable[[int], None]) -> Exception | None:
    """Run the calls of a job, as many at a time as it says and the cluster has room for. After the first error, which
    is returned once those under way have ended, no further one is begun."""
    import ray

    task = ray.remote(answer_apart).options(num_cpus=job.cpus, num_gpus=job.gpus, max_retries=BEGUN - 1)
    waiting, under_way, error = deque(enumerate(job.calls)), dict[Any, int](), None
    # Never more submitted than fit: what Ray has queued it would still run after the first error.
    while waiting or under_way:
        while waiting and len(under_way) < _at_once(job):
            # Asked again each time: nodes of an autoscaling cluster come and go.
            place, asked = waiting.popleft()
            under_way[task.remote(asked)] = place
        for done in ray.wait(list(under_way))[0]:
            place = under_way.pop(done)
            if (problem := _problem(done, place, job)) is None:
                ended(place)
            else:
                # Nothing new is begun; what is under way ends, since its receipts are as good as any.
                waiting.clear()
            error = error or problem
    return error


def _at_once(job: RayJob) -> int:
    """Parts for which the nodes that are up have room together. Raises `EngineError` if that is none."""
    import ray

    wanted = {"CPU": job.cpus, "GPU": job.gpus}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(min(int(node.get(name, 0) / amount) for name, amount in wanted.items() if amount) for node in nodes)
    if not room:
        has = "; ".join(", ".join(f"{node.get(name, 0):g} {name}" for name in wanted) for node in nodes)
        raise EngineError(
            f"engine ray: a part asks for {job.cpus:g} CPU and {job.gpus:g} GPU (engine.cpus, engine.gpus), which no "
            f"node has: {has or 'no node is up'}"
        )
    return min(room, job.workers or room)


def _problem(done: ray.ObjectRef[bytes], place: int, job: RayJob) -> Exception | None:
    """The error of a call that has ended; None: it ended well."""
    import ray

    try:
        problem: Exception | None = pickle.loads(ray.get(done))
    except ray.exceptions.RayTaskError as error:
        return EngineError(f"engine ray: a worker can't run parts; is Vesper installed there? {error}")
    except ray.exceptions.RayError as error:
        return EngineError(
            f"part {place + 1} of {len(job.calls)}: its worker was lost {BEGUN} times before the part ended; if memory "
            f"ran out, fewer at a time need less (--workers, engine.workers): {error}"
        )
    return problem


if __name__ == "__main__":
    main()
