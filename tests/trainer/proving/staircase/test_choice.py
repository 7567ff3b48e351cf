"""The choice of tasks by measurement, the blind table, and when mid-training has taught enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from boxes_ground import BoxesWorld
from hypothesis import given
from hypothesis import strategies as st

from schemas.action_types import Click, Finished, Type
from trainer.proving.staircase import early_stop
from trainer.proving.staircase.blind import BlindActions
from trainer.proving.staircase.choice import ChoiceConfig, choose, choose_tasks, measure_family, read_tasks
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.early_stop import EarlyStopping, StopTraining
from trainer.proving.staircase.tasks import SPLIT_SEEDS, Family, episode


def test_blind_table_takes_texts_from_the_goal_and_the_densest_place() -> None:
    table = BlindActions()
    for number, (name, x) in enumerate([("Anna", 100), ("Bo", 110), ("Cy", 120), ("Di", 900)]):
        table.add("f", f'Write "{name}" to "{number}"', [Click((x, 500)), Type(name), Finished()])
    goal = 'Write "Zoe" to "9"'
    assert table.action("f", goal, 0) == Click((110, 500))
    assert table.action("f", goal, 1) == Type("Zoe")
    assert table.action("f", goal, 2) == Finished() and table.action("g", goal, 0) == Finished()
    assert table.action("f", 'Write "Di" to "3"', 0) == Click((900, 500))  # a goal that it knows


rows = st.lists(
    st.fixed_dictionaries(
        {
            "family": st.text("ab", min_size=1, max_size=4),
            "world": st.sampled_from(["miniwob", "fsm"]),
            "held_out": st.booleans(),
            "oracle": st.floats(0, 1),
            "blind": st.floats(0, 1),
        }
    ),
    max_size=12,
)


@given(rows, st.integers(0, 3))
def test_only_what_can_be_done_and_not_guessed_is_chosen(found: list[dict[str, Any]], most: int) -> None:
    config = ChoiceConfig(most={"miniwob": most, "fsm": 2})
    chosen = choose(found, config)
    assert [row["family"] for row in chosen] == [row["family"] for row in found]
    for row in chosen:
        fits = not row["held_out"] and row["oracle"] >= 0.95 and row["blind"] <= 0.3
        assert bool(row["why"]) != row["chosen"] and (fits or not row["chosen"])
    for world, limit in (("miniwob", most), ("fsm", 2)):
        fitting = [row for row in chosen if row["world"] == world and row["why"] in ("", "enough of its world")]
        assert [row["chosen"] for row in fitting] == [place < limit for place in range(len(fitting))]


def test_measured_once_and_kept_under_a_digest(tmp_path: Path, choice: ChoiceConfig) -> None:
    events: list[dict[str, Any]] = []
    tasks = choose_tasks(tmp_path, choice, events.append)
    measured = {row["family"]: row for row in tasks.measured}
    assert tasks.families() == ["boxes/one", "boxes/two"] and measured["boxes/other"]["why"] == "its pages are held out"
    for name in tasks.families():
        assert measured[name]["oracle"] == 1.0 and measured[name]["blind"] < 0.6
    seeds = {split: {c.initial_state["seed"] for _, c in tasks.of(split)} for split in ("train", "validation", "test")}
    assert all(seed // 1_000_000 * 1_000_000 == SPLIT_SEEDS[split] for split in seeds for seed in seeds[split])
    assert [len(tasks.of("train", each=2)), len(tasks.of("train", "phone"))] == [4, 0]

    (tmp_path / "tasks.json").unlink()  # killed before its last file
    part = next((tmp_path / "measured").glob("boxes.one-*"))
    before = part.stat().st_mtime_ns
    assert choose_tasks(tmp_path, choice).digest == tasks.digest and part.stat().st_mtime_ns == before

    body = json.loads((tmp_path / "tasks.json").read_text())
    body["measured"][0]["blind"] = 0.0
    (tmp_path / "tasks.json").write_text(json.dumps(body))
    with pytest.raises(ValueError, match="isn't what its digest"):
        read_tasks(tmp_path)
    with pytest.raises(ValueError, match="no families"):
        choose_tasks(tmp_path / "none", ChoiceConfig(worlds=("boxes",), families=("boxes/ten",)))


def test_once_a_world_has_enough_the_rest_is_not_measured(
    tmp_path: Path, choice: ChoiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def measured(family: Family, *given: Any) -> dict[str, Any]:
        tried.append(family.name)
        return measure_family(family, *given)

    monkeypatch.setattr("trainer.proving.staircase.choice.measure_family", measured)
    tasks = choose_tasks(tmp_path, choice.changed(most={"boxes": 1}))
    rows = {row["family"]: row for row in tasks.measured}
    assert tasks.families() == ["boxes/one"] and "boxes/two" not in tried
    assert rows["boxes/two"]["oracle"] is None and rows["boxes/two"]["why"] == "enough of its world"
    assert rows["boxes/other"]["why"] == "its pages are held out"


def test_training_stops_in_the_window(tmp_path: Path, tiny: StaircaseConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    shares = iter([0.1, 0.3, 0.8])

    def tried(*given: Any, **how: Any) -> dict[str, Any]:
        share = {"mean": next(shares)}
        return {"summary": {"pass_at_k": {"1": share}}}

    monkeypatch.setattr("trainer.proving.staircase.early_stop.world_success", tried)
    checkpoint = type("C", (), {"model": torch.nn.Linear(1, 1)})()
    contract = episode(Family("boxes/one"), 1, BoxesWorld())
    assert contract is not None
    tiny = tiny.changed(look_every=3)
    looks = EarlyStopping(tmp_path, tiny, [contract], checkpoint, lambda event: None)
    kept = None
    with pytest.raises(StopTraining, match=r"0\.80 after 9 steps"):
        for step in range(1, 20):
            with torch.no_grad():
                checkpoint.model.weight.fill_(step)
            looks.after(step, 19)
            kept = step
    assert kept == 8
    told = looks.settle()  # 0.8 is too much: the weights of the look before are taken
    assert told["kept_step"] == 6 and told["in_window"] and checkpoint.model.weight.item() == 6
    assert (tmp_path / early_stop.LOOKS).is_file()
    again = EarlyStopping(tmp_path, tiny, [contract], checkpoint, lambda event: None)
    again.after(3, 19)  # known: nothing is tried again
    again.after(6, 19)
