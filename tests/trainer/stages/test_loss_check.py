"""The check that the loss fell: by objective on validation, and a warning only."""

from __future__ import annotations

from trainer.stages.checkpoints import _loss_fell


def test_an_objective_that_was_unlearned_is_named_and_blocks_nothing() -> None:
    before = {"step": 0, "all": 3.0, "grounding": 3.0, "vqa": 2.0}
    after = {"step": 9, "all": 2.0, "grounding": 1.0, "vqa": 2.5}
    found = _loss_fell([before, after], 9.0, 1.0)
    assert not found.passed and not found.blocking and found.found == "vqa 2.000 -> 2.500"


def test_a_schedule_that_ends_on_a_harder_objective_warns_of_nothing() -> None:
    before = {"step": 0, "all": 3.0, "grounding": 3.0, "vqa": 2.0}
    after = {"step": 9, "all": 1.5, "grounding": 1.0, "vqa": 1.9}
    found = _loss_fell([before, after], 1.0, 9.0)
    assert found.passed and found.found == "all 3.000 -> 1.500, grounding 3.000 -> 1.000, vqa 2.000 -> 1.900"


def test_a_few_rows_may_rise_a_little() -> None:
    before, after = {"step": 0, "all": 3.0, "vqa": 2.0}, {"step": 9, "all": 2.0, "vqa": 2.1}
    assert _loss_fell([before, after], 1.0, 1.0).passed
    assert not _loss_fell([before, after | {"all": 3.0}], 1.0, 1.0).passed


def test_without_validation_the_steps_decide() -> None:
    assert _loss_fell([], 2.0, 1.0).passed and not _loss_fell([], 1.0, 2.0).passed
