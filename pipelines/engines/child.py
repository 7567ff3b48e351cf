"""A child process: a fresh interpreter of this environment that talks with this process over a socket."""

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Environment variables of numeric libraries that say in how many threads they compute."""

Line: TypeAlias = "Connection[Any, Any]"


def start_child(module: str, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], Line]:
    """Start `python -m MODULE PARENT FD`, which finds what this process can import; `environment` goes over ours.
    PARENT is this process' id, FD the child's end of the socket whose other end is returned."""
    # A socket pair needs no name in the file system and no port: nobody else can connect.
    ours, theirs = socket.socketpair()
    # An empty entry of sys.path means the folder that this process stands in; a child may stand elsewhere.
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with theirs:
        process = subprocess.Popen(
            # -P: the current folder isn't put first, where a file of the user's could stand for a module of
            # ours.
            [sys.executable, "-P", "-m", module, str(os.getpid()), str(theirs.fileno())],
            env={**os.environ, **environment, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return process, Connection(ours.detach())


def pickled_error(error: Exception, note: str) -> bytes:
    """An error, pickled, with a note; one whose class can't be made from its arguments is told in words."""
    try:
        error.add_note(note)
        found = pickle.dumps(error)
        # Some pickle well and can't be read again; the reader would see a broken socket instead of the error.
        pickle.loads(found)
    except Exception:
        words = RuntimeError(f"{type(error).__name__}: {error}")
        words.add_note(note)
        return pickle.dumps(words)
    return found
