"""The worlds of the judge bench by name, each with its share of the traces. Add a world here."""

from pathlib import Path
from typing import Any

from generators.proving.judge_bench.recorders.fsm_tasks import FsmRecorder
from generators.proving.judge_bench.recorders.miniwob_tasks import MiniwobRecorder
from generators.proving.judge_bench.recorders.odd_pages import OddPages
from generators.proving.judge_bench.recorders.own_pages import OwnPagesRecorder
from generators.proving.judge_bench.recorders.phone_tasks import PhoneRecorder
from generators.proving.judge_bench.recorders.web_pages import WebPages
from generators.proving.judge_bench.trace import TraceRecorder


def recorders(pages: Path | None = None) -> dict[str, tuple[float, TraceRecorder[Any]]]:
    """name → (share of the traces, its recorder). `pages`: unpacked html pages of others; without them their share goes
    to the rest."""
    found: dict[str, tuple[float, TraceRecorder[Any]]] = {
        "own_phone": (0.3, OwnPagesRecorder("phone")),
        "own_desktop": (0.15, OwnPagesRecorder("desktop")),
        "odd_phone": (0.1, OddPages("phone")),
        "odd_desktop": (0.08, OddPages("desktop")),
        "miniwob": (0.17, MiniwobRecorder()),
        "phone": (0.2, PhoneRecorder()),
        "fsm": (0.15, FsmRecorder()),
    }
    if pages is not None:
        found["web_pages"] = (0.2, WebPages(pages))
    # Shares sum to 1 again whichever worlds take part.
    total = sum(share for share, _ in found.values())
    return {name: (share / total, recorder) for name, (share, recorder) in found.items()}
