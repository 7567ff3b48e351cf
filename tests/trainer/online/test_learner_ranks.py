"""Two ranks learn what one process does: same gradients, same reference, a state to go on from, whole runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from choice_world import pool, task
from online_runs import plain_grpo, two_rollouts
from two_ranks import on_two_ranks

from trainer.modeling.checkpoint import load_checkpoint
from trainer.online.learner import OnlineLearner
from trainer.online.train import train_online
from trainer.rl.grpo import group_advantages
from trainer.rl.learner import Learner
from trainer.runtime.parallel import hollow_models, launched
from trainer.settings.online import OnlineConfig

pytestmark = pytest.mark.slow

GRPO = {"beta": 0.1, "entropy_coef": 0.01, "stale_cap": 2.0}
FORMS: dict[str, dict[str, Any]] = {
    "one part each and one over": {"micro_batch": 1},
    "a rank with nothing to do": {"micro_batch": 8, "freeze_vision": True},
    "several iterations": {"micro_batch": 1, "num_iterations": 2, "mode": "async", "gradient_checkpointing": True},
}
RUN = {
    "updates": 2,
    "tasks_per_update": 2,
    "num_generations": 4,
    "workers": 2,
    "eval_steps": 1,
    "save_steps": 1,
    "grpo": {"max_completion_length": 24},
    "reference": {"episodes": 4},
}


def settings(form: str) -> OnlineConfig:
    return plain_grpo(grpo=GRPO, learning_rate=1e-3, max_grad_norm=math.inf, warmup_steps=0, **FORMS[form])


def course(start: Path, form: str, folder: Path) -> dict[str, Any]:
    """Two updates, and the second once more from the state after the first."""
    loaded, given = load_checkpoint(start), settings(form)
    made, advantages = two_rollouts(loaded, 0.1), group_advantages([[1.0, 0.0]], given.grpo)
    learner = OnlineLearner(loaded.model, loaded.processor, given)
    assert learner.reference is not None
    figures = [learner.update(made, advantages, 0)]
    learner.blend(0.3)
    torch.save(learner.state(), folder / "state.pt")
    figures.append(learner.update(made, advantages, 1))
    end = learner.state()
    learner.close()
    other = load_checkpoint(start)
    again = OnlineLearner(other.model, other.processor, given)
    again.load(torch.load(folder / "state.pt", weights_only=True))
    assert again.update(made, advantages, 1) == figures[1]
    again.close()
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name]) and torch.equal(tensor.cpu(), end["model"][name])
        assert torch.allclose(learner.reference.state_dict()[name], end["reference"][name], atol=1e-7)
    names = [name for name, _ in loaded.model.named_parameters()]
    moments = {
        names[key] if isinstance(key, int) else key: one["exp_avg"]
        for key, one in torch.load(folder / "state.pt", weights_only=True)["optimizer"]["state"].items()
    }
    return {"figures": figures, "moments": moments, "reference": end["reference"]}


def whole_run(start: Path, out: Path) -> dict[str, Any]:
    tasks, checked = (
        [task(1 + number % 2, number) for number in range(4)],
        [task(1, 10 + number) for number in range(4)],
    )
    return train_online(
        start,
        tasks,
        out,
        OnlineConfig.parsed(RUN),
        pool=pool(),
        validation=checked,
        state_dir=out.with_suffix(".state"),
    ).metrics


def on_a_rank(folder: Path, start: Path) -> None:
    """What each of two processes does; the second one has no weights of its own."""
    torch.set_num_threads(1)
    with launched() as group:
        if not group.first:
            for given in [settings(form) for form in FORMS for _ in range(2)] + [OnlineConfig.parsed(RUN)]:
                follow(start, given)
            return
        torch.save({form: course(start, form, folder) for form in FORMS}, folder / "courses.pt")
        torch.save(whole_run(start, folder / "run"), folder / "run.pt")


def follow(start: Path, given: OnlineConfig) -> None:
    with hollow_models():
        loaded = load_checkpoint(start)
    Learner(loaded.model, loaded.processor, given).follow()


@pytest.fixture(scope="module")
def two_ranks(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    on_two_ranks(on_a_rank, folder, start)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_two_ranks_take_one_processes_steps(form: str, start: Path, two_ranks: Path, tmp_path: Path) -> None:
    expected = course(start, form, tmp_path)
    found = torch.load(two_ranks / "courses.pt", weights_only=True)[form]
    for mine, theirs in zip(expected["figures"], found["figures"], strict=True):
        assert mine.keys() == theirs.keys()
        assert all(theirs[word] == pytest.approx(value, rel=2e-4, abs=1e-6) for word, value in mine.items())
    assert expected["figures"][0]["grad_norm"] == pytest.approx(found["figures"][0]["grad_norm"], rel=1e-5)
    shared = expected["moments"].keys() & found["moments"].keys()
    assert len(shared) > (12 if FORMS[form].get("freeze_vision") else 20)
    for name in shared:
        difference = float((expected["moments"][name] - found["moments"][name]).norm())
        assert difference <= 1e-4 * float(expected["moments"][name].norm().clamp_min(1e-6)), name
    for name, tensor in expected["reference"].items():
        torch.testing.assert_close(found["reference"][name], tensor, rtol=1e-3, atol=1e-4)


def test_a_whole_run_on_two_ranks(start: Path, two_ranks: Path, tmp_path: Path) -> None:
    expected, found = whole_run(start, tmp_path / "run"), torch.load(two_ranks / "run.pt", weights_only=True)
    mine, theirs = expected["curve"][0], found["curve"][0]  # from equal weights, so of equal rollouts
    assert mine["reward"] == theirs["reward"] and mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3, abs=1e-5)
    assert len(found["curve"]) == 2 and len(found["validation"]) == len(expected["validation"])
    assert load_checkpoint(two_ranks / "run").lineage["stage"] == "online"
    assert not list(Path(two_ranks / "run.state").glob("*.pt"))


def test_a_state_of_several_ranks_is_refused_by_one_process(start: Path, two_ranks: Path) -> None:
    loaded = load_checkpoint(start)
    learner = OnlineLearner(loaded.model, loaded.processor, settings("several iterations"))
    with pytest.raises(ValueError, match="several ranks"):
        learner.load(torch.load(two_ranks / "state.pt", weights_only=True))
