"""What goes over the wire for each profile and objective, caught by a real server: turns in order, parts in order, how
replies are drawn, the size of the picture. The texts are held by golden files beside these tests."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from reply_server import ReplyServer

from generators.policies.chat_endpoint import ChatEndpoint
from generators.policies.policy import PastTurn, PolicyView
from generators.policies.profiles.agents import profiled_policies
from generators.policies.profiles.asking import ProfilePrompter, sampling_of, sent_size
from generators.policies.profiles.profile import Profile, ProfilePicture, load_profile, profiles
from quality.model_client.retry import Retry
from schemas.action_types import Click, Finished, Hotkey, PressBack, PressEnter, Scroll, Type

GOLDEN = Path(__file__).parent / "golden"
PUBLISHED = profiles()[1:]
GOAL = "Rename {picture} “周报”."
PAST = (
    PastTurn(Click((100, 900)), "the list is open", 'Tapped "周报".'),
    PastTurn(None, "lost"),
    PastTurn(Scroll(direction="down")),
    PastTurn(Type("it's\nnew"), "type it", "Typed the name."),
    PastTurn(PressBack(), "", "Went back."),
)


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), (40, 80, 120)).save(out, "PNG")
    return out.getvalue()


def known(name: str) -> Profile:
    found = load_profile(name)
    assert found is not None
    return found


def shown(part: dict[str, Any]) -> str:
    """A text, or the size of a picture in the place of it."""
    if part["type"] == "text":
        return str(part["text"])
    with Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))) as picture:
        return f"<{picture.format} {picture.width}x{picture.height}>"


def wire(profile: Profile, objective: str, size: tuple[int, int]) -> dict[str, Any]:
    """The body that a real server got, pictures as their size."""
    prompter = ProfilePrompter(profile)
    prompt = profile.grounding if objective == "grounding" else profile.prompt(objective)
    if objective == "grounding":
        messages = prompter.grounding(GOAL, png(*size))
    else:
        messages = prompter.messages(PolicyView(GOAL, png(*size), (1, 1), objective, PAST))
    with ReplyServer() as server:
        endpoint = ChatEndpoint(server.url, "published", retry=Retry(attempts=1))
        endpoint.ask(messages, sampling_of(profile, prompt))
        endpoint.close()
        [body] = server.bodies
    for turn in body["messages"]:
        if not isinstance(turn["content"], str):
            turn["content"] = [shown(part) for part in turn["content"]]
    return dict(body)


@pytest.mark.parametrize("objective", ["grounding", "mobile", "desktop"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_request_is_as_the_golden_file_has_it(name: str, objective: str) -> None:
    size = (1080, 2400) if objective == "mobile" else (5120, 2880)
    found = json.dumps(wire(known(name), objective, size), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    path = GOLDEN / f"{name}.{objective}.json"
    if os.environ.get("VESPER_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def order(body: dict[str, Any]) -> list[str]:
    """Each turn's role, and which of its parts are texts and pictures."""
    found = []
    for turn in body["messages"]:
        parts = [turn["content"]] if isinstance(turn["content"], str) else turn["content"]
        found.append(f"{turn['role']}: " + " ".join("picture" if part.startswith("<PNG") else "text" for part in parts))
    return found


@pytest.mark.parametrize(
    ("name", "grounding", "mobile", "desktop"),
    [
        ("ui-venus-1.5", ["user: picture text"], ["system: text", "user: text picture"], None),
        ("qwen3-vl", ["system: text", "user: picture text"], ["system: text", "user: text picture"], "picture text"),
        ("gui-owl", ["system: text", "user: picture text"], ["system: text", "user: text picture"], None),
        (
            "ui-tars-1.5",
            ["system: text", "user: text", "user: picture"],
            ["system: text", "user: text", *["assistant: text"] * 4, "user: picture"],
            None,
        ),
    ],
)
def test_turns_and_parts_stand_in_the_authors_order(
    name: str, grounding: list[str], mobile: list[str], desktop: str | None
) -> None:
    small = (640, 480)
    assert order(wire(known(name), "grounding", small)) == grounding
    assert order(wire(known(name), "mobile", small)) == mobile
    other = ["system: text", f"user: {desktop}"] if desktop else mobile
    assert order(wire(known(name), "desktop", small)) == other


@pytest.mark.parametrize(
    ("name", "objective", "drawn"),
    [
        ("ui-venus-1.5", "grounding", {"temperature": 0.0, "top_p": 1.0, "max_tokens": 128}),
        (
            "ui-venus-1.5",
            "web",
            {"temperature": 0.0, "top_p": 1.0, "max_tokens": 2048, "repetition_penalty": 1.05},
        ),
        ("qwen3-vl", "mobile", {"temperature": 0.0, "top_p": 1.0, "max_tokens": 2048}),
        ("gui-owl", "desktop", {"temperature": 0.0, "top_p": 0.9, "max_tokens": 2048, "repetition_penalty": 1.05}),
        ("ui-tars-1.5", "grounding", {"temperature": 0.0, "top_p": 1.0, "max_tokens": 400}),
    ],
)
def test_replies_are_drawn_as_the_authors_draw_them(name: str, objective: str, drawn: dict[str, float]) -> None:
    body = wire(known(name), objective, (640, 480))
    assert {key: value for key, value in body.items() if key not in ("messages", "model", "seed")} == drawn


