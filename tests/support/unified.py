"""Runs the path of `vesper unify` on a raw folder and holds what came out as rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.unify.unify import unify_source

TABLES = ("steps", "samples", "screens", "quarantine")


@dataclass
class Unified:
    """What `unify` made of a raw folder."""

    manifest: Manifest
    steps: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    screens: list[dict[str, Any]]
    quarantine: list[dict[str, Any]]

    @property
    def actions(self) -> list[str | None]:
        return [row["action_text"] for row in self.steps]

    @property
    def reasons(self) -> dict[str, int]:
        return dict(self.manifest.counts["reasons"])

    @property
    def items(self) -> tuple[int, int, int]:
        """Native items in, mapped, quarantined; the quarantine table must hold exactly the last."""
        counts = self.manifest.counts
        found = counts["items_in"], counts["items_mapped"], counts["items_quarantined"]
        assert found[0] == found[1] + found[2]
        assert found[2] == sum(row["items"] for row in self.quarantine)
        return found

    def balanced(self) -> bool:
        """in = mapped + quarantined, and the quarantine table holds exactly the quarantined ones."""
        return bool(self.items)

    def provenance(self, place: int) -> dict[str, Any]:
        return dict(json.loads(self.steps[place]["provenance"]))


def unify(home: Path, source: str, root: Path, **companions: Path) -> Unified:
    """Native files → unified tables."""
    manifest = unify_source(Store(home), source, Raw(root, companions))
    names = {entry.table for entry in manifest.files}
    return Unified(manifest, *(manifest.read(name).to_pylist() if name in names else [] for name in TABLES))
