"""Two ranks learn what one process does: same gradients, same reference, a state to go on from, whole runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from choice_world import pool, task
from online_runs import plain_grpo, two_rollouts, update
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from two_ranks import on_two_ranks

from trainer.modeling.checkpoint import load_checkpoint
from trainer.online.train import train_online
from trainer.rl.grpo import group_advantages
from trainer.rl.learner import Learner
from trainer.runtime.parallel import hollow_models, launched
from trainer.runtime.rates import names_in_order
from trainer.runtime.training_state import StateFile
from trainer.settings.online import OnlineConfig

pytestmark = pytest.mark.slow

GRPO = {"beta": 0.1, "entropy_coef": 0.01, "stale_cap": 2.0}
FORMS: dict[str, dict[str, Any]] = {
    "one part each and one over": {"micro_batch": 1, "learning_rate_scales": {"visual": 0.5, "norm": 2.0}},
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
    learner = Learner(loaded.model, loaded.processor, given)
    assert learner.reference is not None
    figures = [update(learner, made, advantages, 0)]
    learner.blend(0.3)
    save(learner, saved(folder, form))
    figures.append(update(learner, made, advantages, 1))
    end = save(learner, saved(folder, f"{form}, end"))
    learner.close()
    other, again = taken_up(start, form, saved(folder, form))
    assert update(again, made, advantages, 1) == figures[1]
    again.close()
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]) and torch.equal(tensor.cpu(), end["model"][name])
        assert torch.allclose(learner.reference.state_dict()[name], end["reference"][name], atol=1e-7)
    return {"figures": figures, "moments": end["moments"], "reference": end["reference"]}


def saved(folder: Path, form: str) -> StateFile:
    return StateFile(folder / f"{form}.pt", "a run")


def save(learner: Learner, file: StateFile) -> dict[str, Any]:
    """The learner's state into a file; whole weights, and first moments by parameter."""
    kept = learner.state(file)
    file.save(kept["folder"], learner=kept)
    if not kept["folder"]:
        names = names_in_order(learner.model, learner.optimizer)
        moments = {names[place]: one["exp_avg"] for place, one in kept["optimizer"]["state"].items()}
        return {**kept, "moments": moments}
    assert file.path is not None and file.path.stat().st_size < 20_000  # weights and moments lie in their parts
    whole = file.path.with_suffix(".whole")
    dcp_to_torch_save(file.folder(kept["folder"]), whole)
    found = torch.load(whole, weights_only=True)
    return {**found, "moments": {name: one["exp_avg"] for name, one in found["optimiser"]["state"].items()}}


def taken_up(start: Path, form: str, file: StateFile) -> tuple[Any, Learner]:
    """A fresh model, and its learner with the state of a file."""
    loaded = load_checkpoint(start)
    learner = Learner(loaded.model, loaded.processor, settings(form))
    state = file.load()
    assert state is not None
    learner.load(state["learner"], file)
    return loaded.model, learner


def second_update(start: Path, form: str, file: StateFile) -> dict[str, float]:
    """As in `course`, from the state that another course left after its first update."""
    loaded, given = load_checkpoint(start), settings(form)
    made, advantages = two_rollouts(loaded, 0.1), group_advantages([[1.0, 0.0]], given.grpo)
    _, learner = taken_up(start, form, file)
    found = update(learner, made, advantages, 1)
    learner.close()
    return found


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
    """What each of two processes does; the second one has no weights of its own. In `folder/alone` lie courses of one
    process."""
    torch.set_num_threads(1)
    with launched() as group:
        if not group.first:
            for given in [settings(form) for form in FORMS for _ in range(3)] + [OnlineConfig.parsed(RUN)]:
                follow(start, given)
            return
        found = {}
        for form in FORMS:
            found[form] = course(start, form, folder)
            found[form]["from one process"] = second_update(start, form, saved(folder / "alone", form))
        torch.save(found, folder / "courses.pt")
        torch.save(whole_run(start, folder / "run"), folder / "run.pt")


def follow(start: Path, given: OnlineConfig) -> None:
    with hollow_models():
        loaded = load_checkpoint(start)
    Learner(loaded.model, loaded.processor, given).follow()


@pytest.fixture(scope="module")
def two_ranks(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    torch.save({form: course(start, form, folder / "alone") for form in FORMS}, folder / "alone.pt")
    on_two_ranks(on_a_rank, folder, start)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_two_ranks_take_one_processes_steps(form: str, two_ranks: Path) -> None:
    expected = torch.load(two_ranks / "alone.pt", weights_only=True)[form]
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
    assert not list(Path(two_ranks / "run.state").glob("*rl*"))  # the state went with the run that ended


@pytest.mark.parametrize("form", FORMS)
def test_a_state_is_gone_on_from_by_more_ranks_and_by_fewer(form: str, start: Path, two_ranks: Path) -> None:
    course_of_two = torch.load(two_ranks / "courses.pt", weights_only=True)[form]
    expected = course_of_two["figures"][1]
    for found in (course_of_two["from one process"], second_update(start, form, saved(two_ranks, form))):
        assert found.keys() == expected.keys()
        assert all(found[word] == pytest.approx(value, rel=2e-4, abs=1e-6) for word, value in expected.items())
