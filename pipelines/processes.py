"""Ends child processes: by request, then by force."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


def end_process(
    child: subprocess.Popen[Any],
    *,
    wait_s: float = 0.0,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGKILL),
    grace_s: float | None = 5.0,
    group: bool = False,
) -> None:
    """End a child process and wait for it: it has `wait_s` seconds to end by itself, then `grace_s` seconds after each
    of `signals` (None: for ever). `group`: the signals go to the process group that it leads, also where it has ended
    by itself, so that what it started ends too. A child that outlives the last signal's time is left."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(wait_s)
    for number in signals:
        try:
            if group:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
        except ProcessLookupError:  # nobody is left
            return
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
