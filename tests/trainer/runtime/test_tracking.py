"""Metrics go to TensorBoard by the names of TRL, and a resumed run goes on in the same curves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from event_files import scalars_of

from trainer.data.row_sources import ListSource
from trainer.midtrain.train import train
from trainer.runtime.tracking import Watch, kept
from trainer.settings.supervised import MidtrainConfig

CONFIG = MidtrainConfig(max_steps=6, batch_size=3, warmup_steps=1, save_steps=2, eval_steps=3, threads=1)


class Stop(Exception):
    pass


def test_events_of_a_broken_and_resumed_run_are_one_curve(
    processor: Any, rows: list[dict[str, Any]], tiny_preset: Any, tmp_path: Path
) -> None:
    from trainer.modeling.model import build_model

    def stop(event: dict[str, Any]) -> None:
        if event["kind"] == "step" and event["step"] == 5:
            raise Stop

    def go(**given: Any) -> Any:
        fresh = build_model(tiny_preset, processor.tokenizer, seed=2)
        config = CONFIG.changed(packing=True, max_length=160, packing_window=8)
        return train(
            fresh, processor, ListSource(rows), config, state_dir=tmp_path, validation=rows[:4], progress=False, **given
        )

    with pytest.raises(Stop):
        go(on_event=stop)
    time.sleep(1.1)  # event files are read in the order of their names, which begin with the second
    curve = go()
    scalars = scalars_of(tmp_path / "runs")
    assert [step for step, _ in scalars["train/loss"]] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in scalars["train/loss"]] == pytest.approx([s["loss"] for s in curve.steps])
    assert scalars["train/num_tokens"][-1][1] == sum(step["tokens"] for step in curve.steps)
    assert {"train/learning_rate", "train/grad_norm", "train/packing_fill", "eval/all_loss"} <= set(scalars)
    assert [step for step, _ in scalars["eval/all_loss"]] == [0, 3, 6]
    assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "runs"}


def test_without_a_folder_nothing_is_written(
    model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train(model, processor, ListSource(rows), CONFIG.changed(max_steps=1), progress=False)
    assert not list(tmp_path.iterdir())


def _update(number: int, **more: float) -> dict[str, Any]:
    return {
        "kind": "update",
        "update": number,
        "loss": number / 8,
        "reward": 0.5,
        "kl": 0.25,
        "entropy": 2.0,
        "groups": 4,
        "zero_variance": 1,
        **more,
    }


def test_events_of_reinforcement_learning_are_one_curve_and_a_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = {"kind": "start", "updates": 4}
    before = {"kind": "held_out", "when": "before", "reward": 0.125, "tasks": 3}
    look = {"kind": "look", "reward": 0.25, "trace_success": None, "traces": 0}
    seen: list[dict[str, Any]] = []
    killed = [start, before, {**look, "update": 0}, _update(1), _update(2), {"kind": "saved", "update": 2}, _update(3)]
    terms = {"reward_std": 0.125, "rewards/format/mean": 0.875, "rewards/format/std": 0.25}
    goes_on = [
        start,
        before,
        {"kind": "resumed", "update": 2},
        _update(3, success=0.75),
        _update(4, **terms),
        {**look, "step_success": 0.625, "update": 4},
        {"kind": "trained", "update": 4},
        {**before, "when": "after", "reward": 0.5},
    ]
    for number, events in enumerate((killed, goes_on)):
        time.sleep(1.1 * number)  # event files are read in the order of their names, which begin with the second
        with Watch(tmp_path, seen.append, progress=True, label="offline_web") as watch:
            for event in events:
                watch(event)
    assert seen == [*killed, *goes_on]
    scalars = scalars_of(tmp_path / "runs")
    assert scalars["train/loss"] == [(1, 0.125), (2, 0.25), (3, 0.375), (4, 0.5)]
    assert scalars["train/frac_reward_zero_std"] == [(step, 0.25) for step in (1, 2, 3, 4)]
    assert scalars["train/success"] == [(3, 0.75)] and scalars["eval/reward"] == [(0, 0.25), (4, 0.25)]
    assert scalars["held_out/reward"] == [(0, 0.125), (4, 0.5)] and scalars["eval/step_success"] == [(4, 0.625)]
    assert {tag: scalars[f"train/{tag}"] for tag in terms} == {tag: [(4, value)] for tag, value in terms.items()}
    assert {"train/reward", "train/kl", "train/entropy"} <= set(scalars) and "eval/trace_success" not in scalars
    assert len(kept(tmp_path)) == 2
    told = capsys.readouterr().err
    assert "offline_web" in told and "4/4" in told and "reward 0.500, loss 0.500, kl 0.250" in told


def test_a_run_that_begins_again_leaves_nothing_of_one_that_saved_nothing(tmp_path: Path) -> None:
    for number, loss in enumerate((1.0, 2.0)):
        time.sleep(1.1 * number)
        with Watch(tmp_path, lambda event: None) as watch:
            watch({"kind": "start", "updates": 4})
            watch({"kind": "validation", "update": 0, "success": 0.0})
            watch(_update(1, loss=loss))
    scalars = scalars_of(tmp_path / "runs")
    assert scalars["train/loss"] == [(1, 2.0)] and scalars["eval/success"] == [(0, 0.0)]
