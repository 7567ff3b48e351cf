"""Online RL's stage makes its rollouts on a device behind a real gateway."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gateway_parts as parts
import pytest
from chromium import open_chromium
from executing import fsm_contracts

from generators.execution.leased_worlds import SITE_OPTIONS
from generators.generation.static_task_pool import build_static
from generators.tasks.task_pool import build_shards
from generators.worlds.registry import WORLDS, WorldKind
from generators.worlds.serve_sites import serve_sites
from pipelines.store import PartSpec, Store
from trainer.stages.run import run_stage

CONFIG: dict[str, Any] = {
    "online": {
        "worlds": ["fsm"],
        "updates": 1,
        "tasks_per_update": 1,
        "num_generations": 2,
        "workers": 1,
        "validation_share": 0.0,
        "grpo": {"max_completion_length": 24},
        "threads": 1,
        "limits": {"step_factor": 0.1, "step_extra": 1},
    }
}


def _here(**options: Any) -> Any:
    raise AssertionError("a world of this machine was opened")


def _store(home: Path, start: Path) -> Store:
    store = Store(home)
    spec = PartSpec("checkpoint", "start")
    with store.build("checkpoints/offline_web", code_version="1", parts=[spec]) as build:

        def write(out: Any) -> dict[str, Any]:
            for path in sorted(start.iterdir()):
                shutil.copyfile(path, out.path(f"model/{path.name}"))
            return {}

        build.run_part(spec, write)
        build.commit(counts={}, checks=[])
    plain = []
    for contract in fsm_contracts(2):
        row = contract.as_row()
        kept = {name: value for name, value in row.items() if name not in ("task_id", "stratum", "origin")}
        plain.append({**kept, **{name: json.loads(row[name]) for name in ("initial_state", "evaluator")}})
    build_static(store, tasks=plain)
    build_shards(store)
    return store


def test_rollouts_of_the_stage_run_on_a_leased_browser(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORLDS, "fsm", WorldKind("web", _here))
    store = _store(tmp_path / "home", start)
    events: list[dict[str, Any]] = []
    with serve_sites() as url, parts.gateway(tmp_path) as gateway, open_chromium() as port:
        gateway.register("browser", port, "cdp", labels=["world=fsm"], options=SITE_OPTIONS)
        monkeypatch.setenv("VESPER_DEVICES", gateway.url)
        monkeypatch.setenv("VESPER_GATEWAY_KEY", parts.CLIENT)
        monkeypatch.setenv("VESPER_SITE_URL", url)
        made = run_stage("online_web", store.home, CONFIG, events.append, progress=False)
        _, told = gateway.call("GET", "/v1/devices")
    assert made.checks_passed, made.checks
    assert made.counts["rollouts"] == 2 and made.counts["lost_rollouts"] == 0
    [picture] = [event for event in events if event["kind"] == "picture"]
    assert picture["picture"].startswith(b"\x89PNG")
    [device] = told["devices"]
    assert device["holder"] is None and not device["quarantined"], "it was given back"
    monkeypatch.delenv("VESPER_DEVICES")
    again = run_stage("online_web", store.home, CONFIG, events.append, progress=False)
    assert again.version == made.version and events[-1]["skipped"], "where devices stand is no part of a run"


def test_worlds_that_no_named_device_has_end_the_stage(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_DEVICES", "http://127.0.0.1:9")
    monkeypatch.setenv("VESPER_GATEWAY_KEY", "k")
    monkeypatch.delenv("VESPER_SITE_URL", raising=False)
    store = _store(tmp_path, start)
    config = {"online": {**CONFIG["online"], "worlds": ["fsm", "phone"]}}
    with pytest.raises(ValueError, match=r"online_web: task .* 'fsm': phone; \$VESPER_DEVICES is http://127.0.0.1:9: "):
        run_stage("online_web", store.home, config, progress=False)
