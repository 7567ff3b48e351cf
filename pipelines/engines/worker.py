"""A worker process: `python -m pipelines.engines.worker PARENT FD` runs the calls that come over a socket."""

import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from pipelines.engines.child import pickled_error
from pipelines.engines.cores import share_cores
from pipelines.engines.engine import call
from pipelines.processes import die_with_parent


def main() -> None:
    """Answer each call with None, or with its error, until nobody asks any more."""
    parent, channel = map(int, sys.argv[1:])
    # Without it a parent killed by -9 would leave its workers computing for nobody.
    die_with_parent(parent)
    share_cores()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent says what follows
    with Connection(channel) as line:
        while True:
            try:
                asked = line.recv_bytes()
            except EOFError:
                return
            line.send_bytes(answer(asked))


def answer(asked: bytes) -> bytes:
    """Run a call; None or its error, pickled, with where it arose as a note."""
    try:
        call(*pickle.loads(asked))
    except Exception as error:
        return pickled_error(error, f"in a worker process:\n{traceback.format_exc()}")
    return pickle.dumps(None)


def answer_apart(asked: bytes) -> bytes:
    """As `answer`, in a worker of a cluster, whose processes have the other cores."""
    share_cores()
    return answer(asked)


if __name__ == "__main__":
    main()
