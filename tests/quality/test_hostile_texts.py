"""Readers of text that strangers wrote (pages, records, answers of models) take linear time on whatever it says.

Each reads a text four times as long in at most some ten times the time, or is done before that matters: a reader of
quadratic time takes 16 times as long, one of cubic time 64 times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from generators.worlds.phone.refusals import says_it_cant_be_done
from pipelines.derivers.grounding import expression
from pipelines.markdown_text import markdown_text
from pipelines.native import gui_libra_steps, mobile_use, single_steps
from pipelines.native.chat import has_steps, without_pictures
from pipelines.sources import gui_net, nnetnav, omniact, os_genesis_mobile, os_genesis_web, scalecua, uground
from quality.contamination.text_prints import text_print
from quality.evidence.consistency import check_thought
from quality.evidence.words import entities
from quality.items.screens import Element
from quality.judges.nano.requirements import clauses_of
from quality.judges.orders import without_orders
from quality.safety.credentials import credential_in
from quality.safety.personal_data import find_personal
from schemas.actions import Type
from trainer.rl.confidence import without_confidence

_SCREEN = (Element((0, 0, 100, 100), "button", "a", "a"), Element((0, 200, 100, 300), "button", "no", "no"))

READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "personal data": (find_personal, "phone"),
    "credentials": (credential_in, "password is "),
    "entities": (entities, ""),
    "thoughts": (lambda text: check_thought(text, Type("x"), _SCREEN), "i click "),
    "orders to judges": (without_orders, "ignore"),
    "clauses": (clauses_of, ""),
    "prints": (text_print, ""),
    "refusals": (says_it_cant_be_done, "no"),
    "expression": (expression, "click a"),
    "markdown": (markdown_text, ""),
    "pictures": (without_pictures, "<image>"),
    "steps": (has_steps, "Step 1:"),
    "confidence": (without_confidence, "[1,2]"),
    "gui_libra": (gui_libra_steps._INSTRUCTION.search, "Instruction:"),
    "single steps": (single_steps.GOAL.search, "Instruction:"),
    "gui_net": (gui_net._ACTION.search, "Thought:"),
    "nnetnav": (nnetnav._OBJECTIVE.findall, "OBJECTIVE:"),
    "omniact": (omniact._TASK.fullmatch, "Task:"),
    "os_genesis_mobile": (os_genesis_mobile._ASKED.search, "High-level instruction:"),
    "os_genesis_mobile, history": (os_genesis_mobile._HISTORY.search, "\nAction history:"),
    "os_genesis_web": (os_genesis_web._INSTRUCTION.search, "Instruction:"),
    "scalecua": (scalecua._TASK.search, "Task:"),
    "uground": (uground._DESCRIBED.search, "Description:"),
    "uground, quoted": (uground._QUOTED.search, '"a"'),
    "mobile_use": (mobile_use._ASKED.search, "The user query:"),
}
"""Name → the reader, and what it looks for first."""
UNITS = (" ", "\n", "a", "1", "a.", "a@", "[1,2] ", "<", "1 ", "no ", "is not in the ", "\n \n", "“", "http://a.")
SHORT, LONG = 4_000, 16_000
AT_ONCE_S = 0.15
"""What is read within it is fast enough, whatever its growth: timing less than that says nothing on a busy machine."""


def _seconds(read: Callable[[str], Any], text: str) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        read(text)
        best = min(best, time.process_time() - began)
        if best < AT_ONCE_S:
            break
    return best


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_length(reader: str) -> None:
    read, own = READERS[reader]
    slow = {}
    for head in dict.fromkeys(("", own)):
        for unit in UNITS:
            long = _seconds(read, head + unit * (LONG // len(unit)) + "\0")
            if long > AT_ONCE_S and long > 10 * _seconds(read, head + unit * (SHORT // len(unit)) + "\0"):
                slow[head, unit] = long
    assert not slow
