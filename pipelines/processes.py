"""Ends child processes: by request, then by force, and with the process that started them."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG = 1


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


def die_with_parent(
    parent: int, number: signal.Signals = signal.SIGKILL, end: Callable[[], object] = lambda: os._exit(1)
) -> None:
    """Have this process end when its parent (by its id) does, even if that is killed with -9: the system sends it the
    signal `number` (Linux), and `end` is called by a thread that looks once a second."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    # The parent may have died before prctl took hold; other systems have no prctl; and a signal with a handler waits
    # while a long operation holds the main thread. So a thread looks, too.
    threading.Thread(target=_watch, args=(parent, end), daemon=True).start()


def _watch(parent: int, end: Callable[[], object]) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    end()
