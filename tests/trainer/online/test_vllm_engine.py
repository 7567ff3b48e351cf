"""Replies by servers that speak vLLM's protocol: the same tokens and log-probabilities, and nothing lost in silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from choice_world import GOAL, SIZE, ChoiceWorld, picture, pool, task
from online_runs import settings, train
from rollout_servers import FaultyServer, ServerProcess, rollout_server

from generators.execution.device_pool import LocalPool
from generators.execution.limits import Limits
from generators.policies.policy import PolicyError, View
from generators.tasks.world_interface import World
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint, load_processor
from trainer.modeling.generation import Completion, generate
from trainer.modeling.model import reply_logprobs
from trainer.online.config import VllmConfig
from trainer.online.rollout_engine import EngineFailed
from trainer.online.rollouts import POLICY, REFERENCE, Job, Rollout
from trainer.online.vllm import engine as vllm_engine
from trainer.online.vllm.engine import VllmEngine
from trainer.online.workers import RolloutWorkers
from trainer.serving.checkpoint_policy import CheckpointPolicy


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "RETRY_S", 0.02)


@pytest.fixture
def loaded(start: Path) -> Checkpoint:
    return load_checkpoint(start)


@pytest.fixture
def other(start: Path) -> Checkpoint:
    """Whose weights are others."""
    found = load_checkpoint(start)
    moved(found.model, 0.05)
    return found


@contextmanager
def engine(
    loaded: Checkpoint, urls: list[str], root: Path, *, temperature: float = 1.0, models: Any = None, **changes: Any
) -> Iterator[VllmEngine]:
    assert loaded.folder is not None
    given: dict[str, Any] = {"timeout_s": 60.0, "wait_s": 60.0, "logprob_tolerance": 1e-3, **changes}
    config = VllmConfig(endpoints=tuple(urls), weights_dir=str(root), **given)
    with VllmEngine(
        models or {POLICY: loaded.model},
        load_processor(loaded.folder),
        config,
        temperature=temperature,
        max_new_tokens=24,
        run="run",
    ) as made:
        yield made


def row(loaded: Checkpoint) -> dict[str, Any]:
    return CheckpointPolicy(loaded).row(View(GOAL, picture(2, 0), SIZE, "web", ()))


def job(member: int = 0, **changes: Any) -> Job:
    return Job(task(2), "g", member, member, **changes)


def ask(made: VllmEngine, loaded: Checkpoint, member: int = 0, **changes: Any) -> tuple[Completion, int, int]:
    one = job(member, **changes)
    made.active.add(one.key)
    try:
        return made.ask(one, row(loaded), 7 + member)
    finally:
        with made.cond:
            made.active.discard(one.key)


def moved(model: Any, by: float) -> None:
    """Other weights."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))


def gap(loaded: Checkpoint, reply: Completion, temperature: float = 1.0) -> float:
    """Nats between what the server told and the learner's own pass over the very token ids."""
    batch = loaded.processor.reply_batch([row(loaded)], [reply.token_ids])
    with torch.no_grad():
        found = reply_logprobs(loaded.model, batch, temperature, never=loaded.processor.never).logprobs[0]
    return float((found - torch.tensor(reply.logprobs)).abs().max())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_tokens_and_log_probabilities_are_the_learner_s(loaded: Checkpoint, tmp_path: Path, temperature: float) -> None:
    assert loaded.folder is not None
    with (
        rollout_server(loaded.folder, tmp_path) as (server, url),
        engine(loaded, [url], tmp_path, temperature=temperature) as made,
    ):
        moved(loaded.model, 0.02)  # the server was started with others
        made.publish(loaded.model.state_dict(), 5)
        for member in range(3):
            reply, prompt_tokens, version = ask(made, loaded, member)
            [expected] = generate(
                loaded.model,
                loaded.processor,
                [row(loaded)],
                temperature=temperature,
                max_new_tokens=24,
                generator=torch.Generator().manual_seed(7 + member),
            )
            assert reply.token_ids == expected.token_ids and reply.text == expected.text
            assert gap(loaded, reply, temperature) < 1e-4
            assert prompt_tokens == len(loaded.processor.prompt(row(loaded)).ids) and version == 5
        greedy, _, _ = ask(made, loaded, greedy=True)
        assert (
            greedy.token_ids == generate(loaded.model, loaded.processor, [row(loaded)], max_new_tokens=24)[0].token_ids
        )
        assert made.replies == 4 and server.asked == 4 and made.figures()["engine_failures"] == 0
    assert not list(tmp_path.rglob("*.safetensors"))
    assert not [one for one in threading.enumerate() if one.name.startswith("vllm")]


