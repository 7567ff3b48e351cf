"""What earlier rounds verified, shown to the policy of the next: in-context examples for who acts, as the catalogue's
examples are for who proposes."""

from generators.generation.feedback import known_before
from generators.generation.records import read_lines
from generators.generation.round_names import TRAJECTORIES
from generators.policies.demonstrations import DemonstrationMemory
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import with_demonstrations
from pipelines.store import Store
from schemas.tables import Trajectories


def memory_before(store: Store, number: int, *, feedback: bool = True) -> DemonstrationMemory:
    """The verified trajectories of the promoted rounds before round `number`; empty before the second. `feedback`: see
    `known_before`."""
    # Promoted rounds only, by the versions they pinned, so that a round run again is shown the same examples.
    memory = DemonstrationMemory()
    for name, verified in known_before(store, number, feedback=feedback).items():
        runs = store.version(f"{TRAJECTORIES}/{name}", verified.inputs[f"{TRAJECTORIES}/{name}"])
        rows = verified.read("trajectories", Trajectories.schema).to_pylist()
        good = {row["trajectory_id"] for row in rows if row["verified"]}
        for done in read_lines(runs.file("trajectories.jsonl")):
            if done.trajectory_id in good:
                memory.add(done)
    return memory


def shown(policies: PolicyMaker, store: Store, number: int, k: int, *, feedback: bool = True) -> PolicyMaker:
    """The policies, each shown the `k` nearest of what was verified before round `number`; as they are for k = 0."""
    # At k = 0 the policy isn't wrapped at all and keeps its name in hashes.
    return with_demonstrations(policies, memory_before(store, number, feedback=feedback), k) if k else policies
