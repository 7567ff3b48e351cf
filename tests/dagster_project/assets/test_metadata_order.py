"""Metadata in its order: pictures, ten figures, the rest; and a run that did nothing says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.assets import factory, metadata
from dagster_project.assets.keys import asset_key
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store import Check, PartSpec, Store
from pipelines.store.manifest import Manifest


def test_ten_figures_stand_first_as_people_read_them_and_the_rest_is_folded(tmp_path: Path) -> None:
    names = [f"{step} greedy" for step in "abcdefghijkl"]
    counts = {"seconds": 1234.5678, **{f"{step} pass_at_k": 0.5 for step in "ab"}, **dict.fromkeys(names, 1 / 3)}
    with Store(tmp_path).build("staircase/web", code_version="1") as build:
        manifest = build.commit(counts=counts)
    stage = GraphStage("staircase/web", (), "train", lambda work: manifest, "a toy", ("file",), "1")
    shown = metadata.describe(stage, manifest, Store(tmp_path))
    figures = {name: value for name, value in shown.items() if isinstance(value, int | float)}
    assert figures == {f"quality: {name}": 0.3333 for name in names[:10]}, "without a table there are no rows"
    assert list(shown)[-1] == "counts" and shown["counts"].value == {"files": 0, "bytes": 0, **counts}
    assert shown["dagster/uri"] == manifest.directory.as_uri()


def test_a_rebuild_that_did_nothing_shows_what_making_the_version_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    night: dict[str, Any] = {"content": "first", "answers": 3}

    def run(work: StageWork) -> Manifest:
        spec = PartSpec("a", night["content"])
        with work.store.build("verdicts/x", code_version="1", parts=[spec]) as build:
            build.run_part(spec, lambda out: out.bytes("a.txt", night["content"].encode()))
            counts = {"bill": {"answers": night["answers"], "cost": 0.0}}
            return build.commit(counts=counts, checks=[Check("good", True, "1", "1")])

    stage = GraphStage("verdicts/x", (), "build_corpus", run, "a toy", ("file",), "1")
    resources = {"store": definitions.StoreResource(home=str(tmp_path)), "judge": definitions.JudgeResource()}
    instance, runs = dg.DagsterInstance.ephemeral(), list[str]()

    def shown() -> dict[str, Any]:
        done = dg.materialize(factory.build({stage.key: stage}), instance=instance, resources=resources)
        assert done.success
        runs.append(done.run_id)
        event = instance.get_latest_materialization_event(asset_key("verdicts/x"))
        assert event is not None and event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}

    made = shown()
    numbers = [name for name, value in made.items() if isinstance(value, int | float)]
    assert list(made)[: len(numbers)] == numbers and "cost: seconds" in numbers and list(made)[-1] == "counts"
    assert made["made by"] == runs[0] and made["cost: answers"] == 3 and "done" not in made
    assert "cost: money" not in made and "inputs" not in made, "nought, and none"
    for seen in (shown(), shown()):
        assert seen["done"] == f"nothing: this version was there; its costs are those of run {runs[0][:8]}"
        assert next(iter(seen)) == "done" and seen["made by"] == runs[0]
        assert seen["cost: seconds"] == made["cost: seconds"]
    night.update(answers=5)  # the same version, and more was asked about it
    more = shown()
    assert more["cost: answers"] == 5 and "done" not in more and more["made by"] == runs[-1]
    night.update(content="second")
    assert "done" not in shown()