def test_an_update_changes_what_is_sampled_and_its_version(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with (
        rollout_server(loaded.folder, tmp_path) as (_, one),
        rollout_server(loaded.folder, tmp_path) as (_, two),
        engine(loaded, [one, two], tmp_path) as made,
    ):
        made.publish(loaded.model.state_dict(), 0)
        before, _, version = ask(made, loaded)
        assert version == 0 and gap(loaded, before) < 1e-4
        moved(loaded.model, 0.05)
        made.publish(loaded.model.state_dict(), 1)
        assert len(list(tmp_path.rglob("*.safetensors"))) == 1  # the old ones are gone
        for member in range(2):
            after, _, version = ask(made, loaded, member)
            assert version == 1 and gap(loaded, after) < 1e-4
        assert gap(loaded, before) > 0.01


Fault = Callable[[FaultyServer], None]


def edited(change: Callable[[dict[str, Any]], Any]) -> Fault:
    def fault(server: FaultyServer) -> None:
        def once(answer: dict[str, Any]) -> None:
            server.edit = lambda answer: None
            change(answer)

        server.edit = once

    return fault


FAULTS: dict[str, tuple[Fault, str]] = {
    "500s": (lambda server: setattr(server, "fails", 2), "ServerError"),
    "a token without its log-probability": (
        edited(lambda answer: answer["choices"][0]["logprobs"]["content"].pop()),
        "BadReply",
    ),
    "another token's log-probability": (
        edited(lambda answer: answer["choices"][0]["logprobs"]["content"][0].update(token_id=9)),
        "BadReply",
    ),
    "a token too many": (
        edited(lambda answer: answer["choices"][0]["token_ids"].append(answer["choices"][0]["token_ids"][-1])),
        "BadReply",
    ),
    "another prompt": (edited(lambda answer: answer["prompt_token_ids"].append(9)), "BadReply"),
    "old weights": (
        edited(lambda answer: answer["choices"][0]["weight_versions"][0].update(version="v4-policy-x-1")),
        "BadReply",
    ),
    "weights changed in the middle": (
        edited(
            lambda answer: answer["choices"][0].update(
                weight_versions=[{"version": "a", "start": 0, "end": 1}, {"version": "b", "start": 1, "end": 2}]
            )
        ),
        "BadReply",
    ),
    "no JSON object": (edited(lambda answer: answer.clear()), "BadReply"),
    "restarted": (lambda server: setattr(server.weights, "label", "default"), "BadReply"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_reply_that_doesnt_fit_is_counted_and_asked_for_again(loaded: Checkpoint, tmp_path: Path, fault: str) -> None:
    assert loaded.folder is not None
    with rollout_server(loaded.folder, tmp_path) as (server, url), engine(loaded, [url], tmp_path) as made:
        moved(loaded.model, 0.02)
        made.publish(loaded.model.state_dict(), 2)
        FAULTS[fault][0](server)
        reply, _, version = ask(made, loaded)
        assert gap(loaded, reply) < 1e-4 and version == 2
        assert made.failures[FAULTS[fault][1]] >= 1


def test_a_request_that_is_answered_badly_each_time_fails_its_rollout(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with rollout_server(loaded.folder, tmp_path) as (server, url), engine(loaded, [url], tmp_path) as made:
        made.publish(loaded.model.state_dict(), 0)
        server.edit = lambda answer: answer["prompt_token_ids"].pop()
        with pytest.raises(PolicyError, match="another image processor"):
            ask(made, loaded)
        assert server.asked == vllm_engine.BAD_REPLIES


def test_a_hung_server_is_passed_over(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with (
        rollout_server(loaded.folder, tmp_path) as (one, url),
        rollout_server(loaded.folder, tmp_path) as (two, too),
        engine(loaded, [url, too], tmp_path, timeout_s=4.0) as made,
    ):
        made.publish(loaded.model.state_dict(), 0)
        one.hang = threading.Event()
        for member in range(3):
            assert gap(loaded, ask(made, loaded, member)[0]) < 1e-4
        assert one.asked >= 1 and two.asked >= 3 and made.failures["ServerError"] >= 1


def test_weights_come_by_broadcast_as_well(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with (
        rollout_server(loaded.folder, tmp_path) as (server, url),
        engine(loaded, [url], tmp_path, weight_update="weight_transfer") as made,
    ):
        for version in (0, 1):
            moved(loaded.model, 0.02)
            made.publish(loaded.model.state_dict(), version)
            reply, _, told = ask(made, loaded)
            assert told == version and gap(loaded, reply) < 1e-4
        server.weights.shutdown_weight_transfer_engine()  # it has lost its group, as after a restart
        with pytest.raises(EngineFailed, match=r"version 2: .*has joined a group"):
            made.publish(loaded.model.state_dict(), 2)
        made.publish(loaded.model.state_dict(), 3)
        assert ask(made, loaded)[2] == 3 and not list(tmp_path.rglob("*.safetensors"))


def test_an_engine_that_ends_leaves_nobody_waiting(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    ended: list[BaseException] = []

    def asking() -> None:
        try:
            ask(made, loaded)
        except EngineFailed as error:
            ended.append(error)

    with rollout_server(loaded.folder, tmp_path) as (server, url):
        with engine(loaded, [url], tmp_path) as made:
            made.publish(loaded.model.state_dict(), 0)
            server.hang = threading.Event()
            (thread := threading.Thread(target=asking)).start()
            while not server.asked:
                thread.join(0.01)
        thread.join(60)
        assert len(ended) == 1 and not thread.is_alive()


def test_a_server_that_says_it_has_reloaded_and_has_not_is_found_out(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with rollout_server(loaded.folder, tmp_path) as (server, url), engine(loaded, [url], tmp_path, wait_s=0.3) as made:
        server.keeps_old = True
        moved(loaded.model, 0.05)
        with pytest.raises(EngineFailed, match=r"version 1: .* it answers from other weights"):
            made.publish(loaded.model.state_dict(), 1)


def test_a_server_killed_during_an_update_comes_back_with_the_new_weights(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    server = ServerProcess(loaded.folder, tmp_path)
    server.run(kill_in_reload=2)
    try:
        with engine(loaded, [server.url], tmp_path) as made:
            made.publish(loaded.model.state_dict(), 0)
            moved(loaded.model, 0.05)
            publishing = threading.Thread(target=made.publish, args=(loaded.model.state_dict(), 1))
            publishing.start()
            server.wait_dead()
            server.run()  # with the weights of the beginning
            publishing.join(60)
            reply, _, version = ask(made, loaded)
            assert version == 1 and gap(loaded, reply) < 1e-4 and made.failures["ServerError"] >= 1
            server.kill()
            server.run()
            reply, _, version = ask(made, loaded)
            assert version == 1 and gap(loaded, reply) < 1e-4
    finally:
        server.kill()


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
        made.settings = replace(made.settings, wait_s=0.1)
        with pytest.raises(PolicyError, match=r"no server with the policy's weights for 0\.1 s"):
            ask(made, loaded)


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

    def jobs(group: str, slot: str) -> list[Job]:
        tasks = [
            replace(one := task(1, number), initial_state={**one.initial_state, "world": kinds[number % 2]})
            for number in range(4)
        ]
        return [
            Job(one, group, number, number, slot=slot, validation=slot == REFERENCE) for number, one in enumerate(tasks)
        ]

    def by(model: Checkpoint, rollout: Rollout) -> bool:
        [sample] = rollout.samples
        batch = model.processor.reply_batch([sample.row()], [sample.token_ids])
        with torch.no_grad():
            told = reply_logprobs(model.model, batch, never=model.processor.never).logprobs[0]
        return float((told - torch.tensor(sample.logprobs)).abs().max()) < 1e-4

    limits = Limits(step_factor=1, step_extra=0, retries=0, call_s=60.0)
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
    limits = Limits(step_factor=1, step_extra=0, retries=1, call_s=60.0, pause_s=0.01)
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
