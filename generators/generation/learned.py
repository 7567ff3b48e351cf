"""What earlier rounds teach a later one: which functions their tasks tried, and how that went."""

import json
from collections.abc import Sequence

from generators.generation.proposing.catalogue import Catalogue, TaskOutcome
from generators.generation.proposing.proposers import Proposal
from generators.generation.records import read_lines
from generators.generation.round_names import BANK, TRAJECTORIES
from generators.generation.round_tables import Proposals
from generators.generation.task_worlds.task_world import Idea
from generators.tasks.task_spec import TaskSpec
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from schemas.tables import Tasks, Trajectories


def read_proposals(bank: Manifest) -> list[Proposal]:
    """The proposals of a round's bank."""
    rows = {row["task_id"]: row for row in bank.read("proposals", Proposals.schema).to_pylist()}
    found = []
    for task in bank.read("tasks", Tasks.schema).to_pylist():
        row = rows[task["task_id"]]
        ideas = tuple(Idea(**idea) for idea in json.loads(row["ideas"]))
        found.append(Proposal(TaskSpec.from_row(task), row["arm"], ideas, row["chance"]))
    return found


def learned(store: Store, rounds: Sequence[Manifest]) -> Catalogue:
    """What rounds teach, by their `generation/verified` in the order of their numbers."""
    catalogue = Catalogue()
    for verified in rounds:
        name = verified.asset.rpartition("/")[2]
        # Versions pinned in the verified round: a bank that was built again since would tell of other tasks.
        bank = store.version(f"{BANK}/{name}", verified.inputs[f"{BANK}/{name}"])
        runs = store.version(f"{TRAJECTORIES}/{name}", verified.inputs[f"{TRAJECTORIES}/{name}"])
        proposals = {p.contract.task_id: p for p in read_proposals(bank)}
        trajectories = read_lines(runs.file("trajectories.jsonl"))
        verdicts = {row["trajectory_id"]: row for row in verified.read("trajectories", Trajectories.schema).to_pylist()}
        # before `learn`: whether an idea had support is judged by what was seen up to its own round
        catalogue.see(trajectories)
        outcomes = []
        for done in trajectories:
            row, proposal = verdicts[done.trajectory_id], proposals[done.contract.task_id]
            # What never ran well isn't evidence for or against an idea.
            if row["failure_kind"] == "infrastructure":
                continue  # it says nothing of the task
            # An agent that asked says itself what stopped it, which is more
            # than the verifier's "it didn't finish".
            reason = done.answer if done.ended == "asked" and not row["verified"] else row["reason"]
            outcomes.append(TaskOutcome(done.contract.target, proposal.ideas, proposal.arm, row["verified"], reason))
            if row["verified"]:
                catalogue.examples.append((done.contract.target, done.contract.instruction, len(done.actions)))
        catalogue.learn(outcomes)
    return catalogue
