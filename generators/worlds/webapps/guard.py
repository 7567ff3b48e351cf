"""Runs a command and ends it when standard input ends: `python -m …guard COMMAND…`. For a server that wouldn't notice
that the process which started it is gone."""

import subprocess
import sys
import threading

from pipelines.processes import end_process

END_S = 3.0


def main(command: list[str]) -> int:
    """Exit code of the command."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end() -> None:
        # Reads until the parent's end closes; what is sent is of no interest.
        while sys.stdin.buffer.read(1):
            pass
        end_process(child, grace_s=END_S)

    threading.Thread(target=end, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
