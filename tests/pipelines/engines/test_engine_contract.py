"""What every engine keeps to, and what worker processes survive."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import engine_parts
import pytest

from pipelines.engines.beam import flags
from pipelines.engines.engine import COLLECT_FROM, EngineError, call, name_of
from pipelines.engines.in_process import InProcess
from pipelines.engines.run_parts import ENGINES, Execution, chosen_engine, run_parts
from pipelines.engines.settings import EngineChoice, EngineSettings
from pipelines.engines.worker_processes import WorkerProcesses
from pipelines.store import Store

pytestmark = pytest.mark.slow(seconds=70)

NEEDS = {"beam": "apache_beam", "ray": "ray"}
"""Engines whose package an extra brings."""
each_engine = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name in NEEDS and find_spec(NEEDS[name]) is None, reason=f"the extra that brings {name} isn't installed"
            ),
        )
        for name in ENGINES
    ],
)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's own processes and Ray's find no more than what the environment says."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def _by(name: str, **more: object) -> Execution:
    return Execution(EngineSettings(runner=name, **more))


@each_engine
def test_what_it_runs_on_is_asked_for_beforehand(name: str) -> None:
    chosen_engine(EngineChoice(runner=name), ()).require()


def test_a_cluster_that_does_not_answer_is_told_beforehand() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    by = EngineChoice(runner="beam", options=("--runner=DaskRunner", f"--dask_client_address=tcp://{place}"))
    with pytest.raises(EngineError, match=f"no Dask scheduler answers at tcp://{place}"):
        chosen_engine(by, ()).require()


@pytest.mark.skipif(find_spec("apache_beam") is None, reason="the extra that brings beam isn't installed")
@pytest.mark.parametrize("name", ["Flink", "Spark", "Dataflow"])
def test_flags_of_clusters_that_are_not_here_are_those_that_beam_knows(name: str) -> None:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import create_runner

    page = (Path(__file__).parents[3] / "docs" / "production.md").read_text(encoding="utf-8")
    [said] = re.findall(rf"^\| {name} \| `(.+)` \|$", page, re.MULTILINE)
    known = PipelineOptions(flags(said.split(), None)).get_all_options(drop_default=True)
    assert {f"--{key}={value}" for key, value in known.items()} == set(said.split())
    assert type(create_runner(known["runner"])).__name__ == f"{name}Runner"


def test_a_flag_that_beam_does_not_know_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("apache_beam")
    by = _by("beam", options=("--flink_mastr=10.0.0.5:8081",))
    run_parts(Store(tmp_path), engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 1), by)
    assert "--flink_mastr=10.0.0.5:8081" in caplog.text


@each_engine
def test_parts_are_run_once_told_when_they_end_and_found_again_in_order(name: str, tmp_path: Path) -> None:
    store, parts = Store(tmp_path), engine_parts.parts(tmp_path, 4)
    run_parts(store, engine_parts.ASSET, engine_parts.write, parts[1:2])
    told: list[dict[str, object]] = []
    by = Execution(EngineSettings(runner=name, workers=2), lambda event: told.append(dict(event)))
    results = run_parts(store, engine_parts.ASSET, engine_parts.write, parts, by)
    assert [(event["kind"], event["number"], event["of"]) for event in told] == [("part", n, 3) for n in (1, 2, 3)]
    assert sorted(str(event["part"]) for event in told) == ["n0", "n2", "n3"]
    assert told[-1]["left_s"] == 0 and all(float(str(event["rows_per_s"])) > 0 for event in told)
    assert [result.counts["sum"] for result in results] == [0, 1, 2, 3]
    assert [result.skipped for result in results] == [False, True, False, False]
    again = run_parts(store, engine_parts.ASSET, engine_parts.write, parts, _by(name))
    assert all(result.skipped for result in again)
    assert [len(engine_parts.begun(tmp_path, number)) for number in range(4)] == [1, 1, 1, 1]


@each_engine
def test_the_first_error_is_raised_and_finished_parts_stay(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_parts(store, engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 1))
    with pytest.raises(Exception, match="part 1 is bad"):
        run_parts(store, engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 2, n1="fail"), _by(name))
    # What stays is in the store: it needs no second start of an engine to be found.
    results = run_parts(store, engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 2))
    assert [result.skipped for result in results] == [True, False]


@each_engine
def test_a_part_that_nobody_here_can_see_is_an_error(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    parts = engine_parts.parts(tmp_path / "home", 2)
    with pytest.raises(EngineError, match=f"part n0 was run, but .* wrote to {tmp_path / 'home'} .* one home"):
        run_parts(store, engine_parts.ASSET, engine_parts.write_elsewhere, parts, _by(name))
    assert len(engine_parts.begun(tmp_path / "home-of-another-machine", 0)) == 1


def test_a_function_that_no_worker_can_import_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a function at the top of a module"):
        name_of(lambda item: None)
    assert name_of(engine_parts.write) == "engine_parts:write"


def test_cycles_are_seldom_looked_for_within_a_part_alone() -> None:
    usual, seen = gc.get_threshold(), list[int]()
    call("engine_parts:note_collecting", seen)
    with pytest.raises(AttributeError):
        call("engine_parts:note_collecting", None)
    assert seen == [COLLECT_FROM] and gc.get_threshold() == usual


def test_auto_starts_workers_where_they_pay(tmp_path: Path) -> None:
    parts = engine_parts.parts(tmp_path, 8)  # of a second each
    two = EngineChoice(workers=2)
    assert isinstance(chosen_engine(two, parts), WorkerProcesses)
    assert isinstance(chosen_engine(two, parts[:1]), InProcess)
    assert isinstance(chosen_engine(two, parts[:3]), InProcess)
    assert isinstance(chosen_engine(EngineChoice(workers=1), parts), InProcess)
    # Workers that load an encoder first have more to win back.
    assert isinstance(chosen_engine(two, parts, start_s=60.0), InProcess)
    with pytest.raises(ValueError, match="engine: expected one of in-process, processes, beam.* did you mean beam"):
        chosen_engine(EngineChoice(runner="beam2"), parts)
    with pytest.raises(ValueError, match="engine ray: expected --address=HOST:PORT, found 'auto'"):
        chosen_engine(EngineChoice(runner="ray", options=("auto",)), parts)
    with pytest.raises(ValueError, match="engine beam: expected flags"):
        chosen_engine(EngineChoice(runner="beam", options=("DaskRunner",)), parts)


# --- worker processes -------------------------------------------------------------------------------------------------
def test_a_killed_worker_s_part_is_begun_once_more(tmp_path: Path) -> None:
    store, by = Store(tmp_path), _by("processes", workers=2)
    results = run_parts(
        store, engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 3, n1="die once"), by
    )
    assert [result.counts["sum"] for result in results] == [0, 1, 2]
    assert [len(engine_parts.begun(tmp_path, number)) for number in range(3)] == [1, 2, 1]


def test_a_part_whose_worker_dies_twice_is_an_error(tmp_path: Path) -> None:
    store, by = Store(tmp_path), _by("processes", workers=2)
    with pytest.raises(EngineError, match=r"part 2 of 3: its worker process ended 2 times .*exit code -9.*--workers"):
        run_parts(store, engine_parts.ASSET, engine_parts.write, engine_parts.parts(tmp_path, 3, n1="die"), by)
    assert len(engine_parts.begun(tmp_path, 1)) == 2


def test_parts_under_way_end_before_an_error_is_raised(tmp_path: Path) -> None:
    store, by = Store(tmp_path), _by("processes", workers=2)
    parts = engine_parts.parts(tmp_path, 4, n0="fail", n1="sleep")
    with pytest.raises(ValueError, match="part 0 is bad") as raised:
        run_parts(store, engine_parts.ASSET, engine_parts.write, parts, by)
    assert "engine_parts.py" in raised.value.__notes__[0]
    skipped = [r.skipped for r in run_parts(store, engine_parts.ASSET, engine_parts.write, parts[1:2], by)]
    assert skipped == [True] and not engine_parts.begun(tmp_path, 2) and not engine_parts.begun(tmp_path, 3)


def test_an_error_that_can_t_be_pickled_is_told_in_words(tmp_path: Path) -> None:
    parts = engine_parts.parts(tmp_path, 2, n1="fail oddly")
    with pytest.raises(RuntimeError, match="OddError: odd part 1"):
        run_parts(Store(tmp_path), engine_parts.ASSET, engine_parts.write, parts, _by("processes"))


def test_workers_are_processes_of_one_thread_that_work_side_by_side(tmp_path: Path) -> None:
    parts = engine_parts.parts(tmp_path, 2, n0="sleep", n1="sleep")
    run_parts(Store(tmp_path), engine_parts.ASSET, engine_parts.write, parts, _by("processes", workers=2))
    begun = [engine_parts.begun(tmp_path, number)[0].split() for number in (0, 1)]
    assert {threads for _, threads in begun} == {"1"}
    assert len({process for process, _ in begun} | {str(os.getpid())}) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, number: signal.Signals) -> None:
    with engine_parts.running(tmp_path, "processes") as parent:
        parent.send_signal(number)
    workers = [int(engine_parts.begun(tmp_path, place)[0].split()[0]) for place in (0, 1)]
    assert engine_parts.becomes(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
