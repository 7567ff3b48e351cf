"""The card of a checkpoint: from its lineage, longer once it is evaluated, and no part of any version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from corpusmaker import commit
from goldmaker import gold
from killable import TRAINER

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.model_card import checkpoint_card, is_checkpoint, write_cards
from pipelines.store import Store
from pipelines.store.verify_store import damages
from pipelines.training_data.dataset_card import CARD, LICENCES
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
    assert write_cards(store, made) == ""
    card = (made.directory / CARD).read_text()
    assert "`evaluations/base` has not evaluated this version." in card and '"tokenizer_texts": ' in card
    assert 'from_pretrained("THIS FOLDER/model")' in card
    evaluated = run_stage("evaluations/base", store.home, CONFIG, progress=False)
    assert write_cards(store, evaluated) == ""
    text = (made.directory / CARD).read_text()
    assert "| toy | CC0-1.0 |" in (made.directory / LICENCES).read_text()
    assert evaluated.version in checkpoint_card(Manifests(store), made, "here").about, "an export has the figures too"
    front = yaml.safe_load(text.split("---")[1])
    assert front["library_name"] == "transformers" and isinstance(front["datasets"], list)
    for word in ("control: blind", "control: random element", "control: swapped", "## Limits", made.version):
        assert word in text, word
    again = run_stage("base", store.home, CONFIG, progress=False)
    assert again == made == store.require("checkpoints/base") and not list(damages(store))
    assert (made.directory / CARD).read_text() == text, "a rerun leaves it"


def test_a_card_that_can_not_be_written_ends_no_run_and_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = commit(store, "checkpoints/base", {"mid_training/shards": "0" * 16}, files={"model/settings.json": b"{torn"})
    assert write_cards(store, made).startswith(
        f"checkpoints/base@{made.version}: its card wasn't written: JSONDecodeError"
    )


def test_another_machine_reads_the_card_as_it_was_last_written(tmp_path: Path) -> None:
    bucket = (tmp_path / "bucket").as_uri()
    here = Store(tmp_path / "here", bucket)
    made = commit(here, "checkpoints/base", {}, files={"model/config.json": b"{}"})
    assert write_cards(here, made) == ""
    assert (
        "has not evaluated"
        in (Store(tmp_path / "there", bucket).version(made.asset, made.version).directory / CARD).read_text()
    )
    tested = commit(here, "evaluations/base", {made.asset: made.version}, counts={"grounding hit": 0.5})
    assert write_cards(here, tested) == ""
    other = Store(tmp_path / "other", bucket).require("checkpoints/base")
    assert (
        "| grounding hit | 0.5000 |" in (other.directory / CARD).read_text() and (other.directory / LICENCES).is_file()
    )


def test_which_assets_have_one() -> None:
    names = ("checkpoints/unified", "experiments/a/checkpoints/base", "checkpoints/nano_judge", "evaluations/base")
    assert [is_checkpoint(name) for name in names] == [True, True, False, False]
