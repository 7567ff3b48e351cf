"""The tables of a round that are its own: what was known, what was proposed, what was refused."""

import pyarrow as pa

from schemas.tables import Column, Table


class CatalogueRows(Table, version=2):
    """What is known of a function on a target."""

    target = Column(pa.string(), "app or site")
    function = Column(pa.string(), "what can be done there")
    needs = Column(pa.list_(pa.string()), "functions that are done first on every way known elsewhere")
    ready = Column(pa.bool_(), "verified trajectories have shown all of these here")
    executed = Column(pa.float64(), "tasks of the function, on all targets")
    verified = Column(pa.float64(), "of those, the ones that came true")
    shown = Column(pa.bool_(), "a verified trajectory has shown it here")
    names_seen = Column(pa.int32(), "names of things that were met here")
    failures = Column(pa.list_(pa.string()), "how tasks failed, in words")


class Proposals(Table, version=1):
    """Where a task of the bank came from."""

    task_id = Column(pa.string(), "the task of the bank")
    arm = Column(pa.string(), "way of proposing that made it")
    chance = Column(pa.float64(), "of success, as the catalogue estimated it")
    ideas = Column(pa.string(), "what it was made of, canonical JSON")


class Refused(Table, version=1):
    """A proposal that isn't in the bank."""

    instruction = Column(pa.string(), "what was proposed")
    target = Column(pa.string(), "app or site")
    arm = Column(pa.string(), "way of proposing that made it")
    reason = Column(pa.string(), "why it isn't in the bank")
