"""Rounds are promoted and collected however they were made; what comes back or failed is asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.automation import feedback, requested_runs
from dagster_project.settings import deployment
from generators.generation.feedback import promote, promoted
from pipelines.store import Check, PartSpec, Store

JOBS = ["collect_rounds", "promote_verified"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    return Store(tmp_path)


class House:
    """The shipped sensor `after_round` beside a run history, and a clock that is set by hand."""

    def __init__(self, store: Store, history: dg.DagsterInstance) -> None:
        self.loaded = definitions.build(deployment.load())
        self.history, self.store = history, store
        self.sensor = self.loaded.resolve_sensor_def("after_round")
        self.cursor: str | None = None
        self.reason = ""

    def tick(self) -> dict[str, str]:
        """Job → run key of what a tick asks for."""
        resources = {"store": definitions.StoreResource(home=str(self.store.home))}
        with dg.build_sensor_context(instance=self.history, cursor=self.cursor, resources=resources) as context:
            found = self.sensor.evaluate_tick(context)
        self.cursor, self.reason = found.cursor, found.skip_message or ""
        return {str(request.job_name): str(request.run_key) for request in found.run_requests or []}

    def run(self, job: str) -> bool:
        """Make a run of a job."""
        made = self.loaded.resolve_job_def(job).execute_in_process(instance=self.history, raise_on_error=False)
        return made.success

    def open(self, job: str) -> str:
        """A run of a job that is at work."""
        made = self.history.create_run_for_job(self.loaded.resolve_job_def(job), status=dg.DagsterRunStatus.STARTED)
        return made.run_id


@pytest.fixture
def house(store: Store) -> Iterator[House]:
    with dg.DagsterInstance.ephemeral() as history:
        yield House(store, history)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds since 1970, for the sensors; move on by changing the only item."""
    now = [1_000_000.0]
    monkeypatch.setattr(feedback, "time", SimpleNamespace(time=lambda: now[0]))
    return now


def _commit(store: Store, asset: str, said: str, inputs: Mapping[str, str] | None = None) -> str:
    spec = PartSpec("a", said)
    with store.build(asset, code_version="1", inputs=dict(inputs or {}), parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", said.encode()))
        return build.commit(checks=[Check("there", True, "1", "1")]).version


def _round(store: Store, number: int, said: str) -> None:
    """A round's verdicts, as a backfill or `vesper generate` leaves them: no run of the job generate_round."""
    _commit(store, f"generation/verified/round_{number:03d}", said)


def _collect(store: Store) -> None:
    names = sorted(path.name for path in store.root("generation/verified").iterdir())
    inputs = {f"generation/verified/{name}": store.require(f"generation/verified/{name}").version for name in names}
    for asset in ("gold/generated", "task_pool/generated"):
        _commit(store, asset, ",".join(inputs.values()), inputs)


def test_a_round_that_no_run_of_the_job_made_is_promoted_and_collected_once(house: House, store: Store) -> None:
    assert house.sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert house.tick() == {}
    _round(store, 1, "a")
    first = house.tick()
    assert sorted(first) == JOBS and house.tick() == {}, "once"
    assert house.run("promote_verified") and list(promoted(store)["rounds"]) == ["round_001"]
    _collect(store)
    assert house.tick() == {} and "nothing new" in house.reason
    _round(store, 2, "b")
    second = house.tick()
    assert sorted(second) == JOBS and not set(first.values()) & set(second.values())


def test_a_round_that_was_repaired_is_promoted_anew(house: House, store: Store) -> None:
    _round(store, 1, "a")
    house.tick()
    house.run("promote_verified")
    _collect(store)
    before = promoted(store)["digest"]
    assert house.tick() == {}
    _round(store, 1, "repaired")
    assert sorted(house.tick()) == JOBS
    house.run("promote_verified")
    assert promoted(store)["digest"] != before


def test_a_round_that_was_promoted_by_hand_is_still_collected(house: House, store: Store) -> None:
    _round(store, 1, "a")
    promote(store)
    assert list(house.tick()) == ["collect_rounds"]


def test_a_state_that_comes_back_is_asked_for_again(house: House, store: Store) -> None:
    keys = []
    for said in ("x", "y", "x", "y"):
        _round(store, 1, said)
        keys.append(house.tick()["promote_verified"])
        assert house.run("promote_verified")
        _collect(store)
        house.tick()
    assert len(set(keys)) == 4, "Dagster starts one run a key"
    assert keys[1].rpartition("-")[0] == keys[3].rpartition("-")[0], "the same event"


def test_a_run_that_failed_is_asked_for_again_later_and_not_for_ever(
    house: House, store: Store, clock: list[float]
) -> None:
    _round(store, 1, "a")
    keys = [house.tick()["collect_rounds"]]
    for _ in range(requested_runs.TRIES - 1):
        assert not house.run("collect_rounds"), "these rounds hold no trajectories"
        clock[0] += requested_runs.AGAIN_S - 60
        assert "collect_rounds" not in house.tick()
        clock[0] += 120
        keys.append(house.tick()["collect_rounds"])
    assert len(set(keys)) == requested_runs.TRIES
    clock[0] += 10 * requested_runs.AGAIN_S
    assert house.tick() == {} and f"asked for {requested_runs.TRIES} times in vain" in house.reason
    _round(store, 1, "b")
    assert sorted(house.tick()) == JOBS, "something else is new"


def test_nothing_is_asked_for_while_a_run_of_the_job_is_at_work(house: House, store: Store) -> None:
    at_work = house.open("promote_verified")
    _round(store, 1, "a")
    assert list(house.tick()) == ["collect_rounds"]
    house.history.report_run_failed(house.history.get_run_by_id(at_work))  # type: ignore[arg-type]
    assert list(house.tick()) == ["promote_verified"]


def test_a_tick_whose_cursor_was_lost_asks_by_the_same_keys(house: House, store: Store, clock: list[float]) -> None:
    _round(store, 1, "a")
    asked_for = house.tick()
    house.cursor, clock[0] = None, clock[0] + 3  # the daemon died before it kept the cursor
    assert house.tick() == asked_for


def test_the_cursor_of_a_sensor_that_watched_runs_is_passed_over(house: House, store: Store) -> None:
    _round(store, 1, "a")
    house.cursor = '{"__class__": "RunStatusSensorCursor", "record_id": 3, "update_timestamp": null}'
    assert sorted(house.tick()) == JOBS
    for written in ("not JSON", "[1]", "abc def"):
        assert requested_runs.read_cursor(written) == {}


def test_the_next_round_is_the_first_without_verdicts(
    store: Store, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deployment.yaml").write_text("generation: {rounds: 3}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "deployment.yaml"))
    sensor = next(sensor for sensor in house.loaded.sensors or [] if sensor.name == "next_round")

    def asked_for() -> str:
        resources = {"store": definitions.StoreResource(home=str(store.home))}
        with dg.build_sensor_context(instance=house.history, resources=resources) as context:
            found = sensor(context)
        if isinstance(found, dg.SensorResult):
            return ", ".join(str(request.partition_key) for request in found.run_requests or [])
        return str(found.skip_message)

    assert asked_for() == "round_001"
    _round(store, 1, "a")
    _round(store, 3, "c")  # a backfill made it, and round 2 failed
    assert "round_001 is verified and not promoted yet" in asked_for()
    promote(store)
    assert asked_for() == "round_002"
    _round(store, 2, "b")
    assert asked_for() == "3 rounds are made, 3 are wanted (generation.rounds)"
