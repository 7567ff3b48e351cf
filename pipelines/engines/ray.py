"""The engine `ray`: a part is a task of Ray that asks for `cpus` and `gpus`.

With the option `--address=HOST:PORT` tasks go to that cluster, else to a Ray that is started here, reached by loopback
only, and stopped afterwards. Ray's driver is a child process (`pipelines.engines.ray_driver`), as Ray takes over the
signals and the environment of the process that connects to it; it ends with this one, also where that is killed.
"""

import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.engines.child import Line, start_child
from pipelines.engines.engine import EngineError, connect_to
from pipelines.engines.settings import EngineChoice
from pipelines.extras import require
from pipelines.processes import end_process

ADDRESS = "--address="
LONGEST_FOLDER = 40
"""Characters of a folder for the sockets of Ray, which adds some 60; the system allows 107."""


@dataclass(frozen=True)
class RayJob:
    """What the driver is told. `folder`: for the files of a Ray of our own, where `address` is none."""

    address: str | None
    folder: str
    workers: int | None
    cpus: float
    gpus: float
    calls: tuple[bytes, ...]
    """Pickled pairs of a function's name and its argument."""


class Ray:
    """See the module. Raises `ValueError` for an option that it doesn't know."""

    def __init__(self, choice: EngineChoice) -> None:
        self._choice, self._address = choice, address_of(choice.options)

    def require(self) -> None:
        """See `PartsEngine`; Ray itself would try for a minute."""
        require("ray")
        if self._address is None:
            return
        try:
            connect_to(self._address)
        except (OSError, ValueError) as error:
            raise EngineError(f"engine ray: no cluster answers at {self._address:.120} ({str(error)[:120]})") from error

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        """See `PartsEngine`. Raises what `require` does, `EngineError` for a cluster that has no node with what a part
        asks for, and for a part whose worker was killed twice."""
        self.require()
        # Pickled here, so that an argument that can't be is an error of the caller, not of Ray's driver.
        calls = tuple(pickle.dumps((function, argument)) for argument in arguments)
        folder = _short_folder()
        choice = self._choice
        try:
            _drive(RayJob(self._address, folder, choice.workers, choice.cpus, choice.gpus, calls), ended)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def address_of(options: Sequence[str]) -> str | None:
    """The cluster that the options name."""
    if wrong := [option for option in options if not re.fullmatch(rf"{ADDRESS}[^/]+:\d+", option)]:
        raise ValueError(f"engine ray: expected --address=HOST:PORT, found {wrong[0][:80]!r}")
    return options[-1].removeprefix(ADDRESS) if options else None


def _short_folder() -> str:
    usual = tempfile.gettempdir()
    # Paths of sockets may have 107 bytes; some systems' folder for temporary files takes most of that.
    return tempfile.mkdtemp(prefix="ray-", dir=usual if len(usual) < LONGEST_FOLDER - len("/ray-12345678") else "/tmp")


def _drive(job: RayJob, ended: Callable[[int], None]) -> None:
    process, line = start_child("pipelines.engines.ray_driver", {})
    try:
        with line:
            line.send_bytes(pickle.dumps(job))
            _listen(line, ended)
    except (EOFError, OSError) as error:
        # The child's own error came over the line; a line that breaks means that it died without a word.
        raise EngineError("engine ray: the process that drives Ray has ended; what it said stands above") from error
    finally:
        end_process(process, wait_s=0, grace_s=15)  # by SIGTERM, which has it stop Ray


def _listen(line: Line, ended: Callable[[int], None]) -> None:
    """Hear of each part that has ended, by its place, until None or an error says that this was all."""
    while (report := pickle.loads(line.recv_bytes())) is not None:
        if isinstance(report, Exception):
            raise report
        ended(report)
