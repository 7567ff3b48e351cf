"""`vesper train` with TRL's engine: on one process, on two ranks, with adapters, to a checkpoint like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from goldmaker import gold
from tiny_training import SETTINGS
from two_ranks import torchrun

from dagster_project.cli import main
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.modeling.checkpoint import load_checkpoint
from trainer.stages.assets import checkpoint_folder
from trainer.stages.run import run_stage

pytestmark = [pytest.mark.real_parts, pytest.mark.slow]

MIDTRAIN: dict[str, Any] = {**SETTINGS["midtrain"], "sigma": [0, 0], "eval_steps": 1, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = gold(tmp_path_factory.mktemp("trl") / "home", count=20, parts=2)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    run_stage("base", store.home, SETTINGS, progress=False)
    return store.home


def _settings(**midtrain: Any) -> dict[str, Any]:
    return {**SETTINGS, "midtrain": {**MIDTRAIN, **midtrain}}


def _steps(home: Path) -> list[float]:
    folder = checkpoint_folder(Store(home).require("checkpoints/mid_trained")).parent
    return [step["loss"] for step in json.loads((folder / "curve.json").read_text())["steps"]]


def test_one_process_and_two_ranks_have_the_losses_of_our_own_loop(home: Path, tmp_path: Path) -> None:
    losses = {}
    for name, engine in (("own", "own"), ("one", "trl"), ("two", "trl")):
        copy = shutil.copytree(home, tmp_path / name, symlinks=True)
        given = ["mid_trained", "--config", json.dumps(_settings(engine=engine)), "--home", str(copy)]
        if name == "two":
            torchrun("-m", "dagster_project.cli", "train", *given)
        else:
            assert main(["train", *given]) == 0
        losses[name] = _steps(copy)
    assert losses["one"] == pytest.approx(losses["own"], abs=1e-4)
    assert losses["two"] == pytest.approx(losses["own"], abs=1e-4)


def test_adapters_lie_beside_a_merged_checkpoint(home: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(home, tmp_path / "lora", symlinks=True)
    made = run_stage("mid_trained", copy, _settings(engine="trl", lora={"rank": 4}), progress=False)
    folder = checkpoint_folder(made)
    before = load_checkpoint(checkpoint_folder(Store(copy).require("checkpoints/base"))).model.state_dict()
    after = load_checkpoint(folder).model.state_dict()
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert changed and all(name.endswith("_proj.weight") and "language_model" in name for name in changed)
    assert (folder.parent / "adapters" / "adapter_model.safetensors").is_file()
