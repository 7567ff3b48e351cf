"""A checkpoint of a store: its folder, where it comes from, a card for people, and the model itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import origins
from pipelines.extras import telling_extras
from pipelines.markdown_text import markdown_text
from pipelines.store import Manifest
from pipelines.store.whole_versions import complete

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL = "config.json"
"""Stands beside the weights of a checkpoint."""


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
        """Markdown: what it is, its data with their licences, what was measured and checked."""
        return "\n".join(_card(self._manifest, self._manifests))

    def load(self, **options: object) -> PreTrainedModel:
        """The model, by transformers' `from_pretrained` with these options. Raises `MissingExtra` without it."""
        with telling_extras():
            from transformers import AutoModelForImageTextToText
        return AutoModelForImageTextToText.from_pretrained(self.path, **options)


def _card(manifest: Manifest, manifests: Manifests) -> Iterator[str]:
    found = origins(manifests, manifests.start(f"{manifest.asset}@{manifest.version}"))
    yield f"# {manifest.asset}@{manifest.version}\n"
    yield f"Made by Vesper{manifest.code_revision and f', code revision {manifest.code_revision}'}.\n"
    yield "| dataset | version | role | licence | trained rows |\n|---|---|---|---|---|"
    for one in found.datasets:
        yield _line(one.name, one.version, one.role, one.licence, one.rows.get("trained"))
    for made in found.generated:
        yield _line(made.asset, made.version, "generated", "Vesper's own worlds", made.trained)
    yield "\n| measured | value |\n|---|---|"
    for name, value in sorted(manifest.counts.items()):
        if isinstance(value, int | float | str):
            yield _line(name, f"{value:.4g}" if isinstance(value, float) else value)
    yield "\n| check | passed | found | expected |\n|---|---|---|---|"
    for check in manifest.checks:
        yield _line(check.name, "yes" if check.passed else "no", check.found, check.expected)
    yield "\n| made from | version |\n|---|---|"
    for asset, version in sorted(manifest.inputs.items()):
        yield _line(asset, version)


def _line(*cells: object) -> str:
    """A line of a table; what nobody counted is a dash."""
    return f"| {' | '.join('-' if cell is None else markdown_text(str(cell)) for cell in cells)} |"
