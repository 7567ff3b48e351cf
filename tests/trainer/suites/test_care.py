"""The suite `care`: three figures side by side, and what stands between an agent and production."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generators.execution.device_pool import LocalPool
from generators.policies.care_agents import TEMPERS, Temper, care_agents
from generators.worlds.care.care_case import CareOutcome
from generators.worlds.care.care_sites import care_site
from generators.worlds.care.care_world import CareWorld
from generators.worlds.fsm.interpreted import InterpretedWorld
from pipelines.store import PartSpec, PartWriter, Store, StoreError
from pipelines.store.aliases import AGENT
from pipelines.store.manifest import Check
from trainer.online.rollouts import Rollout
from trainer.stages import care_gate
from trainer.stages.suites import counts_of
from trainer.suites.care import care_columns, care_summary, case_cluster, harm_gained, rose
from trainer.suites.leaderboard import RECORDS, figures
from trainer.suites.world_tasks import contracts
from trainer.suites.worlds import world_success

Record = dict[str, Any]


def played(temper: Temper) -> dict[str, Any]:
    """The suite on sites, without a browser, by a scripted agent."""
    from contextlib import nullcontext

    pool = LocalPool({"care/web": lambda: nullcontext(CareWorld(InterpretedWorld(care_site), "web"))}, 1)
    return world_success(care_agents(temper), contracts("care/web", 34), pool, cluster=case_cluster)


@pytest.mark.parametrize("temper", TEMPERS)
def test_the_three_figures_are_those_of_the_agent(temper: Temper) -> None:
    report = played(temper)
    summary = {**report["summary"], **care_summary(report["records"])}
    means = [summary[name]["mean"] for name in ("attack_success", "needless_questions", "success")]  # type: ignore[index]
    twins = sum("needless" in one for one in report["records"]) / len(report["records"])
    wanted = {"careful": [0, 0, 1], "timid": [0, 1, 1], "careless": [1, 0, twins]}[temper]
    assert means == pytest.approx(wanted) and 0 < twins < 1
    found = {**report, "suite": "care", "suite_kind": "worlds", "policy": temper}
    found["summary"] = {"headline": summary["success"], "headline_of": "success", **summary}
    assert [row["measure"] for row in figures(found)] == ["success", "attack success", "needless questions"]
    counts = counts_of(found)
    assert [counts[name] for name in ("attack success", "needless questions", "success")] == means


def test_a_care_task_is_one_of_many_families_and_all_variants() -> None:
    first = contracts("care", 40)
    assert len({one.target for one in first}) >= 20
    assert {one.initial_state["variant"] for one in first} == {"yes", "no", "twin"}


def test_a_record_says_what_its_episode_can_say() -> None:
    assert care_columns(None) == {}
    assert care_columns(CareOutcome(True, True, True)) == {"harm": 1.0}
    assert care_columns(CareOutcome(False, False, True)) == {"needless": 1.0}


def test_a_rollout_keeps_its_outcome_in_a_file() -> None:
    plain = Rollout("a-000", "t", (), False, 2, 0, "finished", care=CareOutcome(True, True, False))
    for one in (plain, Rollout("a-001", "t", (), True, 2, 0, "finished")):
        assert Rollout.from_plain(json.loads(json.dumps(one.to_plain()))) == one
    del (old := one.to_plain())["care"]  # written before there was any
    assert Rollout.from_plain(old).care is None


def records(harm: float, count: int = 12) -> list[Record]:
    return [
        {"task_id": str(n), "attempt": 0, "cluster": str(n), "success": 1.0, "harm": float(n < harm * count)}
        for n in range(count)
    ]


def test_a_rise_needs_an_interval_above_zero_and_enough_cases() -> None:
    assert rose(harm_gained(records(0.75), records(0.0)))
    assert not rose(harm_gained(records(0.0), records(0.75))) and not rose(harm_gained(records(0.5), records(0.5)))
    assert not rose(harm_gained(records(1.0, 3), records(0.0, 3)))  # three cases prove nothing
    assert harm_gained(records(1.0), [])["n"] == 0


def commit(store: Store, asset: str, name: str, data: bytes, **more: Any) -> str:
    def write(out: PartWriter) -> None:
        out.bytes(name, data)

    spec = PartSpec("a", str([data, more]))
    with store.build(asset, code_version="1", parts=[spec], **more) as build:
        build.run_part(spec, write)
        return build.commit(checks=[Check("there", True, "1", "1")]).version


def agent(store: Store, harm: float | None) -> str:
    """A version of the agent, and what the suite measured of it."""
    version = commit(store, AGENT, "model.bin", str(harm).encode())
    if harm is not None:
        lines = "".join(f"{json.dumps(one)}\n" for one in records(harm))
        commit(store, care_gate.ASSET, RECORDS, lines.encode(), inputs={AGENT: version})
    return version


def test_an_agent_that_does_more_harm_is_not_put_into_production(tmp_path: Path) -> None:
    store = Store(tmp_path)
    safe, unmeasured = agent(store, 0.0), agent(store, None)
    assert care_gate.promote(store, AGENT, safe, alias="production").version == safe
    worse = agent(store, 0.75)
    held = care_gate.held_against_production(store, worse, care_gate.records_of(store, worse))
    assert held is not None and not held.passed and held.blocking and held.value == 0.75
    with pytest.raises(StoreError, match=r"attack success did not rise: .*\+0.750"):
        care_gate.promote(store, AGENT, worse, alias="production")
    with pytest.raises(StoreError, match="attack success"):
        care_gate.promote(store, AGENT, None, alias="production")  # the newest is the same one
    assert care_gate.promote(store, AGENT, worse, alias="candidate").version == worse
    assert care_gate.promote(store, AGENT, unmeasured, alias="production").version == unmeasured
    assert care_gate.promote(store, AGENT, worse, alias="production").version == worse  # nothing to compare with
    assert care_gate.promote(store, AGENT, safe, alias="production").version == safe
    why = "the rise is understood"
    assert care_gate.promote(store, AGENT, worse, alias="production", force=True, why=why).version == worse


def test_the_agent_in_production_is_not_compared_with_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    only = agent(store, 0.5)
    assert care_gate.held_against_production(store, only, records(0.5)) is None
    care_gate.promote(store, AGENT, only, alias="production")
    assert care_gate.held_against_production(store, only, records(0.5)) is None
