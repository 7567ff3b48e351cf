"""Rows of trajectories: the same bytes whatever devices did, and an episode that the project's own code reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from executing import PATIENT, Faults, FaultyWorld, fsm_contracts, path_policies, pool

from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.annotators import WorldRule
from generators.generation.tables import episode_of, trajectory_tables
from generators.generation.verify import Verifier
from pipelines.store import Store
from schemas.actions import parse
from schemas.tables import Screens, Steps, Trajectories, TrajectoryRuns


def test_rows_hold_what_was_done_and_don_t_depend_on_devices(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    made = []
    for name, faults in (("calm", Faults()), ("rough", Faults(rate=0.03, seed=3))):
        with Journal(tmp_path / name) as journal:
            devices = pool(lambda faults=faults: FaultyWorld(faults))  # type: ignore[misc]
            done = run_all(fsm_contracts(6), devices, path_policies(0.2), journal, store=store, limits=PATIENT)
        verdicts = [Verifier([WorldRule()]).verify(one) for one in done]
        made.append((done, verdicts, trajectory_tables(done, verdicts, store)))
    (done, verdicts, tables), (other, _, again) = made
    assert sum(one.resumed for one in other) > 0
    for name in ("steps", "screens", "trajectories"):
        assert tables[name].equals(again[name])
    for kind, name in (
        (Steps, "steps"),
        (Screens, "screens"),
        (Trajectories, "trajectories"),
        (TrajectoryRuns, "trajectory_runs"),
    ):
        kind.check(tables[name])  # type: ignore[attr-defined]
    rows = tables["steps"].to_pylist()
    for one, verdict in zip(done, verdicts, strict=True):
        mine = [row for row in rows if row["episode_id"] == one.trajectory_id]
        assert [row["step_index"] for row in mine] == list(range(len(mine)))
        assert tuple(parse(row["action_text"]) for row in mine if row["action_text"]) == one.actions
        assert {row["episode_outcome"] for row in mine} == {"success" if verdict.verified else "failure"}
        episode = episode_of(one, store)
        assert episode is not None and [step.action for step in episode.actions] == list(one.actions)
        assert all(step.screen is not None and step.screen.elements for step in episode.steps)
    shown = set(tables["screens"]["screenshot_sha256"].to_pylist())
    assert {row["screenshot_sha256"] for row in rows} <= shown
    runs = tables["trajectory_runs"].to_pylist()
    assert [len(row["act_s"]) for row in runs] == tables["trajectories"]["turns"].to_pylist()
    with pytest.raises(ValueError, match="expected the verdict of"):
        trajectory_tables(done, verdicts[::-1], store)


def test_what_did_nothing_is_no_step_and_the_last_screen_is_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    with Journal(tmp_path) as journal:
        [done] = run_all(fsm_contracts(1)[:1], pool(), path_policies(), journal, store=store)
    odd = replace(done.turns[0], action=None)
    refused = replace(done.turns[1], error="no such action")
    cut = replace(done, turns=(done.turns[0], odd, refused, done.turns[1]), ended="steps")
    verdict = Verifier([WorldRule()]).verify(cut)
    rows = trajectory_tables([cut], [verdict], store)["steps"].to_pylist()
    assert [row["action_type"] for row in rows] == [
        type(done.turns[0].action).__name__,
        type(done.turns[1].action).__name__,
        None,
    ]
    assert ['"turn":0' in rows[0]["provenance"], '"turn":3' in rows[1]["provenance"]] == [True, True]
    assert done.end is not None and rows[-1]["screenshot_sha256"] == done.end.screenshot_sha256
    assert episode_of(replace(done, turns=(), end=None), store) is None
