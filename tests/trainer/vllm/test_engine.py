"""Replies by servers that speak vLLM's protocol: the same tokens and log-probabilities, and nothing lost in silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout_servers import FaultyServer, ServerProcess, rollout_server
from vllm_engines import ask, engine, gap, moved, row

from generators.policies.policy import PolicyError
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import generate
from trainer.modeling.sampler import EngineFailed
from trainer.vllm import engine as vllm_engine
from trainer.vllm.weight_transfer import WeightTransfer

pytestmark = pytest.mark.slow


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


def test_a_broadcast_in_bf16_arrives_rounded(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    with (
        rollout_server(loaded.folder, tmp_path) as (server, url),
        engine(loaded, [url], tmp_path, weight_update="weight_transfer", logprob_tolerance=0.1) as made,
    ):
        made._update = WeightTransfer("127.0.0.1", torch.bfloat16)
        moved(loaded.model, 0.02)
        made.publish(loaded.model.state_dict(), 0)
        assert gap(loaded, ask(made, loaded)[0]) < 0.1
        for name, one in server.weights._model.state_dict().items():
            assert torch.equal(one, loaded.model.state_dict()[name].bfloat16().float()), name


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
