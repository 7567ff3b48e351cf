"""Where the graph's generation and online RL get their devices: the deployment, the environment, and what a run asks
for before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gateway_parts as parts
import pytest

from dagster_project.preflight import probes
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Deployment, DeploymentError
from dagster_project.stage_functions import generation
from dagster_project.stages import graph
from dagster_project.stages.stage import StageWork
from generators.execution.device_pool import GatewayPool, LocalPool
from generators.generation import rounds
from generators.generation.loop import LoopConfig, LoopParts
from pipelines.store import Store

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VESPER_DEVICES", "VESPER_SITE_URL", "VESPER_TRAINER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VESPER_GATEWAY_KEY", parts.CLIENT)


def _said(tmp_path: Path, text: str) -> Deployment:
    path = tmp_path / f"{abs(hash(text))}.yaml"
    path.write_text(text)
    return deployment.load(path)


def test_the_deployment_says_where_rounds_are_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _said(tmp_path, f"generation: {{ground: phone, device: [{NOWHERE}, local], workers: 5}}")
    assert found.generation.device == (NOWHERE, "local") and found.generation.workers == 5
    assert generation.loop_config(found.generation.loop).ground == "phone", "devices are no part of what a round is"
    assert _said(tmp_path, f"generation: {{device: {NOWHERE!r}}}").generation.device == (NOWHERE,)
    assert deployment.load().generation.device == (), "shipped: as the environment says"
    for text, told in (
        ("device: nowhere", "generation.device.0: expected local or an http"),
        ("device: [1]", "generation.device.0: expected a text"),
        ("site_url: pages", "generation.site_url: expected an http"),
        ("workers: 0", "generation.workers: expected"),
    ):
        with pytest.raises(DeploymentError, match=told):
            _said(tmp_path, f"generation: {{{text}}}")


def test_a_round_of_the_graph_executes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[LoopParts] = []

    def record(store: Store, number: int, config: LoopConfig, made: LoopParts) -> Any:
        given.append(made)

    monkeypatch.setattr(rounds, "build_trajectories", record)
    stage = graph.stages(deployment.load())["generation/trajectories"]
    leased = Deployment(raw_root=tmp_path, generation={"ground": "phone", "device": (NOWHERE,), "workers": 3})
    here = Deployment(raw_root=tmp_path, generation={"ground": "phone"})
    for one in (leased, here):
        stage.run(StageWork(Store(tmp_path), one, partition="round_001"))
    monkeypatch.setenv("VESPER_DEVICES", NOWHERE)
    stage.run(StageWork(Store(tmp_path), here, partition="round_001"))
    assert [type(made.pool) for made in given] == [GatewayPool, LocalPool, GatewayPool]
    assert [made.workers for made in given] == [3, 2, 2]


def test_gateways_are_asked_before_a_run_costs_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = graph.stages(deployment.load())
    executes, learns = stages["generation/trajectories"], stages["checkpoints/online_web"]
    assert "ground" in executes.needs and "devices" in learns.needs
    monkeypatch.setenv("VESPER_BROWSER", str(tmp_path / "nothing"))
    here = StageWork(Store(tmp_path), Deployment(raw_root=tmp_path, generation={"ground": "phone"}))
    for probe in (probes.ground, probes.devices):
        assert [line.partition(":")[0] for line in probe(executes, here)] == ["browser"]
    monkeypatch.setenv("VESPER_TRAINER", '{"online": {"worlds": ["desktop"]}}')
    assert probes.devices(learns, here) == []
    monkeypatch.setenv("VESPER_TRAINER", '{"online": {"worlds": ["desktop"], "success_judge": "eyes"}}')
    monkeypatch.delenv("VESPER_JUDGE_BASE_URL", raising=False)
    assert probes.devices(learns, here) == [
        "trainer: the success judge 'eyes' needs an endpoint: set $VESPER_JUDGE_BASE_URL"
    ]
    monkeypatch.setenv("VESPER_JUDGE_BASE_URL", NOWHERE)
    [line] = probes.devices(learns, here)
    assert NOWHERE in line and "doesn't answer" in line
    monkeypatch.delenv("VESPER_TRAINER")
    with parts.gateway(tmp_path) as gateway:
        gateway.register("phone", 9, "adb")
        leased = replace(
            here, deployment=here.deployment.changed(generation={"ground": "phone", "device": (gateway.url,)})
        )
        assert probes.ground(executes, leased) == [], "no browser is needed here"
        monkeypatch.setenv("VESPER_DEVICES", gateway.url)
        assert probes.ground(executes, here) == probes.devices(learns, here) == []
        monkeypatch.setenv("VESPER_DEVICES", f"{gateway.url},local")
        [line] = probes.devices(learns, here)
        assert line.startswith("browser: ")
    for probe, work in ((probes.ground, leased), (probes.devices, here)):
        line = probe(learns, work)[0]
        assert gateway.url in line and "tells no devices" in line
