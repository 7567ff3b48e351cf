"""The card of a checkpoint: from its lineage, longer once it is evaluated, and no part of any version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from goldmaker import gold
from killable import TRAINER

from dagster_project.lineage.model_card import CARD, is_checkpoint, write_cards
from pipelines.store.verify_store import damages
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages.run import run_stage

CONFIG: dict[str, Any] = {**TRAINER, "evaluate": {"threads": 1, "grounding": 6, "navigation": 4, "max_new_tokens": 8}}


@pytest.mark.slow
def test_a_card_tells_data_settings_and_figures_and_changes_no_version(tmp_path: Path) -> None:
    store = gold(tmp_path, count=20, parts=2)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    made = run_stage("base", store.home, CONFIG, progress=False)
    card = write_cards(store, made)
    assert "Not evaluated yet." in card and '"tokenizer_texts": ' in card
    evaluated = run_stage("evaluations/base", store.home, CONFIG, progress=False)
    assert write_cards(store, evaluated) == ""
    text = (made.directory / CARD).read_text()
    front = yaml.safe_load(text.split("---")[1])
    assert front["library_name"] == "transformers" and isinstance(front["datasets"], list)
    for word in ("control: blind", "control: random element", "control: swapped", "## Limits", made.version):
        assert word in text, word
    again = run_stage("base", store.home, CONFIG, progress=False)
    assert again == made == store.require("checkpoints/base") and not list(damages(store))
    assert (made.directory / CARD).read_text() == text, "a rerun leaves it"


def test_which_assets_have_one() -> None:
    names = ("checkpoints/unified", "experiments/a/checkpoints/base", "checkpoints/nano_judge", "evaluations/base")
    assert [is_checkpoint(name) for name in names] == [True, True, False, False]