@pytest.mark.parametrize(
    ("name", "screen", "sent"),
    [
        ("ui-venus-1.5", (5120, 2880), (4768, 2688)),  # 12.8 megapixels at most, sides in steps of 32
        ("ui-venus-1.5", (1920, 1088), (1920, 1088)),
        ("gui-owl", (1920, 1080), (1932, 1092)),  # steps of 28: what its published prompt says of such a screen
        ("ui-tars-1.5", (100, 100), (280, 280)),  # 100 patches at least
        ("qwen3-vl", (1080, 2400), (1088, 2400)),
    ],
)
def test_screens_are_sent_at_the_size_that_the_model_sees(
    name: str, screen: tuple[int, int], sent: tuple[int, int]
) -> None:
    profile = known(name)
    assert sent_size(screen, profile.picture) == sent
    body = wire(profile, "grounding", screen)
    assert f"<PNG {sent[0]}x{sent[1]}>" in str(body["messages"])
    assert sent_size(screen, ProfilePicture()) == screen


def said(name: str, objective: str, past: tuple[PastTurn, ...]) -> str:
    view = PolicyView("Do it.", png(640, 480), (1, 1), objective, past)
    return json.dumps(ProfilePrompter(known(name)).messages(view), ensure_ascii=False)


def test_the_history_has_each_authors_form_and_length() -> None:
    six = tuple(PastTurn(Click((n, n)), f"t{n}", f"c{n}") for n in range(1, 7))
    venus = said("ui-venus-1.5", "mobile", six)
    assert "Step 0: <think>t2</think><action>Click(box=(2,2))</action>\\nStep 1: <think>t3</think>" in venus
    assert "Step 4: <think>t6</think>" in venus and "Step 5" not in venus and "t1<" not in venus
    assert "Step 1: c1; Step 2: c2; " in said("qwen3-vl", "mobile", six)
    bare = (PastTurn(Click((500, 250))),)  # as in recordings: the action where nothing was concluded
    assert "Step 1: {name: mobile_use, arguments: {action: click, coordinate: [500, 250]}}" in said(
        "qwen3-vl", "mobile", bare
    )
    assert "Action: click(start_box='<|box_start|>(322,119)<|box_end|>')" in said("ui-tars-1.5", "desktop", bare)
    assert "No history. This is the first step." in said("gui-owl", "desktop", ())
    keys = (PastTurn(Hotkey(("ctrl", "c")), "copy it"), PastTurn(Finished("it's done")))
    assert "Thought: copy it\\nAction: hotkey(key='ctrl c')" in said("ui-tars-1.5", "web", keys)
    assert "Action: finished(content='it\\\\'s done')" in said("ui-tars-1.5", "web", keys)


def test_an_agent_asks_reads_and_presses_enter_as_the_profile_says() -> None:
    reply = "<think>a</think><action>Type(content='tea')</action><conclusion>b</conclusion>"
    with ReplyServer(lambda body: reply) as server:
        policy = profiled_policies(server.url, "venus", known("ui-venus-1.5"), max_tokens=99).make(None, None)  # type: ignore[arg-type]
        policy.begin("Search tea", "web", 1)
        typed = policy.decide(PolicyView("Search tea", png(640, 480), (640, 480), "web"))
        past = (PastTurn(typed.action, typed.thought, typed.conclusion),)
        entered = policy.decide(PolicyView("Search tea", png(640, 480), (640, 480), "web", past))
        hidden = (*past, PastTurn(entered.action))
        policy.decide(PolicyView("Search tea", png(640, 480), (640, 480), "web", hidden))
        first, second = server.bodies
    assert typed.action == Type("tea") and entered.action == PressEnter()
    assert "Step 0: <think>a</think>" in str(second) and "<action>PressEnter()" not in str(second)
    assert first["max_tokens"] == 99 and first["repetition_penalty"] == 1.05


def test_what_is_no_profile_is_said_in_a_line(tmp_path: Path) -> None:
    assert load_profile("vesper") is None
    with pytest.raises(ValueError, match=r"profile: expected one of vesper, gui-owl, .*found 'ui-venus'; did you mean"):
        load_profile("ui-venus")
    with pytest.raises(ValueError, match="found none that can be read"):
        load_profile(str(tmp_path / "none.toml"))
    own = tmp_path / "own.toml"
    own.write_text('reply = "tags"\nframe = "pixels"\n' + "".join(f"[{k}]\nuser = '{{goal}}'\n" for k in KINDS))
    with pytest.raises(ValueError, match=r"own\.toml: .*reply tags: expected frame relative"):
        load_profile(str(own))
    own.write_text('reply = "prose"\n' + "".join(f"[{k}]\nuser = 'Go.'\n" for k in KINDS))
    forms = "tags, tool_call, calls, pyautogui or words"
    with pytest.raises(ValueError, match=rf"expected \{{goal\}} in user.*reply: expected {forms}, found"):
        load_profile(str(own))


KINDS = ("grounding", "mobile", "computer")
