"""Distillation on a tiny model: the student takes on what its teachers can, exactly as often as it is run."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from drawn import make_rows, scroll_rows
from forked import kill_myself, run_until_killed

from pipelines.prompts import prompt_text
from schemas.actions import Click, Wait
from trainer.data.row_sources import ListSource
from trainer.distill.hints import with_hindsight, with_type
from trainer.distill.train import DomainRows, distill
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import lineage, load_checkpoint, save_checkpoint
from trainer.modeling.tensors import CheckpointMismatch, WeightFiles
from trainer.rl.rewards import ReplyTarget
from trainer.settings.distill import DistillSettings, Teachers
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.slow

SETTINGS = DistillSettings(
    teachers=Teachers(mobile=None),
    divergence="full",
    updates=6,
    prompts=8,
    learning_rate=1e-3,
    warmup_steps=1,
    validation_limit=6,
    held_out_limit=9,
    eval_steps=3,
    save_steps=2,
    keep="last",
    threads=1,
)


@pytest.fixture(scope="module")
def folders(habitual: Path, tmp_path_factory: pytest.TempPathFactory, tiny_preset: Any) -> dict[str, Path]:
    """A student that scrolls up twice as often as down, and a teacher that went on from there and knows better."""
    loaded, teacher = load_checkpoint(habitual), tmp_path_factory.mktemp("models") / "teacher"
    config = MidtrainConfig(max_steps=40, batch_size=16, learning_rate=4e-3, warmup_steps=5, threads=1)
    rows = scroll_rows(16, 1) + make_rows(16, 1)
    train(loaded.model, loaded.processor, ListSource(rows), config, progress=False)
    save_checkpoint(teacher, loaded.model, loaded.processor, lineage("teacher", tiny_preset))
    return {"start": habitual, "teacher": teacher}


def run(folders: dict[str, Path], out: Path, settings: DistillSettings = SETTINGS, **options: Any) -> dict[str, Any]:
    teachers = dict.fromkeys(settings.teachers.names, folders["teacher"])
    rows = {
        "web": DomainRows(concluded(scroll_rows(24, 2)), scroll_rows(8, 3)),
        "grounding": DomainRows(make_rows(40, 2), make_rows(12, 3)),
    }
    return distill(folders["start"], teachers, rows, out, settings, **options).metrics  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("trained") / "out"
    return out, run(folders, out)


def test_the_student_learns_what_its_teacher_can(trained: tuple[Path, dict[str, Any]]) -> None:
    web = trained[1]["domains"]["web"]
    assert web["after"]["step_success"] > web["before"]["step_success"] + 0.3
    assert web["success_gain"]["low"] > 0 and trained[1]["weight_delta"] > 0


def test_the_checkpoint_carries_teachers_and_figures(
    trained: tuple[Path, dict[str, Any]], folders: dict[str, Path]
) -> None:
    out, metrics = trained
    loaded = load_checkpoint(out)
    assert loaded.lineage["stage"] == "distilled"
    teacher = WeightFiles(folders["teacher"]).digest()
    assert loaded.lineage["parents"] == {
        "start": WeightFiles(folders["start"]).digest(),
        "offline_grounding": teacher,
        "online_web": teacher,
    }
    assert json.loads((out / "distillation.json").read_text()) == json.loads(json.dumps(metrics))
    assert [event["replies"] for event in metrics["curve"]] == [16] * 6
    for event in metrics["curve"]:
        shares = event["right"] + event["wrong_type"] + event["wrong_parameters"] + event["unreadable_share"]
        assert shares == pytest.approx(1) and event["pushed"] == round(16 * (1 - event["right"]))


def concluded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Half of the rows say what followed."""
    empty, text = (f"<conclusion>{said}</conclusion>" for said in ("", "The list moved on."))
    return [{**row, "answer": row["answer"].replace(empty, text if at % 2 else empty)} for at, row in enumerate(rows)]


@pytest.mark.parametrize("changes", [{"divergence": "sampled"}, {"objective": "hindsight", "divergence": "sampled"}])
def test_the_other_forms_train_too(folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any]) -> None:
    metrics = run(folders, tmp_path / "out", SETTINGS.changed(updates=2, **changes))
    if "objective" in changes:
        assert metrics["unusable"]["web"]["train"]["no_hint"] > 0
        assert [event["pushed"] for event in metrics["curve"]] == [16, 16], "right or wrong"
    assert metrics["weight_delta"] > 0 and all(abs(event["ratio"] - 1) < 1e-3 for event in metrics["curve"])


def train_until(folders: dict[str, Path], out: Path, state: Path, update: int) -> None:
    """Train, and die after that update."""

    def event(told: dict[str, Any]) -> None:
        if told["kind"] == "update" and told["update"] == update:
            kill_myself()

    run(folders, out, state_dir=state, on_event=event)


def test_a_run_killed_with_9_goes_on_to_the_same_bytes(
    folders: dict[str, Path], trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    at = random.Random(os.urandom(8)).randint(1, SETTINGS.updates)
    saved = (at - 1) // SETTINGS.save_steps * SETTINGS.save_steps
    run_until_killed(train_until, folders, tmp_path / "out", tmp_path / "state", at)
    events: list[dict[str, Any]] = []
    resumed = run(folders, tmp_path / "out", state_dir=tmp_path / "state", on_event=events.append)
    assert [event["update"] for event in events if event["kind"] == "resumed"] == ([saved] if saved else []), at
    assert resumed == trained[1], at
    assert WeightFiles(tmp_path / "out").digest() == WeightFiles(trained[0]).digest(), at
    assert not list((tmp_path / "state").iterdir()), at


def test_what_is_missing_is_named(folders: dict[str, Path], start: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected checkpoints of online_web, found no online_web"):
        distill(
            folders["start"], {}, {}, tmp_path / "out", SETTINGS.changed(teachers=Teachers(grounding=None, mobile=None))
        )
    with pytest.raises(ValueError, match="expected rows of mobile"):
        run(folders, tmp_path / "out", SETTINGS.changed(teachers=Teachers()))
    with pytest.raises(CheckpointMismatch):
        run({**folders, "teacher": start}, tmp_path / "out")


def test_settings_that_contradict_are_refused() -> None:
    with pytest.raises(ValueError, match="a teacher of one domain at least"):
        Teachers(grounding=None, mobile=None, web=None)
    with pytest.raises(ValueError, match="num_iterations 1"):
        SETTINGS.changed(num_iterations=2)
    one = Teachers(grounding="offline_web", mobile=None, web="offline_web")
    assert one.names == ("offline_web",) and one.of_domains == {"grounding": "offline_web", "web": "offline_web"}


class TestHints:
    row = make_rows(4, 1)[3]

    def test_the_type_stands_behind_the_question(self) -> None:
        told = with_type(self.row, ReplyTarget("navigation", Click((1, 2))))
        assert (
            prompt_text(told["messages"]) == prompt_text(self.row["messages"]) + " The right type of action is Click."
        )
        assert with_type(self.row, ReplyTarget("grounding", refusal=True)) is self.row

    def test_hindsight_is_of_the_stored_conclusion(self) -> None:
        answer = "<think></think><action>Wait()</action><conclusion>The page has loaded.</conclusion>"
        told = with_hindsight({**self.row, "answer": answer}, ReplyTarget("navigation", Wait()))
        assert told is not None
        assert prompt_text(told["messages"]).endswith(" is Wait. What follows from it: The page has loaded.")
        assert with_hindsight(self.row, ReplyTarget("navigation", Wait())) is None, "nothing is known of what followed"
