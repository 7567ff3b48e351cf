"""Metrics go to TensorBoard by the names of TRL, and a resumed run goes on in the same curves."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainer.midtrain import ListSource, MidtrainConfig, train

CONFIG = MidtrainConfig(steps=6, batch_size=3, warmup=1, save_every=2, validate_every=3, threads=1)


class Stop(Exception):
    pass


def test_events_of_a_broken_and_resumed_run_are_one_curve(
    processor: Any, rows: list[dict[str, Any]], tiny_preset: Any, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from trainer.model import build_model

    def stop(event: dict[str, Any]) -> None:
        if event["kind"] == "step" and event["step"] == 5:
            raise Stop

    def go(**given: Any) -> Any:
        fresh = build_model(tiny_preset, processor.tokenizer, seed=2)
        config = replace(CONFIG, packing=True, max_length=160, packing_window=8)
        return train(fresh, processor, ListSource(rows), config, state_dir=tmp_path, validation=rows[:4],
                     progress=False, **given)  # fmt: skip

    with pytest.raises(Stop):
        go(on_event=stop)
    time.sleep(1.1)  # event files are read in the order of their names, which begin with the second
    curve = go()
    found = EventAccumulator(str(tmp_path / "runs"))
    found.Reload()
    scalars = {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    assert [step for step, _ in scalars["train/loss"]] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in scalars["train/loss"]] == pytest.approx([s["loss"] for s in curve.steps])
    assert scalars["train/num_tokens"][-1][1] == sum(step["tokens"] for step in curve.steps)
    assert {"train/learning_rate", "train/grad_norm", "train/packing_fill", "eval/all_loss"} <= set(scalars)
    assert [step for step, _ in scalars["eval/all_loss"]] == [3, 6]
    assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "runs"}


def test_without_a_folder_nothing_is_written(
    model: Any, processor: Any, rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train(model, processor, ListSource(rows), replace(CONFIG, steps=1), progress=False)
    assert not list(tmp_path.iterdir())
