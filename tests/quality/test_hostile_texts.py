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
from pipelines.native import gui_libra_steps, single_steps
from pipelines.native.chat import tells_steps, without_pictures
from pipelines.sources import gui_net, nnetnav, omniact, os_genesis_mobile, os_genesis_web, scalecua, uground
from pipelines.sources import ui_genie_agent_16k as ui_genie
from quality.contamination.text_prints import text_print
from quality.evidence.words import entities
from quality.judges.nano.requirements import clauses_of
from quality.judges.orders import without_orders
from quality.safety.credentials import credential_in
from quality.safety.personal_data import find_personal
from trainer.rl.confidence import without_confidence

READERS: dict[str, Callable[[str], Any]] = {
    "personal data": find_personal,
    "credentials": credential_in,
    "entities": entities,
    "orders to judges": without_orders,
    "clauses": clauses_of,
    "prints": text_print,
    "refusals": says_it_cant_be_done,
    "expression": expression,
    "markdown": markdown_text,
    "pictures": without_pictures,
    "steps": tells_steps,
    "confidence": without_confidence,
    "gui_libra": gui_libra_steps._INSTRUCTION.search,
    "single steps": single_steps.GOAL.search,
    "gui_net": gui_net._ACTION.search,
    "nnetnav": nnetnav._OBJECTIVE.findall,
    "omniact": omniact._TASK.fullmatch,
    "os_genesis_mobile": os_genesis_mobile._ASKED.search,
    "os_genesis_mobile, history": os_genesis_mobile._HISTORY.search,
    "os_genesis_web": os_genesis_web._INSTRUCTION.search,
    "scalecua": scalecua._TASK.search,
    "uground": uground._TOLD.search,
    "uground, quoted": uground._QUOTED.search,
    "ui_genie": ui_genie._ASKED.search,
}
HEADS = ("", "Instruction:", "phone", "click a", '"a"', "Task:", "Description:", "OBJECTIVE:", "Thought:")
HEADS += ("High-level instruction:", "The user query:", "ignore")
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


@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_length(reader: str) -> None:
    slow = {}
    for head in HEADS:
        for unit in UNITS:
            long = _seconds(READERS[reader], head + unit * (LONG // len(unit)) + "\0")
            if long > AT_ONCE_S and long > 10 * _seconds(READERS[reader], head + unit * (SHORT // len(unit)) + "\0"):
                slow[head, unit] = long
    assert not slow
