"""`vesper takedown`: records of a list out of everything that the store holds, and out of all that will be ingested.

Order, so that a process killed anywhere leaves nothing that a second run doesn't finish: what the list stands for is
worked out and remembered first (`takedown.json`, ids and digests only), then versions are made anew, old ones removed,
then pictures, raw files and what else names a record. Each step does nothing where nothing is left to do. A run without
a new list repeats all of it for what is remembered.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.mapping.adapter import Raw
from pipelines.raw.rawdata import register_raw
from pipelines.store import Store, put_text
from pipelines.store.asset_locks import gate
from pipelines.store.files import StoreError
from pipelines.store.free_space import require_space
from pipelines.store.manifest import mainline_key
from pipelines.store.object_store.withdrawn import fetch_everything, heed, remote_screens
from pipelines.store.reachable import Asset, find_assets
from pipelines.takedown.assets import VersionRewriter
from pipelines.takedown.embedded import cut_embedded
from pipelines.takedown.raw_files import RawReport, digests_at, locate, take_down_raw
from pipelines.takedown.tables import SearchTerms, id_rows, matches, texts_of
from pipelines.takedown.withdrawn import NAME, TakenDown, WithdrawnEntry
from schemas.ids import GENERATED_SOURCE, text_key

RawOf = Callable[[str], Raw | None]
"""Source → its native files, None where there are none."""


@dataclass
class TakedownReport:
    """What was done."""

    entries: int
    """Ids that the store remembers, of all lists."""
    records: dict[str, int] = field(default_factory=dict)
    """Source → native records that went."""
    rows: dict[str, int] = field(default_factory=dict)
    """Asset → rows that went from its versions."""
    versions: dict[str, str] = field(default_factory=dict)
    """`asset@version` → the version in its place."""
    screens: int = 0
    raw: list[RawReport] = field(default_factory=list)
    journals: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Ids of the list that nothing in the store has; remembered all the same."""
    trained: list[str] = field(default_factory=list)
    """Checkpoints that were made from a version that held a record: they stay, and are listed."""


def take_down(store: Store, entries: Sequence[WithdrawnEntry], raw_of: RawOf) -> tuple[TakedownReport, TakenDown]:
    """Take records down; (what was done, all that is remembered). Caches above this folder are not looked at.

    Raises `StoreError` if a build is in progress or the disk has no room for the rewritten files.
    """
    # Nothing is built meanwhile: a build would write again what is about to go.
    with gate(store.home, exclusive=True):
        if store.copies is not None:
            heed(store.copies, gate_held=True)
            fetch_everything(store.copies)
        assets = find_assets(store)
        for asset in assets.values():
            if asset.holder is not None:
                raise StoreError(
                    f"takedown: {asset.key} is being built by process {asset.holder.pid} on {asset.holder.host}; wait "
                    "for it to end, or stop it"
                )
        taken = TakenDown.load(store.home)
        taken.add(entries)
        seen = resolve(assets, taken)
        _locate_others(taken, seen, raw_of)
        # Before anything is rewritten, as afterwards no shard tells any more.
        taken.trained |= trained_on(assets, taken)
        require_space(store.home, _largest(assets), "takedown")
        # Remembered before the first cut: killed here, the next ingest already leaves the records out.
        _remember(store, taken)
        records = Counter(name.partition(":")[2].partition("/")[0] for name in seen if name.startswith("record:"))
        report = TakedownReport(len(taken.reasons), dict(sorted(records.items())), trained=sorted(taken.trained))
        report.unknown = sorted(entry.id for entry in entries if _named(entry) not in seen)
        _rewrite(store, assets, taken, report)
        report.screens = _remove_screens(store, taken)
        # Native files after the store: they may lie elsewhere, and each is proved by itself.
        report.journals = _remove_journals(store, taken)
    for source in sorted({*taken.records, *taken.places}):
        if (raw := raw_of(source)) is not None:
            _cut_raw(store, source, raw, taken, report)
    return report, taken


def finish(store: Store, taken: TakenDown) -> None:
    """Once all is done: forget where the records stood, for in cut files other records stand there now. Raises
    `StoreError` if another machine took down more meanwhile."""
    if store.copies is not None:
        heed(store.copies)
        more = TakenDown.load(store.home).reasons.keys() - taken.reasons.keys()
        if more:
            raise StoreError(
                f"takedown: another machine took down {len(more)} more meanwhile; run `vesper takedown` again"
            )
    taken.places, taken.nameless = {}, {}
    _remember(store, taken)


def _remember(store: Store, taken: TakenDown) -> None:
    """Other machines of a store behind a URL drop their copies when they see it."""
    path = store.home / NAME
    if store.copies is not None:
        # Read for its tag, so that another machine's takedown isn't overwritten.
        store.copies.read_text(path)
        store.copies.replace_text(path, taken.to_json())
    else:
        put_text(path, taken.to_json())


