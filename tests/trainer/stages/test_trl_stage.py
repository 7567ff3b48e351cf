"""`vesper train` with TRL's engine: on one process, on two ranks, with adapters, to a checkpoint like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fsdp_on_cpus
import pytest
import torch
from goldmaker import gold
from tiny_training import SETTINGS
from two_ranks import ROOT, on_two_ranks

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


def _validation(home: Path) -> list[float]:
    folder = checkpoint_folder(Store(home).require("checkpoints/mid_trained")).parent
    return [row["all"] for row in json.loads((folder / "curve.json").read_text())["validation"]]


def _trained_by_command(given: list[str]) -> None:
    assert main(["train", *given]) == 0


def test_one_process_and_two_ranks_have_the_losses_of_our_own_loop(home: Path, tmp_path: Path) -> None:
    losses = {}
    for name, engine in (("own", "own"), ("one", "trl"), ("two", "trl")):
        copy = shutil.copytree(home, tmp_path / name, symlinks=True)
        given = ["mid_trained", "--config", json.dumps(_settings(engine=engine)), "--home", str(copy)]
        if name == "two":
            on_two_ranks(_trained_by_command, given)
        else:
            assert main(["train", *given]) == 0
        losses[name] = _steps(copy)
    assert losses["one"] == pytest.approx(losses["own"], abs=1e-4)
    assert losses["two"] == pytest.approx(losses["own"], abs=1e-4)


def test_two_ranks_share_a_model_by_accelerates_fsdp2(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the configuration that the pages name, read by accelerate's own launcher. They are killed after the first
    step, go on from what each of them had saved, and end as a process that nothing befell."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    said = launch_command_parser().parse_args(["--config_file", str(ROOT / "deploy" / "accelerate_fsdp2.yaml"), "x"])
    prepared = prepare_multi_gpu_env(_validate_launch_command(said)[0])
    environment = {key: value for key, value in prepared.items() if key.startswith(("FSDP_", "ACCELERATE_"))}
    losses, scores = {}, {}
    for name in ("own", "parts"):
        copy = shutil.copytree(home, tmp_path / name, symlinks=True)
        given = ["mid_trained", "--config", json.dumps(_settings(engine="trl", save_steps=1)), "--home", str(copy)]
        if name == "own":
            assert main(["train", *given]) == 0
        else:
            words, told = ["train", *given], tmp_path / "told"
            told.mkdir()
            with pytest.raises(AssertionError, match="a rank ended with 9"):
                on_two_ranks(fsdp_on_cpus.vesper, environment, words, told, 1)
            assert main(words) == 2
            assert "was saved by FSDP, and this run trains without" in capsys.readouterr().err
            on_two_ranks(fsdp_on_cpus.vesper, environment, words, told)
            held = [tuple(map(int, path.read_text().split())) for path in told.iterdir()]
            assert len(held) == 2 and all(0.4 * whole < some < 0.6 * whole for some, whole in held), held
        losses[name], scores[name] = _steps(copy), _validation(copy)
    assert losses["parts"] == pytest.approx(losses["own"], abs=1e-4)
    assert scores["parts"] == pytest.approx(scores["own"], abs=1e-3)
    loaded = load_checkpoint(checkpoint_folder(Store(tmp_path / "parts").require("checkpoints/mid_trained"))).model
    other = load_checkpoint(checkpoint_folder(Store(tmp_path / "own").require("checkpoints/mid_trained"))).model
    for one, another in zip(loaded.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.allclose(one, another, atol=2e-3)


def test_adapters_lie_beside_a_merged_checkpoint(home: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(home, tmp_path / "lora", symlinks=True)
    made = run_stage("mid_trained", copy, _settings(engine="trl", lora={"rank": 4}), progress=False)
    folder = checkpoint_folder(made)
    before = load_checkpoint(checkpoint_folder(Store(copy).require("checkpoints/base"))).model.state_dict()
    after = load_checkpoint(folder).model.state_dict()
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert changed and all(name.endswith("_proj.weight") and "language_model" in name for name in changed)
    assert (folder.parent / "adapters" / "adapter_model.safetensors").is_file()
