"""A backfill of rounds, as somebody launches it in the UI: partitions of the generation loop, by the daemon's runs."""

from collections.abc import Sequence

from bench.nights_house import WHERE, House
from dagster_project.stages.generation import ROUND_STAGES
from pipelines.store import Store

LIMIT_S = 900.0
ADD = """mutation($where: RepositorySelector!, $name: String!) {
  addDynamicPartition(repositorySelector: $where, partitionsDefName: "round", partitionKey: $name) {
    __typename ... on PythonError { message }
  }
}"""
LAUNCH = """mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
STATUS = """query($id: String!) {
  partitionBackfillOrError(backfillId: $id) { __typename ... on PartitionBackfill { status } }
}"""


def backfill(house: House, rounds: Sequence[str], kill: str = "") -> list[str]:
    """Make all stages of some rounds by one backfill; what went wrong, nothing if it went well.

    The server `kill` gets `kill -9` while the first of its runs is at work. Raises `SystemExit` if the backfill doesn't
    end in time.
    """
    for name in rounds:
        house.wait(lambda name=name: house.ask(ADD, where=WHERE, name=name), LIMIT_S, f"the partition {name}")  # type: ignore[misc]
    assets = [{"path": key.split("/")} for key in ROUND_STAGES]
    said = house.ask(LAUNCH, params={"assetSelection": assets, "partitionNames": list(rounds)})
    launched = said["launchPartitionBackfill"]
    if "backfillId" not in launched:
        return [f"backfill of {', '.join(rounds)}: expected it to be launched, found {launched}"]
    left = [kill] if kill else []

    def each() -> None:
        if left and any(run["tags"].get("dagster/backfill") == launched["backfillId"] for run in house.at_work()):
            house.kill(left.pop(), 2)

    def ended() -> str:
        status = str(house.ask(STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"])
        return status if status.startswith(("COMPLETED", "FAILED", "CANCELED")) else ""

    status = house.wait(ended, LIMIT_S, f"the backfill of {', '.join(rounds)}", each)
    faults = [] if status == "COMPLETED_SUCCESS" else [f"backfill of {', '.join(rounds)}: ended as {status}"]
    if left:
        faults.append(f"backfill of {', '.join(rounds)}: ended before the {kill} could be killed")
    return faults


def made(store: Store, rounds: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Version of each stage of each round that is there, and when its manifest was written (ns)."""
    found = {f"{key}/{name}": store.current(f"{key}/{name}") for key in ROUND_STAGES for name in rounds}
    return {
        asset: (manifest.version, (manifest.directory / "manifest.json").stat().st_mtime_ns)
        for asset, manifest in found.items()
        if manifest is not None
    }
