"""What may not train: what an evaluation suite holds (`hygiene/contamination`), what isn't safe (`hygiene/safety`), and
what people refused (`hygiene/human_verdicts`).

Those stages lie above this folder, so their results are read as data. `hygiene/shard_scan` doesn't trust this list: it
reads the shards themselves.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pipelines.store import Store
from pipelines.store.manifest import Manifest

CONTAMINATION, SAFETY, PEOPLE = "hygiene/contamination", "hygiene/safety", "hygiene/human_verdicts"
COLUMN = pa.schema([("item_id", pa.string())])


@dataclass(frozen=True, slots=True)
class Removed:
    """Ids of items that may not train: samples by `sample_id`, steps and episodes by item id (`step:...`)."""

    samples: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    episodes: frozenset[str] = frozenset()
    manifest: Manifest | None = field(default=None, compare=False)
    """The version that was read; None while there is none."""

    def holds(self, sample_id: str, parents: Iterable[str]) -> bool:
        """Whether a sample, or a native item that it was derived from, is removed. A parent's version (`@...`) doesn't
        count: a rewritten item stands on the same native one."""
        if sample_id in self.samples:
            return True
        # Gold that was rewritten is named with its version; what is removed is the native item behind it.
        named = {parent.partition("@")[0] for parent in parents}
        whole = {name.removeprefix("sample:") for name in named}
        return not (named.isdisjoint(self.steps | self.episodes) and whole.isdisjoint(self.samples))

    @property
    def inputs(self) -> dict[str, str]:
        """For the manifest of what was made with it."""
        return {} if self.manifest is None else {self.manifest.asset: self.manifest.version}


def removed_items(store: Store, asset: str = CONTAMINATION) -> Removed:
    """The `quarantine` table of the last good version; nothing is removed while that asset has no version."""
    manifest = store.current(asset)
    if manifest is None:
        return Removed()
    names = manifest.read("quarantine", COLUMN, ["item_id"])["item_id"].to_pylist()

    def of(kind: str, cut: bool) -> frozenset[str]:
        return frozenset(name.removeprefix(kind) if cut else name for name in names if name.startswith(kind))

    return Removed(of("sample:", True), of("step:", False), of("episode:", False), manifest)
