"""Rollouts by servers of vLLM's protocol: policy and reference take turns, lost servers cost no more than their
rollouts, and a run learns."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from choice_world import ChoiceWorld, pool, task
from online_runs import settings, train
from rollout_servers import ServerProcess, rollout_server
from vllm_engines import ask, engine, gap, job

from generators.execution.device_pool import LocalPool
from generators.execution.limits import AttemptLimits
from generators.policies.policy import PolicyError
from generators.tasks.world_interface import World
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import Completion
from trainer.modeling.model import reply_logprobs
from trainer.modeling.sampler import POLICY, REFERENCE
from trainer.online.rollouts import Rollout, RolloutJob
from trainer.online.workers import RolloutWorkers


@pytest.mark.slow
@pytest.mark.parametrize("update", ["reload_weights", "weight_transfer"])
def test_the_reference_has_the_servers_until_the_policy_is_published_again(
    loaded: Checkpoint, other: Checkpoint, tmp_path: Path, update: str
) -> None:
    assert loaded.folder is not None
    both = {POLICY: loaded.model, REFERENCE: other.model}
    with (
        rollout_server(loaded.folder, tmp_path) as (_, url),
        engine(loaded, [url], tmp_path, models=both, weight_update=update) as made,
    ):
        made.publish(loaded.model.state_dict(), 3)
        made.publish(other.model.state_dict(), 3, REFERENCE)
        assert gap(loaded, ask(made, loaded)[0]) < 1e-4, "until the reference asks, the policy goes on"
        reference = ask(made, loaded, 1, slot=REFERENCE)[0]
        assert gap(other, reference) < 1e-4 < gap(loaded, reference)
        late: list[Completion] = []
        waiting = threading.Thread(target=lambda: late.append(ask(made, loaded, 2)[0]))
        waiting.start()
        assert gap(other, ask(made, loaded, 3, slot=REFERENCE)[0]) < 1e-4 and not late
        made.publish(loaded.model.state_dict(), 3)
        waiting.join(60)
        assert gap(loaded, late[0]) < 1e-4


def test_a_rollout_doesnt_wait_for_ever_for_its_turn(loaded: Checkpoint, other: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    both = {POLICY: loaded.model, REFERENCE: other.model}
    with rollout_server(loaded.folder, tmp_path) as (_, url), engine(loaded, [url], tmp_path, models=both) as made:
        made.publish(loaded.model.state_dict(), 0)
        made.publish(other.model.state_dict(), 0, REFERENCE)
        ask(made, loaded, slot=REFERENCE)
        made.settings = made.settings.changed(wait_s=0.1)
        with pytest.raises(PolicyError, match=r"no server with the policy's weights for 0\.1 s"):
            ask(made, loaded)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_the_reference_gets_the_places_of_rollouts_that_hadnt_asked_yet(
    loaded: Checkpoint, other: Checkpoint, tmp_path: Path, workers: int
) -> None:
    assert loaded.folder is not None
    goes_on = threading.Event()
    resets: list[str] = []

    class Held(ChoiceWorld):
        def reset(self, start: Any) -> None:
            super().reset(start)
            resets.append(start["world"])
            assert goes_on.wait(60)

    # of each kind one device: three workers have two, and both are held by rollouts of the policy, as the one worker is
    kinds = ("choice", "other")
    devices = LocalPool(dict.fromkeys(kinds, lambda: nullcontext(cast("World", Held()))), most=1)

    def jobs(group: str, slot: str) -> list[RolloutJob]:
        tasks = [
            replace(one := task(1, number), initial_state={**one.initial_state, "world": kinds[number % 2]})
            for number in range(4)
        ]
        return [
            RolloutJob(one, group, number, number, slot=slot, validation=slot == REFERENCE)
            for number, one in enumerate(tasks)
        ]

    def by(model: Checkpoint, rollout: Rollout) -> bool:
        [sample] = rollout.samples
        batch = model.processor.reply_batch([sample.row()], [sample.token_ids])
        with torch.no_grad():
            told = reply_logprobs(model.model, batch, never=model.processor.never).logprobs[0]
        return float((told - torch.tensor(sample.logprobs)).abs().max()) < 1e-4

    limits = AttemptLimits(step_factor=1, step_extra=0, retries=0, call_s=60.0)
    both = {POLICY: loaded.model, REFERENCE: other.model}
    of_policy: list[Rollout] = []
    of_reference: list[Rollout] = []
    with (
        rollout_server(loaded.folder, tmp_path) as (_, url),
        engine(loaded, [url], tmp_path, models=both) as made,
        RolloutWorkers(loaded, made, devices, limits, workers=workers) as crew,
    ):
        made.publish(loaded.model.state_dict(), 1)
        crew.submit(jobs("g", POLICY))
        while len(resets) < min(workers, 2):
            time.sleep(0.01)
        made.publish(other.model.state_dict(), 1, REFERENCE)
        validating = threading.Thread(
            target=lambda: of_reference.extend(crew.run(jobs("reference", REFERENCE), of_policy)), daemon=True
        )
        validating.start()
        while crew.unfinished < 8:
            time.sleep(0.01)
        goes_on.set()
        validating.join(30)
        assert len(of_reference) == 4, "rollouts of policy and reference wait for one another"
        assert len(of_policy) == min(workers, 2), "those that had begun came to their end, the others waited"
        made.publish(loaded.model.state_dict(), 1)
        while len(of_policy) < 4:
            assert (ended := crew.wait(30)), "no rollout of the policy ends"
            of_policy += ended
    assert all(by(loaded, one) and not by(other, one) for one in of_policy)
    assert all(by(other, one) and not by(loaded, one) for one in of_reference)


def test_rollouts_of_a_lost_server_are_lost_by_infrastructure(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    limits = AttemptLimits(step_factor=1, step_extra=0, retries=1, call_s=60.0, pause_s=0.01)
    with engine(loaded, [(lost := ServerProcess(loaded.folder, tmp_path)).url], tmp_path, wait_s=0.5) as made:
        lost.run()
        try:
            made.publish(loaded.model.state_dict(), 0)
            with RolloutWorkers(loaded, made, pool(), limits, workers=2) as crew:
                [good] = crew.run([job(0)])
                lost.kill()
                gone = crew.run([job(1), job(2)])
        finally:
            lost.kill()
    assert good.success is not None and [one.success for one in gone] == [None, None]
    assert all("vllm" in one.failure and not one.samples for one in gone)
    assert crew.statistics.lost == 2 and sum(crew.statistics.failures.values()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_learns_from_servers(start: Path, tmp_path: Path, mode: str) -> None:
    with rollout_server(start, tmp_path) as (server, url):
        server.fails = 2
        vllm = {"endpoints": [url], "weights_dir": str(tmp_path / "weights"), "logprob_tolerance": 1e-3}
        config = settings(mode=mode, rollout_engine="vllm", vllm=vllm, updates=2)
        result = train(start, tmp_path / "out", config)
    curve = result.metrics["curve"]
    assert len(curve) == 2 and result.metrics["lost_rollouts"] == 0 and result.metrics["rollouts"] >= 16
    assert max(row.get("sampling_logp_difference_max", 0.0) for row in curve) < 1e-4
    assert all(row["staleness_max"] <= config.max_staleness for row in curve)
    assert mode == "async" or all("sampling_logp_difference_mean" in row for row in curve if row["with_signal"])
    assert result.timing["engine_failures"] >= 1 and result.timing["weight_update_s"] > 0
    assert url not in (tmp_path / "out" / "lineage.json").read_text() and not (tmp_path / "weights" / "run").exists()
