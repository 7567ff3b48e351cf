"""Worlds over the wire, in OpenEnv's form: what a client gets, what it may not, and that it can learn from it."""

from __future__ import annotations

import json
import math
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from choice_world import GOAL, ChoiceWorld, task
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from world_servers import served

from generators.policies.policy import PolicyView
from generators.tasks.world_interface import WorldError
from trainer.serving.checkpoint_policy import played_prompt
from trainer.serving.serve import serving
from trainer.serving.world_server import BadMessage, WorldServer, read_message
from trainer.serving.world_sessions import SessionRules
from trainer.suites.play import opener, tasks_of
from trainer.suites.worlds import outcome

LEFT, RIGHT = "Click(box=(250,500))", "Click(box=(750,500))"
END = "Finished(content='')"


class Client:
    """A session, spoken to as OpenEnv's own client does."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    def ask(self, kind: str, **data: object) -> dict[str, Any]:
        self.socket.send(json.dumps({"type": kind, "data": data}))
        found: dict[str, Any] = json.loads(self.socket.recv())
        return found

    def seen(self, kind: str, **data: object) -> dict[str, Any]:
        found = self.ask(kind, **data)
        assert found["type"] == "observation", found
        data_: dict[str, Any] = found["data"]
        return data_


@contextmanager
def session(url: str, **named: Any) -> Iterator[Client]:
    with connect(url.replace("http", "ws") + "/ws", max_size=None, **named) as socket:
        yield Client(socket)


def get(url: str, path: str, body: object = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    typed = headers if body is None else {"Content-Type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url + path, data, typed), timeout=10) as answer:
        return json.load(answer)


def test_an_episode_from_its_first_screen_to_its_reward() -> None:
    with served([task(2)]) as url, session(url) as client:
        first = client.seen("reset")
        assert (first["done"], first["reward"]) == (False, None)
        seen = first["observation"]
        assert seen["instruction"] == GOAL and seen["size"] and len(seen["screenshot"]) > 100
        assert seen["prompt"] == played_prompt(PolicyView(GOAL, b"", (1, 1), "web")), "in the words of training"
        second = client.seen("step", action=f"<think>left</think><action>{LEFT}</action>")["observation"]
        assert second["history"] == [{"action": LEFT, "answer": ""}]
        assert client.seen("step", action="no action at all")["observation"]["history"][-1]["action"] == ""
        client.seen("step", action=LEFT)
        last = client.seen("step", action=END)
        assert (last["done"], last["reward"]) == (True, 1.0) and last["observation"]["ended"] == "finished"
        assert client.ask("state")["data"]["step_count"] == 4
        assert client.ask("step", action=LEFT)["data"]["message"] == "no episode is under way; reset first"
        client.seen("reset")
        assert client.seen("step", action=END)["reward"] == 0.0


def test_what_decides_a_task_stays_on_the_server() -> None:
    with served([task(2), task(3, 1)]) as url, session(url) as client:
        listed = get(url, "/vesper/tasks", {"split": "train"})["tasks"]
        assert [one["index"] for one in listed] == [0, 1] and get(url, "/vesper/num_tasks", {})["num_tasks"] == 2
        whole = json.dumps([listed, client.seen("reset", index=1, split="train")])
        assert "checks" not in whole and "page_state" not in whole and '"n"' not in whole
        assert get(url, "/vesper/task", {"index": 1})["task"] == listed[1]
        assert get(url, "/vesper/task_range", {"start": 1})["tasks"] == listed[1:]
        assert {*get(url, "/schema")} == {"action", "observation", "state"} and get(url, "/list_environments") == [
            "vesper"
        ]


def post(url: str, path: str, body: object) -> tuple[int, Any]:
    try:
        return 200, get(url, path, body)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_clients_without_a_connection_share_a_session() -> None:
    with served([task(1), task(2, 1)], sessions=1) as url:
        assert post(url, "/step", {"action": {"action": LEFT}}) == (
            409,
            {"detail": "no episode is under way; reset first"},
        )
        _, first = post(url, "/reset", {"index": 1})
        assert first["done"] is False and first["observation"]["instruction"] == GOAL
        for action in (LEFT, LEFT):
            status, seen = post(url, "/step", {"action": {"action": action}})
            assert status == 200 and seen["reward"] is None
        assert get(url, "/state")["step_count"] == 2
        _, last = post(url, "/step", {"action": {"action": END}})
        assert (last["done"], last["reward"]) == (True, 1.0)
        assert post(url, "/step", {"action": LEFT})[0] == 400 and post(url, "/reset", {"index": 9})[0] == 400
        with session(url) as client:
            found = json.loads(client.socket.recv())
            assert found["data"]["code"] == "CAPACITY_REACHED", "the shared one is a session, too"


def test_a_session_that_nobody_asks_of_is_given_back() -> None:
    def taken_over() -> bool:
        """Whether a connection has got the only session, which is then refused to those without one."""
        with suppress(ConnectionClosed), session(url) as client:
            if client.ask("reset")["type"] == "observation":
                assert post(url, "/reset", {}) == (503, {"detail": "all 1 sessions are taken"})
                return True
        return False

    with served([task(1)], sessions=1, idle_s=0.3) as url:
        assert post(url, "/reset", {})[0] == 200
        end = time.monotonic() + 20
        while not taken_over():
            assert time.monotonic() < end, "the shared session was never given back"
            time.sleep(0.1)


def test_a_seed_draws_the_same_task() -> None:
    with served([task(2, number) for number in range(9)]) as url, session(url) as client:
        drawn = [[client.seen("reset", seed=seed)["observation"]["task_id"] for seed in range(6)] for _ in range(2)]
        assert drawn[0] == drawn[1] and len(set(drawn[0])) > 2
        by_id = client.seen("reset", task_id=drawn[0][3])["observation"]["task_id"]
        assert by_id == drawn[0][3]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("reset", {"index": 7}, "index: expected 0 to 0, found 7"),
        ("reset", {"index": True}, "index: expected a whole number"),
        ("reset", {"split": "test"}, "split: expected one of train"),
        ("reset", {"task_id": "x"}, "task_id: unknown 'x'"),
        ("step", {"action": 3}, "action: expected text, found int"),
        ("jump", {}, "type: expected reset, step, state or close"),
    ],
)
def test_a_bad_message_is_told_and_the_session_goes_on(kind: str, data: dict[str, object], said: str) -> None:
    with served([task(1)]) as url, session(url) as client:
        client.seen("reset")
        assert client.ask(kind, **data)["data"]["message"].startswith(said)
        assert client.seen("step", action=LEFT)["done"] is False


def test_messages_that_are_none() -> None:
    for text, code in (
        ("{", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ('{"type":"x"}', "UNKNOWN_TYPE"),
        ("[" * 9999, ""),
    ):
        with pytest.raises(BadMessage) as bad:
            read_message(text)
        assert not code or bad.value.code == code


def test_who_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    with served([task(1)], key="secret") as url:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(url, "/vesper/splits")
        assert get(url, "/vesper/splits", Authorization="Bearer secret")
        with session(url) as client:
            assert "key" in json.loads(client.socket.recv())["data"]["message"]
        with session(url, additional_headers={"Authorization": "Bearer secret"}) as client:
            client.seen("reset")
        with pytest.raises((InvalidStatus, ConnectionClosed)), session(url, origin="http://other.example") as client:
            client.seen("reset")


def test_no_more_sessions_than_there_are_worlds_and_each_is_given_back() -> None:
    def played(url: str) -> bool:
        """Whether there was a session; then there is no second one meanwhile."""
        with session(url) as client:
            try:
                client.seen("reset")
            except (AssertionError, ConnectionClosed):
                return False
            with session(url) as other:
                assert json.loads(other.socket.recv())["data"]["code"] == "CAPACITY_REACHED"
            return True

    with served([task(1)], sessions=1) as url:
        assert played(url)
        deadline = time.monotonic() + 10  # a session ends once its world is closed
        while not played(url):
            assert time.monotonic() < deadline, "the session was never given back"


def test_an_episode_that_is_left_costs_the_next_nothing() -> None:
    with served([task(2)], idle_s=0.5) as url, session(url) as client:
        client.seen("reset")
        client.seen("step", action=LEFT)
        client.seen("reset")  # in the middle
        time.sleep(1.0)
        assert "nothing came for 0.5 s" in client.ask("step", action=LEFT)["data"]["message"]
        client.seen("reset")
        assert client.seen("step", action=END)["reward"] == 0.0, "no reply of another episode is counted"


def test_a_world_that_fails_is_opened_again() -> None:
    opened = []

    class Breaking(ChoiceWorld):
        def __init__(self) -> None:
            super().__init__()
            opened.append(threading.current_thread().name)

        def observe(self) -> Any:
            if len(opened) == 1:
                raise WorldError("the browser is gone")
            return super().observe()

    with served([task(1)], Breaking) as url, session(url) as client:
        assert "the browser is gone" in client.ask("reset")["data"]["message"]
        client.seen("reset")
        assert client.seen("step", action=LEFT)["done"] is False and len(opened) == 2
        assert set(opened) == {"world-session"}, "drivers of browsers want one thread"


def test_a_world_that_hangs_ends_its_episode_only() -> None:
    goes_on = threading.Event()

    class Hanging(ChoiceWorld):
        def act(self, action: Any) -> Any:
            goes_on.wait(30)
            return super().act(action)

    with served([task(1)], Hanging, answer_s=1.0) as url, session(url) as client:
        client.seen("reset")
        assert "showed nothing for 1 s" in client.ask("step", action=LEFT)["data"]["message"]
        assert "no episode is under way" in client.ask("step", action=LEFT)["data"]["message"]
        goes_on.set()
        client.seen("reset")
        assert client.seen("step", action=LEFT)["observation"]["error"] == "", "what came late is another episode's"


def test_a_body_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.serving.world_server.MOST_MESSAGE", 100)
    with served([task(1)]) as url:
        for body, status in (("x" * 200, 413), ([1], 400)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(url, "/vesper/tasks", body)
            assert refused.value.code == status


def test_a_server_needs_a_task() -> None:
    with pytest.raises(ValueError, match="expected 1 or more tasks and sessions, found 0 and 4"):
        WorldServer({"train": []}, SessionRules(lambda _: ChoiceWorld(), outcome, played_prompt))


@pytest.mark.slow
def test_a_table_policy_learns_a_page_over_the_wire() -> None:
    """GRPO on a table of points: no code of ours but the server, and MiniWoB++ in a real browser."""
    tasks = tasks_of("miniwob", 1, 0, ["click-tab"])
    points = [(x, y) for x in (150, 450, 700) for y in (330, 700)]
    weights, rng, rates = [0.0] * len(points), random.Random(0), []
    rules = SessionRules(lambda one: opener(one)(), outcome, played_prompt)
    with serving(WorldServer({"train": tasks}, rules)) as (url, _), session(url.removesuffix("/v1")) as client:
        for _ in range(5):
            odds = [math.exp(weight) for weight in weights]
            drawn = rng.choices(range(len(points)), odds, k=8)
            rewards = []
            for place in drawn:
                client.seen("reset")
                client.seen("step", action=f"Click(box=({points[place][0]},{points[place][1]}))")
                rewards.append(client.seen("step", action=END)["reward"])
            mean = sum(rewards) / len(rewards)
            rates.append(mean)
            for place, reward in zip(drawn, rewards, strict=True):
                share = odds[place] / sum(odds)
                weights[place] += 3.0 * (reward - mean) * (1 - share)
    assert rates[0] < 0.5 and sum(rates[-2:]) / 2 > 0.8, rates
