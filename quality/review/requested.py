"""Items that people asked to have reviewed (`vesper browse`), in front of those that the queue drew.

They are no part of the asset `review/queue`, which stays a function of the corpus: a wish is feedback. What was asked
for by hand is no random sample, so it stands for nothing else (`weight` 0) and no figure about the judge uses it.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow.compute as pc

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from quality.items.item import Episode, Item, Row, base_id, make_episode, make_samples
from quality.items.screens import ScreenBank
from quality.review.marks import Mark, review_requests
from quality.review.queue import ASSET, OpenQueue, open_queue
from quality.review.sampling import episode_candidate, sample_candidate
from schemas.ids import digest
from schemas.tables import Screens

REQUESTED = "requested"
"""Their band. It is none of `QUEUE_BANDS`: nothing is drawn from it."""


def open_with_requests(store: Store, *, elements: bool = False) -> OpenQueue:
    """The current queue and, before it, what people asked for, as far as it is still there; without a queue only the
    latter. `elements` as in `open_queue`. Raises `StoreError` if there is neither."""
    marks = {mark.item_id: mark for mark in review_requests(store.home)}
    # Somebody may ask before a queue was ever drawn.
    if store.current(ASSET) is None and marks:
        drawn = OpenQueue({}, {}, digest(sorted(marks))[:16])
    else:
        drawn = open_queue(store, elements=elements)
    if not marks:
        return drawn
    rows: dict[str, Row] = {}
    items: dict[str, Item] = {}
    screens: list[Row] = []
    for item, origin in _requested(store, marks, screens if elements else None):
        # What was drawn, too, keeps its weight: it only comes earlier.
        rows[item.item_id] = drawn.rows.get(item.item_id) or _row(item, origin, marks[base_id(item.item_id)])
        items[item.item_id] = item
    # What was asked for comes first, as somebody waits for it.
    ordered = {**rows, **drawn.rows}
    numbered = {name: {**row, "priority": place} for place, (name, row) in enumerate(ordered.items())}
    return OpenQueue(numbered, {**items, **drawn.items}, drawn.version, (*drawn.screens, *screens))


def _row(item: Item, origin: str, mark: Mark) -> Row:
    if isinstance(item, Episode):
        candidate = episode_candidate(item, {}, origin)
    else:
        candidate = sample_candidate(item, {}, origin)
    return {
        "item_id": item.item_id,
        "source": candidate.source,
        "stratum": candidate.stratum,
        "reason": f"asked for by {mark.who}",
        "priority": 0,
        "band": REQUESTED,
        "score": None,
        "confidence": None,
        "weight": 0.0,
        "origin": origin,
        "part": "",
    }


def _requested(store: Store, wanted: Iterable[str], screens: list[Row] | None) -> Iterator[tuple[Item, str]]:
    """The items with where they were found: in gold, or (rejected on the way there) in unified."""
    names = sorted(wanted)
    episodes: dict[str, list[str]] = {}
    for name in names:
        if name.startswith("episode:"):
            source, _, episode = name.partition(":")[2].partition("/")
            episodes.setdefault(source, []).append(episode)
    samples = [name.partition(":")[2] for name in names if name.startswith("sample:")]
    for group, origin in (("gold", "gold"), ("unified", "rejected")):
        # Samples don't tell their source, so all are looked through.
        for manifest in _current(store, group, list(episodes) if not samples else None):
            source = manifest.asset.partition("/")[2]
            opened = list(_open(store, manifest, episodes.get(source, []), samples, screens))
            found = {base_id(item.item_id).partition(":")[2] for item in opened}
            # Not looked for again in what was rejected.
            episodes[source] = [one for one in episodes.get(source, []) if f"{source}/{one}" not in found]
            samples = [one for one in samples if one not in found]
            yield from ((item, origin) for item in opened)


def _current(store: Store, group: str, sources: Sequence[str] | None) -> list[Manifest]:
    """Current versions of a group; of some sources, None: of all, for a sample's id doesn't tell its own."""
    folder = store.home / "assets" / group
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    found = (store.current(f"{group}/{name}") for name in names if sources is None or name in sources)
    return [manifest for manifest in found if manifest is not None]


def _open(
    store: Store, manifest: Manifest, episodes: Sequence[str], samples: Sequence[str], screens: list[Row] | None
) -> Iterator[Item]:
    """Items of one version; the rows of their screens are put into `screens`."""
    steps = rows_where(manifest.paths("steps"), "episode_id", episodes)
    rows = rows_where(manifest.paths("samples"), "sample_id", samples)
    if screens is not None and (steps or rows):
        shown = {step["screenshot_sha256"] for step in steps} | {sha for row in rows for sha in row["images"]}
        known = store.screens_of(manifest.asset.partition("/")[2])
        paths = known.paths("screens") if known is not None else []
        screens += rows_where(paths, "screenshot_sha256", sorted(shown - {None}))
    bank = ScreenBank(Screens.schema.empty_table(), store)
    ordered = sorted(steps, key=lambda row: (row["episode_id"], row["step_index"]))
    for _, inside in itertools.groupby(ordered, key=lambda row: row["episode_id"]):
        yield make_episode(list(inside), bank)
    yield from make_samples(rows, bank)


def rows_where(paths: Sequence[Path], column: str, values: Sequence[str]) -> list[Row]:
    """Rows of parquet files whose text column is one of `values`; row groups whose statistics exclude them all aren't
    read."""
    # It brings pandas along, which the graph, which imports this module, has no use for.
    import pyarrow.dataset as ds

    if not paths or not values:
        return []
    files = ds.dataset([str(path) for path in paths], format="parquet")
    table = files.to_table(filter=pc.field(column).isin(list(values)))
    return table.to_pylist()  # type: ignore[no-any-return]
