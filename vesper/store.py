"""A store to read: its assets, the corpus, the task pool, checkpoints, and what became of single items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dagster_project.lineage.explain import explain
from dagster_project.lineage.manifests import Manifests
from generators.tasks.task_pool import SHARDS as POOL
from pipelines.home import named_home
from pipelines.store import Manifest, has_store
from pipelines.store import Store as Files
from pipelines.store.choose_version import named_version
from pipelines.training_data.shards import ASSET as SHARDS
from vesper.checkpoint import Checkpoint
from vesper.corpus import Names, Rows


@dataclass(frozen=True, slots=True)
class Asset:
    """The current version of an asset. `rows`: table → rows; `bytes` of all its files, shared ones included."""

    name: str
    version: str
    rows: dict[str, int]
    bytes: int
    checks_passed: bool


class Store:
    """What a store holds, for reading. Assets are named as everywhere: `gold/aitz` is the current version of one, and
    `gold/aitz@1f2e` the version that begins so. What isn't there raises `StoreError`, with the nearest names."""

    def __init__(self, home: str | Path | None = None) -> None:
        """As `vesper.open`."""
        folder = Path(home if home is not None else named_home()).expanduser()
        if not has_store(folder):
            raise ValueError(f"{folder}: expected a store (a $VESPER_HOME with assets/), found none; run `vesper demo`")
        self._files = Files(folder)

    def __repr__(self) -> str:
        return f"<store {self.home}>"

    @property
    def home(self) -> Path:
        """The folder of the store."""
        return self._files.home

    def assets(self) -> list[Asset]:
        """The current version of each asset, by name."""
        manifests = Manifests(self._files)
        found = (manifests.current(name) for name in sorted(manifests.pointers))
        return [_asset(manifest) for manifest in found if manifest is not None]

    def corpus(
        self,
        asset_or_version: str | None = None,
        *,
        table: str = "",
        source: Names = None,
        split: Names = None,
        objective: Names = None,
        platform: Names = None,
        licence: Names = None,
    ) -> Rows:
        """Rows to learn from: by default the packed samples of `mid_training/shards`, `@1f2e` an older version of them,
        or any other asset with tables (`gold/aitz`: its samples; with `table="steps"` its steps).

        The rest chooses rows by their columns: a value, or several. Raises `ValueError` for a table, a column or a
        value that isn't there.
        """
        given = asset_or_version or SHARDS
        manifest = named_version(self._files, f"{SHARDS}{given}" if given.startswith("@") else given)
        filters = {"source": source, "split": split, "objective": objective, "platform": platform, "licence": licence}
        return Rows(manifest, table, filters, self._files.screen_bytes)

    def pool(self, *, platform: Names = None, stratum: Names = None, origin: Names = None) -> Rows:
        """Tasks of `task_pool/shards`, which online RL draws from; `stratum` is easy, medium or hard, `origin` static
        or dynamic. Raises as `corpus` does."""
        filters = {"platform": platform, "stratum": stratum, "origin": origin}
        return Rows(named_version(self._files, POOL), "tasks", filters, self._files.screen_bytes)

    def checkpoint(self, name: str) -> Checkpoint:
        """`unified`, `checkpoints/unified`, `unified@1f2e`, `production`, or one of an experiment by its key."""
        return Checkpoint(Manifests(self._files), named_version(self._files, name))

    def explain(self, item_id: str, *, native: bool = False) -> dict[str, object]:
        """One item from its native row to the checkpoints that trained on it, as `vesper explain ITEM_ID --json` prints
        it. With `native` its record is read back from the native files. Raises `ValueError` if there is no such
        item."""
        return explain(Manifests(self._files), item_id, native)


def _asset(manifest: Manifest) -> Asset:
    entries = [*manifest.files, *manifest.side_files]
    rows = {table: manifest.rows(table) for table in sorted({entry.table for entry in entries if entry.table})}
    size = sum(entry.bytes for entry in entries)
    return Asset(manifest.asset, manifest.version, rows, size, manifest.checks_passed)
