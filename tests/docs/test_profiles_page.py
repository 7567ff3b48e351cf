"""The profile of docs/profiles.md, as it stands there: loaded from its file, it asks and reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from drawn import draw
from reply_server import ReplyServer, text_of

from generators.policies.policy import PastTurn, PolicyView
from generators.policies.profiles.agents import profiled_policies
from generators.policies.profiles.asking import ProfilePrompter
from generators.policies.profiles.profile import Profile, load_profile, profiles
from generators.policies.profiles.replies import read_place
from schemas.action_types import Click, PressBack

PAGE = (Path(__file__).parents[2] / "docs/profiles.md").read_text(encoding="utf-8")
PNG = draw({"red": (10, 10, 60, 60)})


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my-model.toml").write_text(text, encoding="utf-8")
    found = load_profile(str(tmp_path / "my-model.toml"))
    assert found is not None
    return found


def test_the_page_s_profile_asks_and_reads(profile: Profile) -> None:
    def reply(body: object) -> str:
        return '<tool_call>{"name": "use", "arguments": {"action": "click", "coordinate": [250, 750]}}</tool_call>'

    past = (PastTurn(PressBack(), "", "went back"), PastTurn(Click((1, 2))))
    with ReplyServer(reply) as server:
        policy = profiled_policies(server.url, "mine", profile).make(None, None)  # type: ignore[arg-type]
        policy.begin("Save", "mobile", 0)
        decision = policy.decide(PolicyView("Save", PNG, (224, 160), "mobile", past))
        [body] = server.bodies
    assert decision.action == Click((250, 750)) and body["repetition_penalty"] == 1.1 and body["max_tokens"] == 1024
    shown = '1. went back\n2. {"action": "click", "coordinate": [1, 2]}'
    assert text_of(body) == f"You hold a phone of 224 x 160.\nTask: Save\nSo far: {shown}\n"


def test_its_points_are_fractions(profile: Profile) -> None:
    size = ProfilePrompter(profile).size(PNG)
    assert read_place("Between (0.1, 0.2) and (0.25, 0.5)", profile, size) == pytest.approx((250, 500))


def test_the_page_names_every_profile() -> None:
    assert [name for name in profiles() if f"| `{name}` |" not in PAGE] == []
