"""Rewards of replies as other families of models write them: a right point earns what it earns in the own form."""

from __future__ import annotations

import logging
import time

import pytest
from drawn import draw

from pipelines.prompts import reply_text
from schemas import action_types
from trainer.rl.reply_forms import PROFILES
from trainer.rl.rewards import ReplyTarget, group_scores, score, succeeds, unreadable
from trainer.rl.unreadable import unreadable_share
from trainer.settings.rewards import ReplyProfile, RewardConfig

BOX = (100.0, 300.0, 300.0, 500.0)
GROUND, REFUSE = ReplyTarget("grounding", boxes=(BOX,)), ReplyTarget("grounding", refusal=True)
OWN: dict[ReplyProfile, str] = {
    "vesper": "[{x},{y}]",
    "qwen3-vl": '<tool_call>{{"name": "use", "arguments": {{"action": "tap", "coordinate": [{x}, {y}]}}}}</tool_call>',
    "ui-tars": "Thought: the field.\nAction: click(point='<point>{x} {y}</point>')",
    "os-atlas": "<|object_ref_start|>field<|object_ref_end|><|box_start|>({x},{y}),({x},{y})<|box_end|>",
    "molmo": '<point x="{x}" y="{y}" alt="field">field</point>',
    "fractions": "pyautogui.click(x={x}, y={y})",
    "pixels": "Action: click(start_box='({x},{y})')",
    "any": "<think>Perhaps [1,2].</think> It lies at ({x}, {y}).",
}
SCALES = {"thousandths": 1.0, "percent": 0.1, "fractions": 0.001, "pixels": 1.0}


def said(profile: ReplyProfile, x: float, y: float) -> str:
    scale = SCALES[PROFILES[profile].frame]
    return OWN[profile].format(x=f"{x * scale:g}", y=f"{y * scale:g}")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_point_in_a_profile_s_own_form_earns_all(profile: ReplyProfile) -> None:
    config = RewardConfig(reply_profile=profile)
    hit, miss = said(profile, 200, 400), said(profile, 800, 900)
    assert score(hit, GROUND, config) == {"format": 1.0, "point": 1.0, "total": pytest.approx(1.0)}
    assert score(miss, GROUND, config) == {"format": 1.0, "point": 0.0, "total": pytest.approx(0.1)}
    assert succeeds(hit, GROUND, config) and not succeeds(miss, GROUND, config)
    assert not unreadable(miss, GROUND, config) and unreadable("I don't know", GROUND, config)
    assert score("[-1,-1]", REFUSE, config)["point"] == 1.0
    if profile != "vesper":
        assert score(hit, GROUND)["total"] == 0.0 and unreadable(hit, GROUND), "the own form is the default's alone"


def test_another_form_than_the_profile_s_is_a_point_without_its_form() -> None:
    config = RewardConfig(reply_profile="qwen3-vl")
    assert score("[200,400]", GROUND, config) == {"format": 0.0, "point": 1.0, "total": pytest.approx(0.9)}
    assert score('{"point_2d": [2000, 400]}', GROUND, config)["point"] == 0.0, "outside the frame nothing is clamped"


def test_boxes_and_agreement_are_read_by_the_profile_too() -> None:
    config = RewardConfig(reply_profile="qwen3-vl", w_iou=1.0, w_box_size=1.0, w_consistency=1.0, w_confidence=1.0)
    box = '{"bbox_2d": [100, 300, 300, 500], "label": "field"} 0.9'
    found = group_scores([box, box], GROUND, config)[0]
    assert (found["format"], found["point"], found["iou"], found["box_size"]) == (1.0, 1.0, 1.0, 0.0)
    assert found["consistency"] == 1.0 and found["confidence"] == pytest.approx(1 - 0.1**2)
    corners = score(
        "<|box_start|>(100,300),(300,500)<|box_end|>", GROUND, RewardConfig(reply_profile="os-atlas", w_iou=1)
    )
    assert corners["iou"] == 1.0 and corners["format"] == 1.0


def test_a_large_share_of_unreadable_replies_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    replies = [(said("qwen3-vl", 200, 400), GROUND)] * 3 + [("[200,400]", GROUND)]
    with caplog.at_level(logging.WARNING):
        assert unreadable_share(replies, RewardConfig(), "update 3") == 0.75
    assert "update 3: 3 of 4 replies (75%) can't be read (reply_profile vesper)" in caplog.text
    assert "tool_call" in caplog.text, "with one of them"
    caplog.clear()
    assert unreadable_share(replies, RewardConfig(reply_profile="qwen3-vl"), "update 3") == 0.0
    assert unreadable_share(replies, RewardConfig(warn_unreadable=0.8), "update 3") == 0.75
    assert unreadable_share([], RewardConfig(), "none") == 0.0 and not caplog.text


def test_pixels_are_those_of_the_row_s_picture() -> None:
    row = {"objective": "grounding", "answer": "[200,400]", "images": [{"bytes": draw({}, (500, 250))}]}
    truth = ReplyTarget.of_sample({**row, "target_boxes": [BOX]})
    config = RewardConfig(reply_profile="pixels", w_iou=1.0, w_consistency=1.0)
    assert truth.size_px == (500, 250)
    # 40 % and 20 % of 500, 30 % and 50 % of 250: the box of BOX in pixels
    one = group_scores(["[50,75,150,125]"], truth, config)[0]
    assert (one["point"], one["iou"], one["consistency"]) == (1.0, 1.0, 1.0)
    assert score("[200,400]", truth, config)["point"] == 0.0, "below the picture's end"


