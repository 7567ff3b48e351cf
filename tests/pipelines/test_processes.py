"""Children end when they are told to, or are made to; what they started ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from pipelines.processes import end_process

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def _started(code: str, **more: bool) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    assert child.stdout is not None
    child.stdout.readline()
    return child  # type: ignore[no-any-return]


def test_a_child_is_told_to_end_first() -> None:
    # whoever started the tests may have made them, and so the child, deaf to the signal
    listening = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_DFL); "
    child = _started(f"{listening}print('up', flush=True); time.sleep(60)")
    end_process(child, grace_s=60)  # a busy machine may take its time
    assert child.returncode == -signal.SIGTERM


def test_one_that_does_not_listen_is_killed() -> None:
    child = _started(DEAF)
    end_process(child, grace_s=0.2)
    assert child.returncode == -signal.SIGKILL


def test_one_that_ends_by_itself_gets_no_signal() -> None:
    child = _started("print('up', flush=True)")
    end_process(child, wait_s=10)
    assert child.returncode == 0


def test_what_a_child_started_ends_with_it() -> None:
    code = (
        "import subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(inner.pid, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    inner = int(child.stdout.readline())
    end_process(child, wait_s=10, group=True)
    assert child.returncode == 0
    for _ in range(100):
        if not _runs(inner):
            return
        time.sleep(0.05)
    os.kill(inner, signal.SIGKILL)
    raise AssertionError("it outlived the group's leader")


def _runs(pid: int) -> bool:
    """Whether a process is there and isn't merely waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
