"""The engine `in-process`: one part after the other, here."""

from collections.abc import Callable, Sequence

from pipelines.engines.engine import call
from pipelines.engines.settings import EngineChoice


class InProcess:
    """See the module."""

    def __init__(self, choice: EngineChoice) -> None:
        pass

    def require(self) -> None:
        """See `PartsEngine`: this machine is all that it needs."""

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        """See `PartsEngine`."""
        for place, argument in enumerate(arguments):
            call(function, argument)
            ended(place)
