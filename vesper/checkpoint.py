"""A checkpoint of a store: its folder, where it comes from, a card for people, and the model itself."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.model_card import MODEL, checkpoint_card
from dagster_project.lineage.origins import origins
from pipelines.extras import telling_extras
from pipelines.store import Manifest
from pipelines.store.whole_versions import complete
from pipelines.training_data.dataset_card import card_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Checkpoint:
    """One committed version of a checkpoint."""

    def __init__(self, manifests: Manifests, manifest: Manifest) -> None:
        self._manifests, self._manifest = manifests, manifest
        self.asset, self.version = manifest.asset, manifest.version

    def __repr__(self) -> str:
        return f"<{self.asset}@{self.version}>"

    @cached_property
    def path(self) -> Path:
        """The folder that `from_pretrained` and vLLM take, with all of its files. Raises `ValueError` where the asset
        isn't a model of that form (a judge's weights)."""
        folder = complete(self._manifest)
        found = next((path.parent for path in sorted(folder.glob(f"*/{MODEL}"))), folder)
        if not (found / MODEL).is_file():
            raise ValueError(f"{self.asset}@{self.version}: expected a model with {MODEL}, found none in {folder}")
        return found

    @cached_property
    def lineage(self) -> dict[str, object]:
        """Back to the native files, as `vesper lineage NAME --json` prints it."""
        return origins(self._manifests, self._manifests.start(f"{self.asset}@{self.version}")).plain()

    @property
    def counts(self) -> dict[str, object]:
        """What was counted and measured while it was made."""
        return dict(self._manifest.counts)

    @cached_property
    def card(self) -> str:
        """Markdown, as `vesper export checkpoint` writes it: held-out figures, the rows that it was trained on with
        their licences, and what it was made from."""
        card = checkpoint_card(self._manifests, self._manifest, str(self.path), f"Of {self._manifests.store.home}.")
        return "\n".join(card_texts(card).values())

    def load(self, **options: object) -> PreTrainedModel:
        """The model, by transformers' `from_pretrained` with these options. Raises `MissingExtra` without it."""
        with telling_extras():
            from transformers import AutoModelForImageTextToText
        return AutoModelForImageTextToText.from_pretrained(self.path, **options)
