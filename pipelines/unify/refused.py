"""How many native items go with a record that is refused whole."""

from pipelines.mapping.adapter import Adapter, Raw, Record
from pipelines.mapping.record_error import SourceError

MOST_ITEMS = 100_000
"""Items that one refused record counts at most."""
CAUSED_BY_NO_RECORD = (AssertionError, ImportError, MemoryError, NameError, SourceError)
"""A fault of the code or of the machine ends the part."""


def bounded(items: int) -> int:
    """Items of one refused record: of more than any record of a dataset holds, only that many are counted. Else one
    damaged or forged number would hide the whole source."""
    return min(max(items, 0), MOST_ITEMS)


def refused_items(adapter: Adapter, record: Record, raw: Raw, stated: int | None) -> int:
    """Native items of a record that was refused: those that the error states, else what the record and the files beside
    it hold, else what its shape says, and 1 where that is so odd that the adapter can't count them."""
    if stated is not None:
        return bounded(stated)
    # The adapter may look into files beside the record; where that fails too, it counts by shape alone.
    for count in (lambda: adapter.items_held(record, raw), lambda: adapter.count_items(record)):
        try:
            return bounded(count())
        except CAUSED_BY_NO_RECORD:
            raise
        except Exception:  # what made the record unfit to be mapped may make it unfit to be counted
            continue
    return 1
