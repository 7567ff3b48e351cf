"""The stage of docs/add-a-trainer-stage.md, as it stands there: named in the environment, it is one like the others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "shape": {
        "hidden": 64,
        "layers": 2,
        "heads": 2,
        "kv_heads": 2,
        "intermediate": 128,
        "vocab_size": 1536,
        "vision_hidden": 64,
        "vision_depth": 2,
        "vision_heads": 2,
        "vision_intermediate": 96,
        "deepstack": [0],
        "pixels": 12288,
    },
    "midtrain": {"max_steps": 2, "batch_size": 4, "warmup_steps": 0, "eval_steps": 0, "threads": 1},
    "halfway": {"share": 0.25},
}
SEEN = """
import json, os, sys
from pathlib import Path

from goldmaker import gold
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from dagster_project import cli
from dagster_project.settings.deployment import Deployment
from dagster_project.settings.reference import page
from dagster_project.stages.graph import stages
from trainer.modeling.checkpoint import load_checkpoint
from trainer.stages.assets import checkpoint_folder
from trainer.stages.run import run_stage

home, settings = Path(sys.argv[1]), sys.argv[2]
graph = stages(Deployment(raw_root=home / "incoming"))
assert {"checkpoints/base", "checkpoints/mid_trained"} <= set(graph["checkpoints/halfway"].deps)
assert graph["evaluations/halfway"].deps[0] == "checkpoints/halfway"
assert "### `halfway`" in page() and "| `halfway` | `mid_trained` | `halfway` |" in page()
store = gold(home, count=20, parts=2)
build_shards(store, ["toy"])
build_mixture(store)
os.environ["VESPER_TRAINER"] = settings
assert cli.main(["train", "base", "mid_trained", "halfway", "--home", str(home)]) == 0
base, mid, half = (
    next(load_checkpoint(checkpoint_folder(store.require(f"checkpoints/{name}"))).model.parameters())
    for name in ("base", "mid_trained", "halfway")
)
assert (half - (0.25 * mid + 0.75 * base)).abs().max() < 1e-6 and (mid - base).abs().max() > 1e-4
other = {**json.loads(settings), "halfway": {"share": 0.5}}
first, again = store.require("checkpoints/halfway"), run_stage("halfway", home, other, progress=False)
assert again.version != first.version, "its settings enter the version of what it makes"
assert run_stage("mid_trained", home, other, progress=False) == store.require("checkpoints/mid_trained")
cli.main(["train", "--help"])
"""


def test_the_page_s_stage_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/add-a-trainer-stage.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "halfway.py").write_text(code, encoding="utf-8")
    environment = {
        **os.environ,
        "VESPER_STAGES": f"{tmp_path}/halfway.py:halfway",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/support")]),
    }
    ran = subprocess.run(
        [sys.executable, "-c", SEEN, str(tmp_path / "home"), json.dumps(SETTINGS)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-3000:]
    assert "halfway: Mean of random and mid-trained weights" in ran.stdout, ran.stdout[-2000:]


def test_what_is_no_stage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("one = 1\n", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", "import trainer.settings.stages"],
        cwd=ROOT,
        env={**os.environ, "VESPER_STAGES": f"{tmp_path}/one.py:one"},
        capture_output=True,
        text=True,
    )
    assert "expected a TrainerStage, found 1" in ran.stderr
