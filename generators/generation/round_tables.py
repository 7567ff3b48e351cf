"""The tables of a round that are its own: what was known, what was proposed, what was refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from generators.generation.proposing.proposers import Proposal
from generators.generation.task_worlds.task_world import Idea
from generators.tasks.task_spec import TaskSpec
from pipelines.store.manifest import Manifest
from schemas.tables import Column, Table, Tasks

if TYPE_CHECKING:
    from generators.generation.proposing.proposers import Proposal


class CatalogueRows(Table, version=1):
    """What is known of a function on a target."""

    target = Column(pa.string(), "app or site")
    function = Column(pa.string(), "what can be done there")
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


def read_proposals(bank: Manifest) -> list[Proposal]:
    """The proposals of a round's bank."""
    rows = {row["task_id"]: row for row in bank.read("proposals", Proposals.schema).to_pylist()}
    found = []
    for task in bank.read("tasks", Tasks.schema).to_pylist():
        row = rows[task["task_id"]]
        ideas = tuple(Idea(**idea) for idea in json.loads(row["ideas"]))
        found.append(Proposal(TaskSpec.from_row(task), row["arm"], ideas, row["chance"]))
    return found
