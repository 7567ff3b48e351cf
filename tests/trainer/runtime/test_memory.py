"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainer.runtime import memory

PROBE = """
import sys
from trainer.runtime.memory import give_back
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
held = [bytearray(b"x" * 60_000) for _ in range(4000)]  # below the size that glibc maps apart
pins = [bytearray(b"y" * 60_000) for _ in range(1)]  # what lies above them keeps the heap from shrinking by itself
full = resident()
del held
kept = resident()
give_back()
print(full, kept, resident())
"""


@pytest.mark.skipif(memory._trim() is None, reason="glibc's malloc_trim isn't here")
def test_what_was_freed_below_something_that_is_in_use_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=120)
    full, kept, after = map(int, done.stdout.split())
    assert kept > full - 100e6, "glibc keeps it by itself: else this shows nothing"
    assert after < full - 200e6


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    memory.give_back()
