"""A stage of several ranks in the graph: torchrun's checkpoint, and nothing that outlives a cancelled run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from goldmaker import gold
from killable import TRAINER
from two_ranks import on_two_ranks

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.cli import main
from dagster_project.execution.live_pictures import LiveReader
from dagster_project.execution.run_stage import killed
from dagster_project.settings.deployment import Deployment
from dagster_project.stages import graph
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages.run import run_stage

pytestmark = pytest.mark.slow(seconds=90)

ROOT = Path(__file__).parents[3]
KEY = "checkpoints/mid_trained"
SETTINGS = {**TRAINER, "midtrain": {**TRAINER["midtrain"], "max_steps": 2}}
TOY = """
import subprocess, sys, time
from pathlib import Path
from dagster_project.execution.run_stage import own_group
from trainer.runtime.parallel import launched
own_group()
with launched("cpu") as group:
    child = subprocess.Popen(["sleep", "300"])
    part = Path(sys.argv[1], f"part-{group.rank}")
    part.write_text(f"{__import__('os').getpid()} {child.pid}")
    part.rename(Path(sys.argv[1], f"rank-{group.rank}"))
    if group.first:
        time.sleep(300)
    group.barrier()
"""
AGENT = """
import sys
from dagster_project.execution.run_stage import own_group, start_ranks
own_group()
start_ranks(2, [sys.argv[1] + "/toy.py", sys.argv[1]])
"""
PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]]).wait()
"""


def _trained_by_command(home: Path) -> None:
    assert main(["train", "mid_trained", "--config", json.dumps(SETTINGS), "--home", str(home)]) == 0


def test_the_graph_trains_on_two_ranks_as_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = gold(tmp_path / "home", count=20, parts=2)
    build_shards(store, ["toy"])
    build_mixture(store)
    run_stage("base", store.home, SETTINGS, progress=False)
    shutil.copytree(store.home, tmp_path / "other")
    with pytest.raises(ValueError, match="mid_trained is to train in 2 processes, found 1; start"):
        run_stage("mid_trained", store.home, {**SETTINGS, "ranks": 2}, progress=False)

    on_two_ranks(_trained_by_command, tmp_path / "other")
    outside = Store(tmp_path / "other").require(KEY)

    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    (tmp_path / "d.yaml").write_text("preflight: {free_gb: 0}\n")
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({**SETTINGS, "ranks": 2}))
    stages = graph.stages(Deployment(raw_root=tmp_path / "incoming", preflight={"free_gb": 0}))
    assert [stages[key].ranks({}) for key in (KEY, "checkpoints/unified", "checkpoints/base")] == [2, 1, 1]
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            factory.build({KEY: stages[KEY]}),
            instance=instance,
            raise_on_error=False,
            resources={"store": definitions.StoreResource(home=str(store.home)), "judge": definitions.JudgeResource()},
        )
        said = [entry.user_message for entry in instance.all_logs(done.run_id)]
    assert done.success, said[-3:]
    inside = store.require(KEY)
    assert inside.version == outside.version, "the same run, where ever it is started and in how many ranks"
    assert [(e.path, e.sha256) for e in inside.files] == [(e.path, e.sha256) for e in outside.files]
    assert any("stage: stage mid_trained" in line for line in said) and any("committed: " in line for line in said)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _started(folder: Path) -> list[list[int]]:
    """(rank, its child) of both ranks."""
    for _ in range(1200):
        if len(found := sorted(folder.glob("rank-*"))) == 2:
            return [[int(word) for word in path.read_text().split()] for path in found]
        time.sleep(0.1)
    raise AssertionError("the ranks didn't start")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["cancelled", "its run worker is killed", "a rank is killed"])
def test_what_ends_a_run_ends_its_ranks(how: str, tmp_path: Path) -> None:
    """Cancelling and a timeout are a SIGINT, which Pipes sends."""
    (tmp_path / "toy.py").write_text(TOY)
    command = [sys.executable, "-c", PARENT, AGENT] if "worker" in how else [sys.executable, "-c", AGENT]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    started = subprocess.Popen([*command, str(tmp_path)], cwd=tmp_path, env=environment)
    try:
        ranks = _started(tmp_path)
        wanted = {
            "cancelled": (signal.SIGINT, started.pid),
            "its run worker is killed": (signal.SIGKILL, started.pid),
            "a rank is killed": (signal.SIGKILL, ranks[1][0]),
        }
        number, pid = wanted[how]
        os.kill(pid, number)
        assert started.wait(60) < 0, "ended by a signal, so that the stage is tried again"
        left = [pid for rank in ranks for pid in rank]
        if how == "a rank is killed":
            left.remove(ranks[1][1])  # its child was nobody's to end, as that of a killed stage of one process
            os.kill(ranks[1][1], signal.SIGKILL)
        for _ in range(200):
            if not any(_alive(pid) for pid in left):
                break
            time.sleep(0.1)
        assert not [pid for pid in left if _alive(pid)]
    finally:
        for path in tmp_path.glob("rank-*"):
            for pid in map(int, path.read_text().split()):
                if _alive(pid):
                    os.kill(pid, signal.SIGKILL)
        started.kill()
        started.wait()


FAILING = """
import sys, time
from dagster_project.execution import run_stage
from trainer.stages import launch

def follow(group, home, config):
    raise MemoryError("no memory left on rank 1")

launch.follow, run_stage.run = follow, lambda key, report: time.sleep(300)
run_stage.own_group()
run_stage._rank("checkpoints/mid_trained")
"""


def test_the_reason_of_any_rank_is_told(tmp_path: Path) -> None:
    """The first rank waits for the other, and is ended by the agent."""
    (tmp_path / "toy.py").write_text(FAILING)
    heard: list[object] = []

    @dg.asset
    def made(context):  # type: ignore[no-untyped-def]
        dg.PipesSubprocessClient(message_reader=LiveReader(heard.append)).run(
            command=[sys.executable, "-c", AGENT, str(tmp_path)],
            context=context,
            cwd=str(tmp_path),
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "VESPER_TRAINER": "{}"},
        )

    with dg.DagsterInstance.ephemeral() as instance:
        assert not dg.materialize([made], instance=instance, raise_on_error=False).success
    assert heard == [{"failed": "MemoryError: no memory left on rank 1"}]


@pytest.mark.parametrize(
    ("codes", "was"),
    [((-9, -15), True), ((-9, 1), True), ((-15, -15), True), ((-11,), True), ((1, -15), False), ((1,), False)],
)
def test_a_rank_that_fails_is_told_from_one_that_was_killed(codes: tuple[int, ...], was: bool) -> None:
    assert killed(codes) == was