def _cut_raw(store: Store, source: str, raw: Raw, taken: TakenDown, report: TakedownReport) -> None:
    done = take_down_raw(source, raw, taken)
    if done.changed or done.removed or done.left:
        report.raw.append(done)
    if (done.changed or done.removed) and store.current(f"raw/{source}") is not None:
        counts = {"takedown": {"changed": len(done.changed), "removed": len(done.removed)}}
        register_raw(store, source, raw.root, counts)
    if changed := cut_embedded(source, raw, taken):
        done.changed += changed
        if done not in report.raw:
            report.raw.append(done)


# --- what a list stands for ------------------------------------------------------------------------------------------
def tables(assets: Mapping[str, Asset]) -> Iterator[Path]:
    """Every parquet file of every version that is there, each once."""
    seen: set[Path] = set()
    for asset in assets.values():
        for manifest in asset.manifests.values():
            for entry in (*manifest.files, *manifest.side_files):
                path = asset.root / entry.path
                if path.suffix == ".parquet" and path not in seen and path.is_file():
                    seen.add(path)
                    yield path


def resolve(assets: Mapping[str, Asset], taken: TakenDown) -> set[str]:
    """Fill `taken` with what its names stand for: native records, their episodes, samples, tasks, pictures, texts.
    Returns all names that rows of this store have. Goes on until nothing new is found."""
    listed = [path for path in tables(assets) if id_rows(path) is not None]
    seen: set[str] = set()
    before = -1
    # Until nothing new is found: an episode leads to samples, these to texts and pictures.
    while before != (before := _size(taken)):
        terms = SearchTerms.of(taken, shown=False)
        for path in listed:
            table = id_rows(path)
            assert table is not None
            for row in table.filter(pa.array(matches(table, terms))).to_pylist():
                _learn(row, taken, seen)
    # A picture that rows which stay show as well stays with them.
    taken.screens -= _shown_by_others(listed, taken)
    return seen


def _locate_others(taken: TakenDown, seen: set[str], raw_of: RawOf) -> None:
    """What only the native files tell: the content's digest of records without an id, and where records stand of which
    no row was mapped (their quarantine rows are known by the place)."""
    for source, nameless in taken.nameless.items():
        if (raw := raw_of(source)) is not None:
            digests = digests_at(source, raw, nameless)
            taken.records.setdefault(source, {}).update(dict.fromkeys(digests, "with what a list names"))
            seen |= {f"record:{source}/{name}" for name in digests}
    for source, names in sorted(taken.records.items()):
        unmapped = any(f"record:{source}/{name}" not in seen for name in names)
        if unmapped and (raw := raw_of(source)) is not None:
            places = taken.places.setdefault(source, [])
            places += [place for place in locate(source, raw, taken) if place not in places]


def _size(taken: TakenDown) -> int:
    lists = (*taken.records.values(), *taken.places.values(), taken.episodes, taken.samples, taken.texts)
    return sum(len(one) for one in lists)


def _learn(row: Mapping[str, Any], taken: TakenDown, seen: set[str]) -> None:
    source, shown = row.get("source"), _pictures_of(row)
    if source and row.get("episode_id"):
        taken.episodes.add(f"episode:{source}/{row['episode_id']}")
        seen.add(f"episode:{source}/{row['episode_id']}")
    if row.get("trajectory_id"):
        seen.add(f"episode:{GENERATED_SOURCE}/{row['trajectory_id']}")
    # A trajectory tried its task and isn't what the task was made of: others that try it stay.
    tried = row.get("trajectory_id") or _only_tried(row.get("parents"))
    ids = {str(row[name]) for name in ("sample_id", "task_id") if row.get(name) and not (name == "task_id" and tried)}
    taken.samples |= ids
    taken.screens |= shown
    taken.texts |= {text_key(text) for text in texts_of(row)}
    seen |= ids | shown
    plain = json.loads(row["provenance"]) if row.get("provenance") else {}
    if not source or not isinstance(plain, dict) or not plain.get("file"):
        return
    place = [str(plain["file"]), str(plain.get("locator", ""))]
    known = [taken.places]
    if plain.get("record") is not None:
        native = str(plain["record"])
        seen.add(f"record:{source}/{native}")
        taken.records.setdefault(source, {}).setdefault(native, "with what a list names")
    else:
        known.append(taken.nameless)
    # Places of all, and of those without an id, by which alone they can be known.
    for places in known:
        if place not in places.setdefault(source, []):
            places[source].append(place)


def _only_tried(parents: list[str] | None) -> bool:
    """Whether a task's parents are trajectories that tried it, as those of `task_pool/generated` are."""
    return bool(parents) and all(name.startswith(f"episode:{GENERATED_SOURCE}/") for name in parents or ())


