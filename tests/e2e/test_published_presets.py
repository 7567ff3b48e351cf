"""A published folder, small, goes the whole way by commands alone: trained in every stage, merged, exported, served and
evaluated; what leaves at the end is in the form of what came."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import native_benchmarks as native
import pytest
import torch
from choice_world import ChoiceWorld, task
from doc_blocks import blocks, command_lines, simple_commands
from goldmaker import gold
from hub_folder import COMPANIONS, hub_weights, write_hub
from tiny_published import KINDS

from dagster_project.cli import main
from generators.generation.static_task_pool import build_static
from generators.tasks import task_pool
from generators.worlds.registry import WORLDS, WorldKind
from pipelines.processes import end_process
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.modeling.checkpoint import load_checkpoint
from trainer.modeling.published_files import HUB_NAME
from trainer.modeling.tensors import REMAINDER
from trainer.presets import preset
from trainer.stages.assets import checkpoint_folder

pytestmark = [pytest.mark.slow(seconds=150), pytest.mark.real_parts]

FEW = {"threads": 1, "num_generations": 2}
RUN: dict[str, Any] = {
    "midtrain": {
        "max_steps": 150,
        "gradient_checkpointing": False,  # the other stages recompute activations, as the presets say
        "batch_size": 4,
        "max_length": 512,
        "learning_rate": 8e-3,
        "warmup_steps": 20,
        "eval_steps": 0,
        "threads": 1,
    },
    "offline": {
        **FEW,
        "updates": 1,
        "prompts": 2,
        "held_out_limit": 2,
        "held_out_samples": 1,
        "validation_limit": 2,
        "validation_samples": 1,
        "warn_without_traces": False,
        "grpo": {"max_completion_length": 8},
    },
    "online": {
        **FEW,
        "worlds": ["choice"],
        "edges": [1, 2],
        "updates": 1,
        "tasks_per_update": 2,
        "eval_steps": 0,
        "workers": 2,
        "num_generations": 4,
        "limits": {"step_factor": 1, "step_extra": 0, "pause_s": 0.01},
        "grpo": {"max_completion_length": 64},
    },
    "merge": {
        "specialists": ["offline_grounding", "offline_mobile", "online_web"],
        "density": [0.5],
        "lambda": [1.0],
    },
}
TRAINED = ("mid_trained", "offline_grounding", "offline_mobile", "offline_web", "online_web")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stages read: shards, held-out shards, a mixture, and a pool of tasks in a world without a browser."""
    store = gold(tmp_path_factory.mktemp("corpus") / "home", count=12, parts=1)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    plain = []
    for number in range(6):
        row = task(1 + number % 2, number).as_row()
        for name in ("task_id", "stratum", "origin"):
            del row[name]
        plain.append({**row, **{name: json.loads(row[name]) for name in ("initial_state", "evaluator")}})
    build_static(store, tasks=plain)
    task_pool.build_shards(store)
    return store.home


def documented() -> list[list[str]]:
    """What the documentation says to `vesper train`, of published presets."""
    pages = [Path(__file__).parents[2] / "docs" / name for name in ("training.md", "train-at-8b.md")]
    lines = [
        line for page in pages for block in blocks(page) if block.language == "bash" for line in command_lines(block)
    ]
    said = [words for line in lines for words in simple_commands(line)]
    return [words for words in said if words[:2] == ["vesper", "train"] and "--preset" in words]


EACH = """
import json, os, sys
from dagster_project.cli import main
for folder, words in json.load(sys.stdin):
    os.chdir(folder)
    os.environ.pop("VESPER_HOME", None)
    assert main(words) == 0, words
"""
"""One process for all of the documented commands, each in a folder of its own: a start takes longer than they do."""


def test_the_documented_commands_begin_from_a_hub_or_a_folder(corpus: Path, tmp_path: Path) -> None:
    hub = write_hub(tmp_path / "hub", "dense")
    commit, commands = "0" * 40, documented()
    assert len(commands) > 2
    given = [words[words.index("--weights") + 1] if "--weights" in words else "" for words in commands]
    folders = [tmp_path / str(number) for number in range(len(commands))]
    for words, weights, folder in zip(commands, given, folders, strict=True):
        of_a_hub = HUB_NAME.fullmatch(weights) and weights[0].isupper()
        name = weights if of_a_hub else preset(words[words.index("--preset") + 1]).source
        repository = tmp_path / "hf/hub" / f"models--{name.replace('/', '--')}"
        if not repository.exists():
            shutil.copytree(hub, repository / "snapshots" / commit)
            (repository / "refs").mkdir()
            (repository / "refs/main").write_text(commit)
        shutil.copytree(corpus, folder / ".vesper")
        (folder / "models").mkdir()
        (folder / "models/my-8b").symlink_to(hub)
    asked = json.dumps([[str(folder), words[1:]] for words, folder in zip(commands, folders, strict=True)])
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EACH], input=asked, env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for folder in folders:
        made = checkpoint_folder(Store(folder / ".vesper").require("checkpoints/base"))
        assert all(torch.equal(hub_weights(made)[name], one) for name, one in hub_weights(hub).items())


@contextmanager
def opened(**options: Any) -> Iterator[ChoiceWorld]:
    yield ChoiceWorld(**options)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`vesper serve`, until it isn't needed → its address."""
    command = [sys.executable, "-m", "dagster_project.cli", "serve", str(folder), "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"at (http://127\.0\.0\.1:\d+/v1)", server.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            end_process(server)  # by force, if need be: it ignores what the process that runs the tests ignores


@pytest.mark.parametrize("kind", KINDS)
def test_a_published_preset_goes_the_whole_way(
    kind: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORLDS, "choice", WorldKind("web", opened))
    hub, home, store = write_hub(tmp_path / "hub", kind), ["--home", str(corpus)], Store(corpus)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    config = ["--config", f"@{tmp_path / 'run.json'}"]
    small = json.dumps({"pixels": [32 * 32, 96 * 128]})
    assert main(["train", "base", "--preset", KINDS[kind], "--weights", str(hub), *home, "--config", small]) == 0
    for stage in (*TRAINED, "unified"):
        assert main(["train", stage, *home, *config]) == 0, stage
    for stage in TRAINED:
        folder = checkpoint_folder(store.require(f"checkpoints/{stage}"))
        after = load_checkpoint(folder).model.state_dict()
        assert (folder / REMAINDER).is_dir() and all(one.dtype == torch.float32 for one in after.values())
    agent = tmp_path / "agent"
    assert main(["export", "checkpoint", "--to", "hub", "--asset", "unified", *home, str(agent)]) == 0
    before, weights = hub_weights(hub), hub_weights(agent)
    assert {name: (one.shape, one.dtype) for name, one in weights.items()} == {
        name: (one.shape, one.dtype) for name, one in before.items()
    }
    assert any(not torch.equal(one, before[name]) for name, one in weights.items())
    assert [name for name in COMPANIONS if (agent / name).read_bytes() != (hub / name).read_bytes()] == []
    native.screenspot_v2(tmp_path / "raw")
    suite = ["eval", "--suite", "screenspot_v2", "--raw", str(tmp_path / "raw"), "--limit", "3", *home]
    reports = [tmp_path / "own.json", tmp_path / "served.json"]
    assert main([*suite, str(agent), "--out", str(reports[0])]) == 0
    with served(agent) as url:
        asked = ["--base-url", url, "--model", "agent", "--words", "trained"]
        assert main([*suite, *asked, "--out", str(reports[1])]) == 0
    own, others = ([one["reply"] for one in json.loads(path.read_text())["records"]] for path in reports)
    assert own == others and len(own) == 3
