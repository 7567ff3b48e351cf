"""A served model of another family on a benchmark, from the command line: its points are read in its own form and
frame, and what can't be read is said aloud."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import native_benchmarks as native
import pytest
from reply_server import ReplyServer, text_of

from dagster_project.cli import main

pytestmark = pytest.mark.real_parts

WIDTH, HEIGHT = 200, 100
FORMS = {
    "<think>Not [1,2].</think>\n[{x},{y}]": "thousandths",
    "<point>{x} {y}</point>": "thousandths",
    '```json\n[{{"point_2d": [{x}, {y}], "label": "it"}}]\n```': "thousandths",
    '<tool_call>{{"name": "use", "arguments": {{"coordinate": [{x}, {y}]}}}}</tool_call>': "thousandths",
    "<|box_start|>({x},{y}),({x},{y})<|box_end|>": "thousandths",
    "pyautogui.click(x={x}, y={y})": "fractions",
    '<point x="{x}" y="{y}" alt="it">it</point>': "percent",
    "Action: click(start_box='({x},{y})')": "pixels",
}
SCALES = {"thousandths": (1000, 1000), "fractions": (1, 1), "percent": (100, 100), "pixels": (WIDTH, HEIGHT)}


def evaluated(tmp_path: Path, reply: Any) -> dict[str, Any]:
    native.screenspot_v2(tmp_path / "raw")
    out = tmp_path / "report.json"
    with ReplyServer(reply) as server:
        words = ["eval", "--suite", "screenspot_v2", "--raw", str(tmp_path / "raw"), "--out", str(out)]
        assert main([*words, "--base-url", server.url, "--model", "other"]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def targets(root: Path) -> dict[str, tuple[float, float]]:
    """Instruction → the middle of its box, as shares of the picture."""
    rows = [row for file in sorted(root.glob("*.json")) for row in json.loads(file.read_text())]
    boxes = {row["instruction"]: row["bbox"] for row in rows}
    return {words: ((x + w / 2) / WIDTH, (y + h / 2) / HEIGHT) for words, (x, y, w, h) in boxes.items()}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_hit_on_every_question(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale = SCALES[FORMS[form]]

    def reply(body: dict[str, Any]) -> str:
        where = targets(tmp_path / "raw")
        x, y = next(point for words, point in where.items() if f"Where is {words}?" in text_of(body))
        return form.format(x=round(x * scale[0], 4), y=round(y * scale[1], 4))

    summary = evaluated(tmp_path, reply)["summary"]
    told = capsys.readouterr().out
    assert summary["headline"]["mean"] == 1.0 and summary["frame"] == FORMS[form]
    assert summary["unreadable_share"] == 0.0 and "NOT READABLE" not in told
    assert f"points were read as {FORMS[form]}" in told


def test_what_cannot_be_read_is_said_with_a_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="trainer.rl.unreadable"):
        summary = evaluated(tmp_path, lambda body: "It is the one on the left.")["summary"]
    told = capsys.readouterr().out
    assert summary["headline"]["mean"] == 0.0 and summary["unreadable_share"] == 1.0
    assert "NOT READABLE: 100.0% of the replies of screenspot_v2" in told and "It is the one on the left." in told
    assert "screenspot_v2: 5 of 5 replies (100%) can't be read" in caplog.text
