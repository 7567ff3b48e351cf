"""Suites asked as a published model's authors do, from the command line, against real servers."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import native_benchmarks as native
import pytest
from PIL import Image
from reply_server import ReplyServer, text_of
from tfrecords import small_episode, write_examples

from dagster_project.cli import main
from generators.policies.profiles.profile import load_profile, profiles
from trainer.suites.options import EvaluationSubject, SuiteOptions
from trainer.suites.run import _kept, run_suite

pytestmark = pytest.mark.real_parts

CLICK = '{{"action": "left_click", "coordinate": [{x}, {y}]}}'
TOOL = f'<tool_call>\n{{{{"name": "computer_use", "arguments": {CLICK}}}}}\n</tool_call>'
FORMS = {
    "ui-venus-1.5": "[{x},{y}]",
    "qwen3-vl": TOOL,
    "gui-owl": "<thinking>\nNot [1, 2].\n</thinking>\n" + TOOL,
    "ui-tars-1.5": "Action: click(start_box='<|box_start|>({x},{y})<|box_end|>')",
}
TARGETS = {
    "go back": (0.2, 0.25),
    "send it": (0.05, 0.05),
    "close": (0.95, 0.05),
    "open": (0.05, 0.95),
    "search": (0.6, 0.6),
}
"""The middles of the boxes, as shares of the screen."""


def picture_of(body: dict[str, Any]) -> Image.Image:
    """The picture of a request."""
    parts = [part for turn in body["messages"] if not isinstance(turn["content"], str) for part in turn["content"]]
    [url] = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def pointing(name: str) -> Callable[[dict[str, Any]], str]:
    """A model that finds everything, and writes it as a profile's do: those of pixels count them as they see them."""
    profile = load_profile(name)
    assert profile is not None

    def reply(body: dict[str, Any]) -> str:
        wide, high = picture_of(body).size if profile.frame == "pixels" else (1000, 1000)
        asked = text_of(body)[-300:]  # behind the system's words
        x, y = next(place for words, place in TARGETS.items() if words in asked)
        return FORMS[name].format(x=round(x * wide), y=round(y * high))

    return reply


def evaluated(tmp_path: Path, reply: Callable[[dict[str, Any]], str], *more: str) -> tuple[dict[str, Any], Any]:
    native.screenspot_v2(tmp_path / "raw")
    out = tmp_path / "report.json"
    with ReplyServer(reply) as server:
        words = ["eval", "--suite", "screenspot_v2", "--raw", str(tmp_path / "raw"), "--out", str(out)]
        assert main([*words, "--base-url", server.url, "--model", "published", *more]) == 0
        return json.loads(out.read_text()), server.bodies


@pytest.mark.parametrize("name", FORMS)
def test_a_model_that_finds_everything_in_its_own_form_is_right_throughout(name: str, tmp_path: Path) -> None:
    report, bodies = evaluated(tmp_path, pointing(name), "--profile", name)
    profile = load_profile(name)
    assert profile is not None and report["config"]["profile"] == profile.version
    assert report["summary"]["headline"]["mean"] == 1.0 and report["summary"]["format"]["mean"] == 1.0
    assert report["summary"]["unreadable_share"] == 0.0 and report["summary"]["frame"] == "thousandths"
    assert all("Where is" not in text_of(body) for body in bodies)
    assert FORMS[name].partition("{")[0] in report["records"][0]["reply"]


def test_the_default_is_asked_and_reported_as_before(tmp_path: Path) -> None:
    def ours(body: dict[str, Any]) -> str:
        return "[200,250]"

    default, first = evaluated(tmp_path, ours)
    named, second = evaluated(tmp_path, ours, "--profile", "vesper")
    assert default == named and "profile" not in default["config"]
    assert sorted(map(str, first)) == sorted(map(str, second))
    assert set(first[0]) == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"}


def test_a_reply_in_another_form_counts_as_unreadable_and_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, _ = evaluated(tmp_path, lambda body: "the one at [200, 250]", "--profile", "qwen3-vl")
    assert report["summary"]["headline"]["mean"] == 0.0 and report["summary"]["unreadable_share"] == 1.0
    assert "the one at [200, 250]" in capsys.readouterr().out


