"""The engine `processes`: worker processes on this machine, each a fresh interpreter that runs one part at a time.

Nothing is forked, so neither threads nor open files are inherited, and a script needs no `__main__` guard. A worker
whose process is killed (out of memory) loses its part only, which is begun once more. Workers end with this process,
also where that is killed with -9. Their numeric libraries compute with one thread each.
"""

import pickle
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait

from pipelines.engines.child import THREADS, Line, start_child
from pipelines.engines.cores import usable_cores
from pipelines.engines.engine import EngineError
from pipelines.engines.settings import EngineChoice
from pipelines.processes import end_process

BEGUN = 2
"""Times that a part is begun whose worker was killed."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    line: Line
    place: int | None = None
    """The call that is under way."""


class WorkerProcesses:
    """See the module."""

    def __init__(self, choice: EngineChoice) -> None:
        self._most = choice.workers or usable_cores()

    def require(self) -> None:
        """See `PartsEngine`: this machine is all that it needs."""

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        """See `PartsEngine`. Raises `EngineError` for a part whose worker was killed twice."""
        calls = _Calls([pickle.dumps((function, argument)) for argument in arguments], ended)
        workers = [_start() for _ in range(min(self._most, len(arguments)))]
        try:
            # `give` is called for each, so that all idle workers get a part before anybody is waited for.
            while busy := [one for one in workers if calls.give(one)]:
                for line in wait([one.line for one in busy]):
                    worker = next(one for one in busy if one.line is line)
                    if not calls.take(worker):
                        workers[workers.index(worker)] = _start()
        except BaseException:
            # Ctrl-C or a fault of ours: what a worker does now has no receipt yet, so it may be ended at any
            # point.
            for one in workers:
                one.process.kill()
            raise
        finally:
            for one in workers:
                one.line.close()  # which ends a worker
                end_process(one.process, wait_s=5)
        if calls.error is not None:
            raise calls.error


class _Calls:
    """Which calls wait, and what became of the others."""

    def __init__(self, calls: Sequence[bytes], ended: Callable[[int], None]) -> None:
        self._calls, self._ended = calls, ended
        self._waiting = deque(range(len(calls)))
        self._killed: Counter[int] = Counter()
        self.error: BaseException | None = None

    def give(self, worker: _Worker) -> bool:
        """Give an idle worker the next call, unless one failed; whether it is busy then."""
        if worker.place is None and self._waiting and self.error is None:
            worker.place = self._waiting.popleft()
            try:
                worker.line.send_bytes(self._calls[worker.place])
            except OSError:  # it has died; `take` finds that out
                pass
        return worker.place is not None

    def take(self, worker: _Worker) -> bool:
        """Take a worker's answer; false if it was killed meanwhile."""
        place, worker.place = worker.place, None
        assert place is not None
        try:
            error = pickle.loads(worker.line.recv_bytes())
        except (EOFError, OSError):
            self._was_killed(place, worker)
            return False
        if error is None:
            self._ended(place)
        # The first error is the one raised: later ones are mostly its consequences.
        self.error = self.error or error
        return True

    def _was_killed(self, place: int, worker: _Worker) -> None:
        worker.line.close()
        end_process(worker.process, wait_s=5)
        self._killed[place] += 1
        if self._killed[place] < BEGUN:
            # At the front: it was begun in its turn, and whoever waits for it has waited longest.
            self._waiting.appendleft(place)
            return
        code = worker.process.returncode
        self.error = self.error or EngineError(
            f"part {place + 1} of {len(self._calls)}: its worker process ended {BEGUN} times before the part did "
            f"(exit code {code}); if memory ran out, fewer workers need less (--workers, engine.workers)"
        )


def _start() -> _Worker:
    return _Worker(*start_child("pipelines.engines.worker", dict.fromkeys(THREADS, "1")))
