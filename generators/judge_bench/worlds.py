"""The worlds of the judge bench by name, each with its share of the traces. Add a world here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generators.judge_bench.recorders.fsm_tasks import FsmTasks
from generators.judge_bench.recorders.miniwob_tasks import MiniwobTasks
from generators.judge_bench.recorders.odd_pages import OddPages
from generators.judge_bench.recorders.own_pages import OwnPages
from generators.judge_bench.recorders.phone_tasks import PhoneTasks


def recorders(pages: Path | None = None) -> dict[str, tuple[float, Any]]:
    """name → (share of the traces, `Recorder`). `pages`: unpacked html pages of others; without them their share goes
    to the rest."""
    found: dict[str, tuple[float, Any]] = {
        "own_phone": (0.3, OwnPages("phone")),
        "own_desktop": (0.15, OwnPages("desktop")),
        "odd_phone": (0.1, OddPages("phone")),
        "odd_desktop": (0.08, OddPages("desktop")),
        "miniwob": (0.17, MiniwobTasks()),
        "phone": (0.2, PhoneTasks()),
        "fsm": (0.15, FsmTasks()),
    }
    if pages is not None:
        from generators.judge_bench.recorders.web_pages import WebPages

        found["web_pages"] = (0.2, WebPages(pages))
    total = sum(share for share, _ in found.values())
    return {name: (share / total, recorder) for name, (share, recorder) in found.items()}
