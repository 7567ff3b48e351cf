"""A worker process of the soak: leases devices through the gateway, executes one shard of the tasks batch after batch,
and goes on where its journal stands, however it was ended before.

python bench/soak_worker.py PLAN.json SHARD

What it notes besides the journal is the soak's independent record: a line for every decision, and one for every
trajectory that was reported to it as ended.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from generators.devices.client.sync_sdk import SyncClient  # noqa: E402
from generators.devices.device import DeviceError  # noqa: E402
from generators.execution.device_pool import GatewayPool, leased_worlds  # noqa: E402
from generators.execution.journal import Journal, turn_to_plain  # noqa: E402
from generators.execution.limits import AttemptLimits  # noqa: E402
from generators.execution.scheduling import RunStatistics, run_all  # noqa: E402
from generators.generation.annotators import TreeEvidence, WorldRule  # noqa: E402
from generators.generation.verify import Verifier  # noqa: E402
from generators.policies.oracles.fsm_oracle import FsmOracle  # noqa: E402
from generators.policies.oracles.plan_oracles import PhoneOracle  # noqa: E402
from generators.policies.policy import Decision, PolicyView  # noqa: E402
from generators.policies.policy_maker import PolicyMaker  # noqa: E402
from generators.policies.scripted_agent import ScriptedAgent, scripted_name  # noqa: E402
from generators.tasks.task_spec import TaskSpec  # noqa: E402
from generators.tasks.trajectory import ExecutedTrajectory  # noqa: E402
from generators.tasks.world_interface import World  # noqa: E402
from generators.worlds.fsm.fsm_tasks import TaskMaker  # noqa: E402
from generators.worlds.fsm.sites import make_site  # noqa: E402
from generators.worlds.phone.phone_tasks import phone_tasks  # noqa: E402
from pipelines.store import Store  # noqa: E402
from schemas.actions import Action  # noqa: E402
from schemas.ids import canonical_json, digest  # noqa: E402

KINDS = ("shop", "survey", "forum", "bank", "recipes", "wiki")
BATCH = 6
ERROR_RATE = 0.05
LAPS = 1000
TIMINGS = ("observe_s", "decide_s", "act_s")


def contracts() -> list[TaskSpec]:
    """Tasks of FSM sites and of the phone, mixed."""
    found = []
    sites = [TaskMaker(make_site(kind, 1)) for kind in KINDS]
    fsm = [list(maker.tasks(6)) for maker in sites]
    phones = list(phone_tasks(3, 18))
    for at in range(6):
        for tasks in fsm:
            if at < len(tasks):
                found.append(tasks[at].contract())
        found += [task.contract() for task in phones[3 * at : 3 * at + 3]]
    return list({contract.task_id: contract for contract in found}.values())


def batches(shard: int, shards: int) -> Iterator[tuple[list[TaskSpec], int]]:
    """(contracts, seed) of one shard, without an end: the same on every start."""
    mine = contracts()[shard::shards]
    for lap in range(LAPS):
        for at in range(0, len(mine), BATCH):
            yield mine[at : at + BATCH], lap


def fingerprint(done: ExecutedTrajectory) -> str:
    """Of all in a trajectory that no device, time or luck decides."""
    turns = [{name: part for name, part in turn_to_plain(turn).items() if name not in TIMINGS} for turn in done.turns]
    kept = {name: getattr(done, name) for name in ("answer", "ended", "failure_kind", "failure", "policy", "seed")}
    return digest([done.contract.task_id, kept, turns, dict(done.end_state)])


class Noted(ScriptedAgent):
    """The scripted agent with every decision noted; what is carried out again it decides again, to know where it is."""

    log: Path

    def decide(self, view: PolicyView) -> Decision:
        note(self.log, [self._contract.task_id, self._seed, len(view.past)])
        return super().decide(view)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        super().decide(view)


def note(path: Path, what: Any) -> None:
    """One line, whole, at once; on the disk before this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (canonical_json(what) + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def make_policy(contract: TaskSpec, world: World, log: Path) -> Noted:
    oracle = PhoneOracle() if contract.world == "phone" else FsmOracle()
    agent = Noted(oracle, contract, world.state, error_rate=ERROR_RATE)
    agent.log = log
    return agent


def work(plan: dict[str, Any], shard: int) -> None:
    """Batches until the file `stop` is there."""
    folder = Path(plan["folder"])
    store = Store(folder / "home")
    verifier = Verifier([WorldRule(), TreeEvidence(store)])
    limits = AttemptLimits(retries=50, call_s=60.0, pause_s=0.2, device_s=3600.0)
    policies = PolicyMaker(
        scripted_name(ERROR_RATE), lambda contract, world: make_policy(contract, world, folder / "decisions")
    )

    def report(done: ExecutedTrajectory, count: int, total: int) -> None:
        verdict = verifier.verify(done)
        note(folder / "told", [done.trajectory_id, fingerprint(done), verdict.verified, verdict.failure_kind])

    with SyncClient(plan["authority"], plan["key"]) as client, Journal(folder / "journals", f"shard{shard}") as journal:
        devices = GatewayPool(client, leased_worlds(("fsm", "phone"), site_url=plan["site_url"]), wait_s=10.0)
        for number, (mine, seed) in enumerate(batches(shard, plan["shards"])):
            before = RunStatistics()
            run_all(
                mine,
                devices,
                policies,
                journal,
                store=store,
                workers=plan["threads"],
                seeds=(seed,),
                limits=limits,
                progress=report,
                statistics=before,
            )
            survived = {**vars(before), "retried": dict(before.retried)}
            note(folder / "survived", [shard, number, survived])
            if (folder / "stop").exists() and not journal.unfinished:
                break


if __name__ == "__main__":
    try:
        work(json.loads(Path(sys.argv[1]).read_text("utf-8")), int(sys.argv[2]))
    except DeviceError as error:  # no authority at the start: whoever started this process starts it again
        print(f"soak worker: {error}", file=sys.stderr)
        sys.exit(2)