def test_a_second_look_is_asked_of_the_part_around_the_first_answer(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        picture = picture_of(body)  # the second look shows a quarter, as large as the whole
        assert picture.size == (192, 96)
        seen.append(str(list(picture.convert("L").getdata())[:1]))
        return "[500,500]" if len(seen) % 2 == 0 else "[200,250]"

    seen: list[str] = []
    subject = EvaluationSubject(base_url="http://x", model="m", profile=load_profile("ui-venus-1.5"), reading="zoom")
    native.screenspot_v2(tmp_path)
    with ReplyServer(reply) as server:
        from trainer.suites.profiled import ProfiledAnswers

        assert subject.profile is not None
        answers = ProfiledAnswers(server.url, "m", subject.profile, workers=1, reading=subject.reading)
        row = {"objective": "grounding", "goal": "go back", "images": [native.png(200, 100)], "sample_id": "a"}
        [answer, broken] = answers([row, {**row, "images": [b"no picture"]}], 16)
        answers.close()
        assert len(server.bodies) == 2 and broken.why.startswith("unreadable: ")
    # the part around (200, 250) of the whole, half as wide and high, moved inside: its middle is (250, 250)
    assert answer.text == "[250,250]" and answer.said == "[200,250]\n[500,500]"


def test_recorded_steps_are_asked_with_their_history_and_read_in_the_authors_form(tmp_path: Path) -> None:
    actions = [{"action_type": "click", "x": 50, "y": 50}, {"action_type": "navigate_back"}]
    test = small_episode(actions, episode_id=[1], goal=[b"Set it"], step_instructions=[b"tap the middle", b"go back"])
    raw = tmp_path / "raw"
    write_examples(raw / "android_control-00000-of-00020", [test])
    (raw / "splits.json").write_text(json.dumps({"train": [], "validation": [], "test": [1]}))

    def reply(body: dict[str, Any]) -> str:
        back = '{"action": "system_button", "button": "Back"}'
        tap = '{"action": "click", "coordinate": [500, 250]}'
        given = back if "query: go back." in text_of(body) else tap
        said = "Thought: so, no <action>Wait()</action>.\nAction: Do it.\n"
        return f'{said}<tool_call>\n{{"name": "mobile_use", "arguments": {given}}}\n</tool_call>'

    with ReplyServer(reply) as server:
        subject = EvaluationSubject(base_url=server.url, model="m", profile=load_profile("qwen3-vl"))
        report = run_suite("android_control_low", subject, SuiteOptions(raw=raw))
        texts = [text_of(body) for body in server.bodies]
    acting = [record for record in report["records"] if record["true_type"] != "Finished"]
    assert [record["step"] for record in acting] == [1.0, 1.0] and report["config"]["profile"].startswith("qwen3-vl ")
    assert acting[0]["reply"].startswith("Thought: so, no <action>") and "<action>Click(" in acting[0]["read_as"]
    assert report["summary"]["unreadable_share"] == 0.0
    assert any("Step 1: {name: mobile_use, arguments: {action: click, coordinate: [500, 250]}}; " in t for t in texts)


def test_episodes_are_played_by_the_profile(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        return "Thought: done.\nAction: finished(content='done')"

    with ReplyServer(reply) as server:
        subject = EvaluationSubject(base_url=server.url, model="m", profile=load_profile("ui-tars-1.5"))
        report = run_suite("fsm", subject, SuiteOptions(limit=1, state=tmp_path / "state"))
        [body] = server.bodies
    assert "left_double(start_box=" in text_of(body) and body["max_tokens"] == 2048
    assert report["config"]["profile"].startswith("ui-tars-1.5 ") and report["summary"]["success"]["n"] == 1


def test_a_checkpoint_of_this_machine_is_asked_by_a_profile(
    processor: Any, tiny_preset: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    reads = processor.apart()
    reads.preset = replace(tiny_preset, max_prompt_tokens=4096)
    model = build_model(tiny_preset, processor.tokenizer, seed=1)
    save_checkpoint(tmp_path / "tiny", model, reads, lineage("tiny", reads.preset))
    native.screenspot_v2(tmp_path / "raw")
    out = tmp_path / "report.json"
    given = ["eval", str(tmp_path / "tiny"), "--suite", "screenspot_v2", "--raw", str(tmp_path / "raw")]
    asked = ["--profile", "ui-venus-1.5", "--reading", "zoom", "--max-new-tokens", "8", "--limit", "2"]
    assert main([*given, *asked, "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert report["policy"].startswith("vesper-tiny") and report["config"]["profile"].startswith("ui-venus-1.5 ")
    assert len(report["records"]) == 2 and report["summary"]["not_answered"] == 0
    assert report["config"]["reading"] == "zoom"
    capsys.readouterr()
    home = tmp_path / "home"
    (home / "assets").mkdir(parents=True)
    cases = {
        "--words, --history, --history-steps and --thinking are of our own prompts": [
            *given,
            "--profile",
            "qwen3-vl",
            "--words",
            "trained",
        ],
        "expected whole or zoom with --profile": [*given, "--profile", "qwen3-vl", "--reading", "windows"],
        "found --profile qwen3-vl": [*given, "--suite", "latent", "--home", str(home), "--profile", "qwen3-vl"],
        "did you mean qwen3-vl": [*given, "--profile", "qwen3vl"],
        "expected --policy openai, found 'scripted'": ["generate", "--out", str(tmp_path), "--profile", "qwen3-vl"],
        "found two of them": ["play", "--policy", "scripted", "--world", "fsm", "--profile", "qwen3-vl"],
        "found a checkpoint": ["play", str(tmp_path / "tiny"), "--world", "fsm", "--profile", "qwen3-vl"],
    }
    for said, words in cases.items():
        assert main(words) != 0
        assert said in capsys.readouterr().err, words


def test_episodes_are_found_again_by_what_was_asked(tmp_path: Path) -> None:
    options = SuiteOptions(state=tmp_path)
    subject = EvaluationSubject(base_url="http://127.0.0.1:1/v1", model="m")
    profiled = replace(subject, profile=load_profile("qwen3-vl"))
    here = [replace(profiled, base_url=f"http://127.0.0.1:{port}/v1", here=True) for port in (1, 2)]
    folders = [_kept(one, options) for one in (subject, profiled, *here)]
    assert folders[2] == folders[3] and len(set(folders)) == 3


def test_help_lists_the_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("eval", "play", "generate"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        told = " ".join(capsys.readouterr().out.split())
        assert "--profile NAME" in told and all(name in told.replace("- ", "-") for name in profiles())