STEPS: dict[ReplyProfile, dict[str, action_types.Action]] = {
    "qwen3-vl": {
        '<tool_call>\n{"name": "use", "arguments": {"action": "click", "coordinate": [200, 400]}}\n</tool_call>': (
            action_types.Click((200, 400))
        ),
        'Thought: it\n<tool_call>{"name": "use", "arguments": {"action": "type", "text": "a [b]"}}</tool_call>': (
            action_types.Type("a [b]")
        ),
    },
    "ui-tars": {
        "Thought: the field.\nAction: click(start_box='<|box_start|>(200,400)<|box_end|>')": action_types.Click(
            (200, 400)
        ),
        "Thought: the field.\nAction: click(point='<point>200 400</point>')": action_types.Click((200, 400)),
        "Action: hotkey(key='ctrl c')": action_types.Hotkey(("ctrl", "c")),
    },
    "os-atlas": {
        "thoughts:\ntap the field\nactions:\nCLICK <point>[[200, 400]]</point>": action_types.Click((200, 400)),
        "actions:\nTYPE [a [b]\nc]": action_types.Type("a [b]\nc"),
        "thoughts: below\nactions: SCROLL [DOWN]": action_types.Scroll(direction="down"),
        "actions:\nOPEN_APP [Clock]": action_types.Launch(app="Clock"),
        "actions:\nPRESS_BACK": action_types.PressBack(),
        "actions:\nENTER": action_types.PressEnter(),
        "actions:\nCOMPLETE": action_types.Finished(""),
    },
    "pixels": {"```python\npyautogui.click(200, 400)\n```": action_types.Click((200, 400))},
    "fractions": {"Action: click(start_box='(0.2,0.4)')": action_types.Click((200, 400))},
}


@pytest.mark.parametrize("profile", STEPS)
def test_a_step_in_a_profile_s_own_form_earns_what_it_earns_in_ours(profile: ReplyProfile) -> None:
    config, any_form = RewardConfig(reply_profile=profile), RewardConfig(reply_profile="any")
    for text, action in STEPS[profile].items():
        truth = ReplyTarget("navigation", action)
        ours = reply_text(action, "web")
        assert score(text, truth, config) == score(ours, truth), text
        assert succeeds(text, truth, config) and not unreadable(text, truth, config)
        assert profile == "fractions" or score(text, truth, any_form)["action"] == score(ours, truth)["action"]
        assert unreadable(text, truth), "the tags are the default's alone"
        asked = score(ours, truth, config)
        assert asked["action"] == score(ours, truth)["action"], "what our prompts ask for is read beside it"
        assert asked["format"] == float(profile in ("pixels", "fractions"))
    many = ReplyTarget("navigation", action_types.Click((200, 400)))
    for cut in ("<tool_call>{", "Action: click(", "actions:\nCLICK <point>[[1, 2]", "actions:", "", "CLICK [1,2]"):
        assert unreadable(cut, many, config), cut


def test_numbers_that_hit_in_another_frame_are_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    boxes = [(100.0 * n, 50.0 * n, 100.0 * n + 50, 50.0 * n + 50) for n in range(1, 9)]
    truths = [ReplyTarget("grounding", boxes=(box,), size_px=(500, 250)) for box in boxes]
    middles = [((box[0] + 25) / 2, (box[1] + 25) / 4) for box in boxes]
    replies = [(f"[{x:g},{y:g}]", truth) for (x, y), truth in zip(middles, truths, strict=True)]
    with caplog.at_level(logging.WARNING):
        unreadable_share(replies, RewardConfig(reply_profile="any"), "update 3")
    assert "update 3: 8 of 8 questions are hit if the numbers of the replies are pixels" in caplog.text
    caplog.clear()
    unreadable_share(replies, RewardConfig(reply_profile="pixels"), "update 3")
    unreadable_share(replies[:4] * 8, RewardConfig(reply_profile="any"), "four questions are no sign")
    right = [(f"[{box[0] + 25:g},{box[1] + 25:g}]", truth) for box, truth in zip(boxes, truths, strict=True)]
    unreadable_share(right, RewardConfig(), "update 4")
    assert not caplog.text


LENGTH, LIMIT_S = 64_000, 0.1
"""Characters of a text that is timed, and seconds that its whole score may take: twice what is wanted, as CPU time
doubles where another process shares the core."""
PIECES = (
    "[",
    "(",
    "[1,",
    "1, ",
    "] 0.5 ",
    "9" * 40,
    '{"a":',
    "<point>",
    "<think>",
    "</think>",
    "x=1,y=",
    " \t\n",
    "\\'",
    "actions:",
    "TYPE [",
    "<tool_call>",
    "```\n",
    "Action: click(",
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("head", ["", "Click(", "</think>["])
@pytest.mark.parametrize("profile", ["vesper", "any"])
@pytest.mark.parametrize(
    "truth", [GROUND, ReplyTarget("navigation", action_types.Click((200, 400)))], ids=["point", "step"]
)
def test_no_reply_stops_its_reward(truth: ReplyTarget, profile: ReplyProfile, head: str, piece: str) -> None:
    config = RewardConfig(reply_profile=profile, w_iou=1.0, w_box_size=1.0, w_confidence=1.0)
    text, taken = (head + piece * LENGTH)[:LENGTH], []
    for _ in range(4):  # the best of some: a busy machine slows a single run down
        began = time.process_time()
        score(text, truth, config)
        taken.append(time.process_time() - began)
    assert min(taken) < LIMIT_S
