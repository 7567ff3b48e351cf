"""The merged agent beside each specialist that it was made of, on the held-out samples of that one's domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dagster_project.demo import report
from pipelines.store import Manifest, PartSpec, Store
from trainer.evaluation.records import Records

NONE = dict.fromkeys(field.name for field in Records.schema if field.nullable)


def _record(number: int, platform: str, objective: str, right: float) -> dict[str, Any]:
    grounding = objective == "grounding"
    return {
        **NONE,
        "sample_id": f"{objective}-{platform}-{number}",
        "source": "toy",
        "platform": platform,
        "objective": objective,
        "domain": "grounding" if grounding else f"navigation/{platform}",
        "cluster": f"{objective}-{platform}-{number}",
        "reply": "",
        "answer": "",
        "format": 1.0,
        "reward": right,
        "blind": 0.0,
        "hit" if grounding else "step": right,
    }


def _evaluated(store: Store, name: str, right: dict[str, float], inputs: dict[str, str]) -> Manifest:
    """A checkpoint and its evaluation, on ten samples each of grounding (on the web) and of each platform."""
    rows = [_record(number, "web", "grounding", right["grounding"]) for number in range(10)]
    rows += [
        _record(number, platform, "navigation", right[platform])
        for platform in ("mobile", "web", "desktop")
        for number in range(10)
    ]
    spec = PartSpec("a", name)
    with store.build(f"evaluations/{name}", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.table("records", Records.table(rows)) and {})
        build.commit()
    with store.build(f"checkpoints/{name}", code_version="1", parts=[spec], inputs=inputs) as build:
        build.run_part(spec, lambda out: out.bytes("a", b""))
        return build.commit()


def _of_the_agent(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = report.comparisons(store)
    return {pair: measures for pair, measures in found.items() if pair.startswith("unified - ")}


def test_a_merge_stands_beside_each_specialist_in_that_ones_domain(tmp_path: Path) -> None:
    half, own = {"grounding": 0.0, "mobile": 0.0, "web": 0.0, "desktop": 0.0}, {}
    store = Store(tmp_path)
    for name, domains in {"offline_grounding": ["grounding"], "online_web": ["web", "desktop"]}.items():
        made = _evaluated(store, name, half | dict.fromkeys(domains, 1.0), {})
        own[made.asset] = made.version
    _evaluated(store, "unified", half | {"grounding": 1.0, "web": 1.0, "mobile": 1.0}, own)
    found = _of_the_agent(store)
    assert {pair: list(measures) for pair, measures in found.items()} == {
        "unified - offline_grounding": ["grounding hit"],
        "unified - online_web": ["web step"],
    }
    assert found["unified - offline_grounding"]["grounding hit"]["mean"] == 0.0
    web = found["unified - online_web"]["web step"]
    assert (web["n"], web["mean"]) == (20, -0.5) and web["high"] < 0, "with the steps of computers, which ride in it"

    computer = _evaluated(store, "offline_computer", half | {"desktop": 1.0}, {})
    _evaluated(store, "unified", half | {"web": 1.0}, {**own, computer.asset: computer.version})
    four = _of_the_agent(store)
    assert four["unified - offline_computer"]["computer step"]["mean"] == -1.0
    assert (four["unified - online_web"]["web step"]["n"], four["unified - online_web"]["web step"]["mean"]) == (
        10,
        0.0,
    )
    text = "\n".join(report._training_lines({**_bare(), "comparisons": four}))
    assert "TIES merge - RL computer: computer step -100 [" in text


def _bare() -> dict[str, Any]:
    return {name: {} for name in ("evaluations", "specialists", "online", "episodes", "staircase")}


def test_without_an_agent_there_is_nothing_beside_it(tmp_path: Path) -> None:
    assert report.comparisons(Store(tmp_path)) == {}
