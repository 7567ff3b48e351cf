"""What an export gives verl: its reward is ours, and where verl is installed its own code takes all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from choice_world import task
from world_servers import served

from pipelines.exports.forms import CORPUS
from pipelines.exports.recipes import recipe
from schemas.ids import canonical_json
from trainer.rl.rewards import ReplyTarget, score
from trainer.settings.rewards import RewardConfig

ROOT = Path(__file__).parents[2]
VERL = os.environ.get("VESPER_VERL_PYTHON") or os.environ.get("VESPER_PEERS_PYTHON", sys.executable)
"""An interpreter that has verl 0.9."""
NAVIGATION = "<think>here</think><action>Click(box=(100,200))</action><conclusion></conclusion>"
CASES: list[tuple[str, str, list[list[float]]]] = [
    ("[120,210]", "[100,200]", [[90.0, 190.0, 130.0, 220.0]]),
    ("[500,500]", "[100,200]", [[90.0, 190.0, 130.0, 220.0]]),
    ("no point", "[100,200]", [[90.0, 190.0, 130.0, 220.0]]),
    ("[-1,-1]", "[-1,-1]", []),
    (NAVIGATION.replace("100,200", "105,190"), NAVIGATION, []),
    ("Click(box=(100,200))", NAVIGATION, []),
    ("<action>Wait()</action>", NAVIGATION, []),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The files beside an export of a corpus, and two that stand for its data."""
    return _written(tmp_path, CORPUS["verl"].beside({"train": 1}))


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    names = {"agent_loop.py": "verl_agent_loop.py", "agent_loop.yaml": "verl_agent_loop.yaml", "run.sh": "verl_pool.sh"}
    return _written(tmp_path, {name: recipe(source) for name, source in names.items()})


def _written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "data").mkdir()
    for name in ("train-00000", "train-00001", "test-00000"):
        (folder / "data" / f"{name}.parquet").write_bytes(b"")
    return folder


def given() -> list[dict[str, Any]]:
    """The cases as verl hands them to `compute_score`."""
    return [
        {
            "data_source": "vesper/toy",
            "solution_str": said,
            "ground_truth": answer,
            "extra_info": {"target_boxes": canonical_json(boxes), "index": 3},
        }
        for said, answer, boxes in CASES
    ]


def expected(config: RewardConfig) -> list[dict[str, float]]:
    found = []
    for said, answer, boxes in CASES:
        objective = "navigation" if answer == NAVIGATION else "grounding"
        truth = ReplyTarget.of_sample({"objective": objective, "answer": answer, "target_boxes": boxes})
        terms = score(said, truth, config)
        found.append({"score": terms.pop("total"), **terms})
    return found


def ran(python: str, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    named = {"PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [python, "-c", script], env={**os.environ, **named}, capture_output=True, text=True, timeout=120, check=False
    )


SCORES = "import json, reward; print(json.dumps([reward.compute_score(**one) for one in json.loads({cases!r})]))"


def test_a_reply_is_worth_what_it_is_worth_here_and_torch_isnt_asked_for(corpus: Path) -> None:
    script = SCORES.format(cases=json.dumps(given())) + "; import sys; assert 'torch' not in sys.modules"
    for settings in ({}, {"w_format": 0.3, "alpha": 2.0}):
        done = ran(
            sys.executable, script, PYTHONPATH=f"{corpus}{os.pathsep}{ROOT}", VESPER_REWARDS=json.dumps(settings)
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == expected(RewardConfig.parsed(settings))
    scores = [one["score"] for one in expected(RewardConfig())]
    assert scores[0] > scores[1] >= scores[2] and scores[4] > scores[6]


def test_a_reward_that_needs_the_group_is_refused(corpus: Path) -> None:
    done = ran(
        sys.executable,
        "import reward",
        PYTHONPATH=f"{corpus}{os.pathsep}{ROOT}",
        VESPER_REWARDS='{"w_consistency": 0.5}',
    )
    assert "VESPER_REWARDS: expected no group_terms and w_consistency 0" in done.stderr


# -- by verl's own code ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verl() -> str:
    if ran(VERL, "import verl.experimental.agent_loop").returncode:
        pytest.skip(f"{VERL} has no verl; $VESPER_VERL_PYTHON may name an interpreter that has")
    return VERL


def asked(verl: str, *arguments: str) -> Any:
    command = [verl, str(ROOT / "tests" / "support" / "verl_recipe.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.real_parts
def test_verl_loads_the_reward(verl: str, corpus: Path) -> None:
    assert asked(verl, "reward", str(corpus), json.dumps(given())) == expected(RewardConfig())


@pytest.mark.real_parts
@pytest.mark.parametrize("kind", ["corpus", "pool"])
def test_verls_launcher_takes_the_run(verl: str, kind: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(kind)
    more = ["trainer.n_gpus_per_node=2", "--cfg", "job"]
    environment = {**os.environ, "PYTHON": verl, "MODEL": "a/model", "PYTHONPATH": ""}
    done = subprocess.run(
        ["bash", str(folder / "run.sh"), *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = yaml.safe_load(done.stdout)
    files = [str(folder / "data" / f"train-0000{number}.parquet") for number in (0, 1)]
    assert found["data"]["train_files"] == files and found["actor_rollout_ref"]["model"]["path"] == "a/model"
    assert found["trainer"]["n_gpus_per_node"] == 2 and found["algorithm"]["adv_estimator"] == "grpo"
    if kind == "corpus":
        assert found["data"]["val_files"] == [str(folder / "data" / "test-00000.parquet")]
        assert found["reward"]["custom_reward_function"] == {
            "path": str(folder / "reward.py"),
            "name": "compute_score",
        }
    else:
        agent = found["actor_rollout_ref"]["rollout"]["agent"]
        assert agent["agent_loop_config_path"] == str(folder / "agent_loop.yaml")
        assert agent["default_agent_loop"] == "vesper_worlds" and found["trainer"]["use_v1"] is True


@pytest.mark.real_parts
def test_verls_agent_loop_plays_a_task_in_our_worlds(verl: str, pool: Path) -> None:
    left, end = "<action>Click(box=(250,500))</action>", "Finished(content='')"
    with served([task(1), task(2, 1)]) as url:
        wanted = task(2, 1).task_id
        won = asked(verl, "play", str(pool), url, wanted, json.dumps([left, left, end]))
        lost = asked(verl, "play", str(pool), url, wanted, json.dumps([left, end]))
    assert [one["reply"] for one in won] == [left, left, end]
    assert [one["reward"] for one in won] == [None, None, 1.0] and lost[-1]["reward"] == 0.0
    for number, one in enumerate(won):
        assert one["size"] == [96, 64] and one["extra"]["reward_extra_info"] == {"success": 1.0, "steps": 3}
        assert one["masked"] == len(one["logprobs"]) and {"prompts", "responses", "rollout_log_probs"} <= {
            *one["tensors"]
        }
        assert one["prompt"].endswith("<|im_end|>\n<|im_start|>assistant\n") and "<|image_pad|>" in one["prompt"]
        assert one["prompt"].count("Click(box=(250,500))") == number, "the history grows"
