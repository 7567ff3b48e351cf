"""One version of each asset, and the items that it holds: where the outcome of an item is looked up."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.rows import TableVersions
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.removed import Removed, removed_items


@dataclass(frozen=True, slots=True)
class TracedItem:
    """A sample or step to be looked up, as one corpus has it. `parents`: the item ids that it was derived from, without
    versions."""

    id: str
    source: str
    parents: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    split: str = ""

    @property
    def is_step(self) -> bool:
        """Steps go by `step:...`, samples by their bare id."""
        return self.id.startswith("step:")


@dataclass
class CorpusVersions:
    """One version of each asset: what a corpus was built from, or what is current."""

    store: Store
    manifests: dict[str, Manifest] = field(default_factory=dict)

    @classmethod
    def current(cls, manifests: Manifests) -> "CorpusVersions":
        """What consumers read now."""
        found = {asset: manifests.current(asset) for asset in manifests.pointers}
        return cls(manifests.store, {asset: manifest for asset, manifest in found.items() if manifest is not None})

    @classmethod
    def of(cls, manifests: Manifests, *made: Manifest) -> "CorpusVersions":
        """What some versions were built from, themselves included, but for what only older agents learned from; of
        several versions of an asset the nearest."""
        found: dict[str, Manifest] = {manifest.asset: manifest for manifest in made}
        inputs = [node for manifest in made for node in manifest.inputs.items()]
        for node, above in manifests.upstream(inputs, past_agents=False).items():
            if above is not None:
                # `upstream` gives the nearest first, so the first of an asset is the one that was really
                # read.
                found.setdefault(node[0], above)
        return cls(manifests.store, found)

    def get(self, asset: str) -> Manifest | None:
        """The version of an asset; None if this corpus has none."""
        return self.manifests.get(asset)

    def table(self, asset: str, name: str) -> TableVersions:
        """A table of it; empty if there is none."""
        manifest = self.get(asset)
        return TableVersions([manifest] if manifest else [], name)

    def samples(self, asset: str, ids: Iterable[str]) -> list[TracedItem]:
        """Those of some samples that an asset here holds, in the order of their ids."""
        wanted = sorted(set(ids))
        columns = ["sample_id", "source", "parents", "images", "split"]
        rows = self.table(asset, "samples").with_ids(columns, "sample_id", wanted)
        found = [
            TracedItem(row["sample_id"], row["source"], tuple(row["parents"]), tuple(row["images"]), row["split"])
            for _, row in rows
        ]
        return sorted(found, key=lambda item: item.id)

    def removed(self, asset: str) -> Removed:
        """What `hygiene/contamination` or `hygiene/safety` keeps out here."""
        # As that corpus read it: the current version may hold other ids by now.
        manifest = self.get(asset)
        return Removed() if manifest is None else removed_items(_Pinned(self.store, manifest), asset)


class _Pinned(Store):
    """A store whose current version of one asset is the one of a corpus."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        super().__init__(store.home)
        self._manifest = manifest

    def current(self, asset: str) -> Manifest | None:
        return self._manifest if asset == self._manifest.asset else super().current(asset)
