"""The tables of a round that are its own: what was known, what was proposed, what was refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from generators.generation.grounds.ground import Idea
from generators.generation.tasks.contract import Contract
from generators.generation.tasks.proposers import Proposal
from pipelines.storage.manifest import Manifest
from schemas.ids import canonical_json
from schemas.tables import Column, Table, Tasks


class CatalogueRows(Table):
    """What is known of a function on a target."""

    version = 1
    target = Column(pa.string())
    function = Column(pa.string())
    executed = Column(pa.float64())  # tasks of the function, on all targets
    verified = Column(pa.float64())
    shown = Column(pa.bool_())  # a verified trajectory has shown it here
    names_seen = Column(pa.int32())
    failures = Column(pa.list_(pa.string()))


class Proposals(Table):
    """Where a task of the bank came from."""

    version = 1
    task_id = Column(pa.string())
    arm = Column(pa.string())
    chance = Column(pa.float64())  # as the catalogue estimated it
    ideas = Column(pa.string())  # canonical JSON


class Refused(Table):
    """A proposal that isn't in the bank."""

    version = 1
    instruction = Column(pa.string())
    target = Column(pa.string())
    arm = Column(pa.string())
    reason = Column(pa.string())


def proposal_row(proposal: Proposal) -> dict[str, Any]:
    """A row of `Proposals`."""
    return {
        "task_id": proposal.contract.task_id, "arm": proposal.arm, "chance": round(proposal.chance, 6),
        "ideas": canonical_json([asdict(idea) for idea in proposal.ideas]),
    }  # fmt: skip


def read_proposals(bank: Manifest) -> list[Proposal]:
    """The proposals of a round's bank."""
    rows = {row["task_id"]: row for row in bank.read("proposals", Proposals.schema).to_pylist()}
    found = []
    for task in bank.read("tasks", Tasks.schema).to_pylist():
        row = rows[task["task_id"]]
        ideas = tuple(Idea(**idea) for idea in json.loads(row["ideas"]))
        found.append(Proposal(Contract.from_row(task), row["arm"], ideas, row["chance"]))
    return found
