"""The asset of docs/add-an-asset.md, as it stands there: named in deployment.yaml, the graph materialises it."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from dagster_project import definitions
from dagster_project.settings import deployment
from dagster_project.stages import graph
from pipelines.store import PartSpec, Store

ROOT = Path(__file__).parents[2]
KEY = dg.AssetKey(["reports", "objectives"])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> deployment.Deployment:
    """A deployment that names the page's file, over a store with gold of one source."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/add-an-asset.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "reports.py").write_text(code, encoding="utf-8")
    (tmp_path / "deployment.yaml").write_text(f"assets: ['{tmp_path}/reports.py:stages']\n", encoding="utf-8")
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "deployment.yaml"))
    part = PartSpec("a", "1")
    with Store(tmp_path / "home").build("gold/aitw", code_version="1", parts=[part]) as build:
        rows = pa.table({"objective": ["vqa", "grounding", "vqa"]})
        build.run_part(part, lambda out: out.table("samples", rows))
        build.commit()
    return deployment.load()


def test_the_page_s_asset_is_materialised_by_the_graph(settings: deployment.Deployment, tmp_path: Path) -> None:
    repository = definitions.build(settings).get_repository_def()
    node = repository.asset_graph.get(KEY)
    assert dg.AssetKey(["gold", "aitw"]) in node.parent_keys and node.group_name == "reports"
    assert KEY in repository.get_job("build_corpus").asset_layer.executable_asset_keys

    with dg.DagsterInstance.ephemeral() as instance:
        done = repository.get_job("build_corpus").execute_in_process(asset_selection=[KEY], instance=instance)
        (event,) = done.asset_materializations_for_node("reports__objectives")
        (check,) = done.get_asset_check_evaluations()
        assert (check.check_name, check.passed, check.metadata["found"].value) == ("there_are_samples", True, 3.0)
    assert event.metadata["dagster/row_count"].value == 2
    made = Store(tmp_path / "home").require("reports/objectives")
    assert made.read("objectives").to_pylist() == [
        {"objective": "grounding", "samples": 1},
        {"objective": "vqa", "samples": 2},
    ]
    assert list(made.inputs) == ["gold/aitw"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("other = 1", "expected 'stages' in .*mine.py, found no such name"),
        ("stages = 1", "expected a function at .*mine.py:stages, found int"),
        ("def stages(deployment):\n    return ['reports/x']", "expected .* to give GraphStages, found 'reports/x'"),
    ],
)
def test_what_gives_no_stages_is_refused(body: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{body}\n", encoding="utf-8")
    named = deployment.Deployment(raw_root=tmp_path, assets=(f"{tmp_path}/mine.py:stages",))
    with pytest.raises(deployment.DeploymentError, match=f"^deployment: assets.*{message}"):
        graph.stages(named)