def _pictures_of(row: Mapping[str, Any]) -> set[str]:
    listed = row.get("images") or []
    return {name for name in (row.get("screenshot_sha256"), *listed) if isinstance(name, str)}


def _shown_by_others(listed: Iterable[Path], taken: TakenDown) -> set[str]:
    """Pictures that rows which stay show too, unless a list names them."""
    terms = SearchTerms.of(taken, shown=False)
    shown: set[str] = set()
    for path in listed:
        table = id_rows(path)
        if table is None or not {"screenshot_sha256", "images"} & set(table.column_names):
            continue
        left = table.filter(pa.array(~matches(table, terms)))
        for name in {"screenshot_sha256", "images"} & set(table.column_names):
            column = left[name].combine_chunks()
            values = column if pa.types.is_string(column.type) else column.flatten()
            shown |= set(values.unique().to_pylist()) - {None}
    return shown - taken.asked_screens


def _named(entry: WithdrawnEntry) -> str:
    """How `resolve` names what an entry means."""
    if entry.kind in ("sample", "screen"):
        return entry.rest
    return f"episode:{entry.rest.rpartition('/')[0]}" if entry.kind == "step" else entry.id


def trained_on(assets: Mapping[str, Asset], taken: TakenDown) -> set[str]:
    """Checkpoints (`asset@version`) made, however far away, from shards that hold a record now."""
    terms = SearchTerms.of(taken, shown=True)
    held: set[tuple[str, str]] = set()
    for asset in assets.values():
        for version, manifest in asset.manifests.items() if mainline_key(asset.key).startswith("mid_training/") else ():
            paths = (asset.root / entry.path for entry in manifest.files if entry.table in ("index", "shard"))
            rows = (id_rows(path) for path in paths if path.is_file())
            if any(table is not None and matches(table, terms).any() for table in rows):
                held.add((asset.key, version))
    inputs_of = {
        (asset.key, version): manifest.inputs
        for asset in assets.values()
        for version, manifest in asset.manifests.items()
    }
    # In order of inputs, so that what was made from a touched version is touched in one pass.
    for one in _in_order(assets):
        if not held.isdisjoint(inputs_of[one].items()):
            held.add(one)
    return {f"{key}@{version}" for key, version in held if mainline_key(key).startswith("checkpoints/")}


# --- what is done ----------------------------------------------------------------------------------------------------
def _rewrite(store: Store, assets: Mapping[str, Asset], taken: TakenDown, report: TakedownReport) -> None:
    rewriter = VersionRewriter(store, taken)
    for key, version in _in_order(assets):
        rewriter.rewrite(assets[key], version)
    rewriter.remove(assets)
    report.rows = dict(sorted(rewriter.rows.items()))
    report.versions = {f"{key}@{version}": name for (key, version), name in sorted(rewriter.replaced.items())}


def _in_order(assets: Mapping[str, Asset]) -> list[tuple[str, str]]:
    """(asset, version), each after what it was made from."""
    order: list[tuple[str, str]] = []
    done: set[tuple[str, str]] = set()

    def visit(one: tuple[str, str]) -> None:
        # Without recursion: chains of versions may be longer than Python's stack.
        waiting = [(one, False)]
        while waiting:
            here, expanded = waiting.pop()
            asset = assets.get(here[0])
            if asset is None or here[1] not in asset.manifests or (here in done and not expanded):
                continue
            if expanded:
                order.append(here)
                continue
            done.add(here)
            waiting.append((here, True))
            waiting += [(above, False) for above in asset.manifests[here[1]].inputs.items()]

    for asset in assets.values():
        for version in asset.manifests:
            visit((asset.key, version))
    return order


def _remove_screens(store: Store, taken: TakenDown) -> int:
    here = {path for sha in taken.screens for path in store.screen_files(sha)}
    if store.copies is not None:
        here |= set(remote_screens(store.copies, sorted(taken.screens)))
        store.copies.delete(sorted(here))
    for path in here:
        path.unlink(missing_ok=True)
    for sha in taken.screens:
        store.small_greys.remove(sha)
    return len(here)


def _remove_journals(store: Store, taken: TakenDown) -> list[str]:
    """Journals of generated rounds that hold a record: what they were for is in the round's own version."""
    gone = []
    for path in sorted((store.home / "generation").rglob("*")):
        if path.is_file() and taken.stands_in(path.read_bytes()):
            path.unlink()
            gone.append(path.relative_to(store.home).as_posix())
    return gone


def _largest(assets: Mapping[str, Asset]) -> int:
    """Bytes of the largest current version: at most about so much stands twice for a while."""
    sizes = Counter(
        {a.key: sum(e.bytes for e in a.manifests[a.current].files) for a in assets.values() if a.current in a.manifests}
    )
    return max(sizes.values(), default=0)
