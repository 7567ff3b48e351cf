"""The agent behind the OpenAI protocol, against a real server with faults."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from drawn import draw
from reply_server import CLICK, ReplyServer, text_of

from generators.policies import registry
from generators.policies.agent_prompt import AgentPrompt, template, template_digest, without_typed_enters
from generators.policies.chat_endpoint import ChatEndpoint, Sampling, picture
from generators.policies.openai_agent import OpenAIAgent
from generators.policies.policy import PastTurn, PolicyError, PolicyView
from quality.model_client.rate_limit import RateLimits
from quality.model_client.retry import Retry
from schemas.action_types import Click, Finished, PressEnter, Scroll, Type

QUICK = Retry(attempts=4, base_s=0.01, cap_s=0.02, timeout_s=5, deadline_s=20)
PNG = draw({"red": (10, 10, 60, 60)})
Open = Callable[..., ChatEndpoint]


@pytest.fixture
def open_endpoint() -> Iterator[Open]:
    made: list[ChatEndpoint] = []

    def open_one(server: ReplyServer, retry: Retry = QUICK, **options: Any) -> ChatEndpoint:
        made.append(ChatEndpoint(server.url, "venus", retry=retry, **options))
        return made[-1]

    yield open_one
    for endpoint in made:
        endpoint.close()


def view(goal: str = "Save {it}", past: tuple[PastTurn, ...] = (), platform: str = "web") -> PolicyView:
    return PolicyView(goal, PNG, (224, 160), platform, past)


def begun(endpoint: ChatEndpoint, seed: int = 0, **options: Any) -> OpenAIAgent:
    agent = OpenAIAgent(endpoint, **options)
    agent.begin("Save {it}", "web", seed)
    return agent


def test_a_turn_shows_goal_history_and_the_current_screen_alone(open_endpoint: Open) -> None:
    past = tuple(PastTurn(Click((n, n)), f"thought {n}", f"did {n}") for n in range(1, 6))
    with ReplyServer() as server:
        agent = begun(open_endpoint(server), 7, sampling=Sampling(0.5, 0.9, 64, {"top_k": 5}))
        decision = agent.decide(view(past=past))
        [body] = server.bodies
    assert decision.action == Click((10, 20)) and decision.reply == CLICK and decision.conclusion == "Click it."
    assert (decision.prompt_tokens, decision.completion_tokens) == (100, 10)
    system, user = body["messages"]
    assert (
        "Hotkey" in system["content"]
        and "LongPress" not in system["content"]
        and "Thinking is off" in system["content"]
    )
    text, image = user["content"]
    assert text["text"] == (
        "Goal: Save {it}\nHistory:\n3. Click(box=(3,3))\n4. Click(box=(4,4))\n5. Click(box=(5,5))\n"
    )
    assert base64.b64decode(image["image_url"]["url"].partition("base64,")[2]) == PNG
    drawn = (body["temperature"], body["top_p"], body["max_tokens"], body["top_k"], body["model"])
    assert drawn == (0.5, 0.9, 64, 5, "venus")


@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        (AgentPrompt("action", 1), "2. Scroll(direction='down')"),
        (AgentPrompt("conclusion", 1), "2. looked below"),
        (AgentPrompt("think_action", 1), "2. hm Scroll(direction='down')"),
        (AgentPrompt("action", 0), "none"),
    ],
)
def test_forms_of_the_history(prompt: AgentPrompt, line: str) -> None:
    past = (PastTurn(Click((1, 1))), PastTurn(Scroll(direction="down"), "hm", "looked\nbelow"))
    user: Any = prompt.messages(view(past=past))[1]["content"]
    assert user[0]["text"].endswith(f"History:\n{line}\n")
    unread = prompt.history_text((PastTurn(None),), view())
    assert ("could not be read" in unread) == bool(prompt.history_steps)


def test_platforms_have_their_own_actions_and_thinking_can_be_asked_for() -> None:
    mobile = AgentPrompt(thinking=True).messages(view(platform="mobile"))[0]["content"]
    assert "LongPress" in mobile and "Hotkey" not in mobile and "Think in the first tag" in mobile
    assert "Hotkey" in AgentPrompt().messages(view(platform="desktop"))[0]["content"]
    policies = registry.build_policy("openai", base_url="http://127.0.0.1:9", model="m")
    assert registry.with_proposals(policies, 2).wording == policies.wording == f"v1 {template_digest()}"
    with pytest.raises(ValueError, match="known are"):
        template("../v1/system")
    with pytest.raises(ValueError, match="known are"):
        template("system", "../v1")
    with pytest.raises(ValueError, match="history"):
        AgentPrompt("diary")  # type: ignore[arg-type]


def test_enter_after_typing_is_pressed_by_the_agent_and_hidden_from_the_model(open_endpoint: Open) -> None:
    past = (PastTurn(Click((1, 1))), PastTurn(Type("tea")))
    with ReplyServer() as server:
        agent = begun(open_endpoint(server), append_enter_after_type=True)
        pressed = agent.decide(view(past=past))
        assert pressed.action == PressEnter() and not server.bodies
        assert agent.decide(view(past=(*past, PastTurn(PressEnter())))).action == Click((10, 20))
        plain = begun(open_endpoint(server))
        assert plain.decide(view(past=past)).action == Click((10, 20))
        first, second = (text_of(body) for body in server.bodies)
    assert "PressEnter()\n" not in first.partition("Goal:")[2] and "an Enter follows by itself" in first
    assert "without an Enter" in second
    twice = without_typed_enters([*past, PastTurn(PressEnter()), PastTurn(PressEnter())])
    assert [said.action for said in twice] == [Click((1, 1)), Type("tea"), PressEnter()]
    mobile = begun(open_endpoint(server), append_enter_after_type=True)
    with pytest.raises(PolicyError):  # on a phone the model is asked; here its server is gone
        mobile.decide(view(past=past, platform="mobile"))


@pytest.mark.parametrize("fault", ["429:0", "500", "drop", "half", "html", "nobody", "null"])
def test_a_passing_fault_costs_another_try(fault: str, open_endpoint: Open) -> None:
    with ReplyServer(script=[fault]) as server:
        decision = begun(open_endpoint(server)).decide(view())
        assert decision.action == Click((10, 20)) and server.modes == {fault: 1, "right": 1}


@pytest.mark.parametrize("fault", ["429:0", "503", "drop", "html"])
def test_a_lasting_fault_is_told_after_the_last_try(fault: str, open_endpoint: Open) -> None:
    with ReplyServer(faults=[fault], fault_share=1) as server:
        with pytest.raises(PolicyError, match="venus at http.*no reply after 4 attempts"):
            begun(open_endpoint(server)).decide(view())
        assert server.modes.total() == 4


@pytest.mark.parametrize("fault", ["401", "400"])
def test_what_another_try_cant_help_is_told_at_once(fault: str, open_endpoint: Open) -> None:
    with ReplyServer(script=[fault]) as server:
        with pytest.raises(PolicyError, match=f"HTTP {fault}"):
            begun(open_endpoint(server)).decide(view())
        assert server.modes.total() == 1


@pytest.mark.parametrize("fault", ["hang", "trickle", "trickle_head"])
def test_a_hung_server_is_left_at_the_limit_of_time(fault: str, open_endpoint: Open) -> None:
    with ReplyServer(faults=[fault], fault_share=1) as server:
        began = time.monotonic()
        short = Retry(attempts=9, base_s=0.01, cap_s=0.02, timeout_s=0.3, deadline_s=0.6)
        with pytest.raises(PolicyError, match="no complete answer in time"):
            begun(open_endpoint(server, short)).decide(view())
        assert time.monotonic() - began < 6
        assert server.modes.total() <= 4


def test_garbage_from_the_model_is_a_turn_without_an_action(open_endpoint: Open) -> None:
    with ReplyServer(script=["garbage"]) as server:
        decision = begun(open_endpoint(server)).decide(view())
        assert decision.action is None and decision.reply == "I would rather not." and decision.prompt_tokens == 100
        assert server.modes.total() == 1


def test_replies_without_usage_and_with_half_characters_are_read(open_endpoint: Open) -> None:
    with ReplyServer(lambda body: "<action>Finished(content='\ud800')</action>", script=["no_usage"]) as server:
        decision = begun(open_endpoint(server)).decide(view())
    assert isinstance(decision.action, Finished) and decision.prompt_tokens == 0
    decision.reply.encode()


def test_seeds_differ_by_turn_and_by_episode_and_repeat(open_endpoint: Open) -> None:
    with ReplyServer() as server:
        endpoint = open_endpoint(server)
        for seed in (1, 1, 2):
            agent = begun(endpoint, seed)
            agent.decide(view())
            agent.decide(view(past=(PastTurn(Click((1, 1))),)))
        seeds = [body["seed"] for body in server.bodies]
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == 4


def test_rate_limits_are_shared_by_the_agents_of_an_endpoint(open_endpoint: Open) -> None:
    with ReplyServer() as server:
        endpoint = open_endpoint(server, limits=RateLimits(requests_per_minute=240, burst_s=0.25))
        for _ in range(3):
            begun(endpoint).decide(view())
        assert server.times[2] - server.times[0] >= 0.45  # 4 a second, one at once


def test_the_key_is_sent_and_bad_endpoints_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="http://"):
        ChatEndpoint("file:///etc", "venus")
    with pytest.raises(ValueError, match="name of a model"):
        ChatEndpoint("http://127.0.0.1:1/v1", "")
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", "venus", retry=Retry(attempts=2, base_s=0.01))
    with pytest.raises(PolicyError, match="no connection"):
        begun(endpoint).decide(view())
    endpoint.close()
    assert picture(b"\xff\xd8\xff")["image_url"]["url"].startswith("data:image/jpeg")
