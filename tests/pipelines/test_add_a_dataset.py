"""The walk-through in docs/add-a-dataset.md, as it stands there, from outside the tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from native import write_parquet
from webnative import png

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHECK = """
import sys
from pathlib import Path
import native
native.FOLDER = Path(sys.argv[1])
from pipelines import sources
from pipelines.store import Store
from pipelines.unify.unify import unify_source
import importlib.util
spec = importlib.util.spec_from_file_location("contract", sys.argv[2])
contract = importlib.util.module_from_spec(spec)
spec.loader.exec_module(contract)
root = Path(sys.argv[3])
fixture = native.fixture("taps")
fixture.write(root)
contract.check("taps", unify_source(Store(root / "home"), "taps", native.raw_of("taps", root)), fixture.expected)
point = root / "point"
said = fixture.write_point(point, 0.3, 0.7)
assert native.mapped_points(sources.get("taps"), native.raw_of("taps", point)) == [(300, 700)], said
print("held")
"""


def test_the_page_adds_a_dataset_from_outside_the_tree(tmp_path: Path) -> None:
    page = (ROOT / "docs/add-a-dataset.md").read_text(encoding="utf-8")
    adapter, fixture, flat = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for folder, text in (("sources", adapter), ("fixtures", fixture)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "taps.py").write_text(text, encoding="utf-8")
    (tmp_path / "sources/icons.py").write_text(flat, encoding="utf-8")
    row = {"image": {"bytes": png(20, 40)}, "instruction": "the star", "bbox": [0.1, 0.2, 0.3, 0.4], "kind": "icon"}
    write_parquet(tmp_path / "icons/rows.parquet", [row, {**row, "bbox": [0.3, 0.2, 0.1, 0.4]}])
    environment = {
        **os.environ,
        "VESPER_SOURCES": str(tmp_path / "sources"),
        "VESPER_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/support")]),
    }

    def run(*command: str) -> str:
        ran = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    contract = str(ROOT / "tests/pipelines/test_fixtures.py")
    assert run("-c", CHECK, str(tmp_path / "fixtures"), contract, str(tmp_path / "work")).strip() == "held"
    assert re.search(r"^taps ", run("-m", "dagster_project.cli", "sources", "list"), re.MULTILINE)
    out = tmp_path / "out"
    run("-m", "dagster_project.cli", "unify", "taps", "--raw", str(tmp_path / "work/raw"), "--out", str(out))
    report = json.loads((out / "report.json").read_text())
    items = report["items"]
    assert (items["in"], items["mapped"], items["quarantined"]) == (4, 2, 2)

    out = tmp_path / "flat"
    run("-m", "dagster_project.cli", "unify", "icons", "--raw", str(tmp_path / "icons"), "--out", str(out))
    (row,) = [row for path in out.rglob("samples*.parquet") for row in pq.read_table(path).to_pylist()]
    assert row["answer"] == "[200,300]" and '"kind=icon"' in row["provenance"]
    assert json.loads((out / "report.json").read_text())["quarantine_reasons"] == {"bad_box": 1}
