"""Which rows of which shards train, and how often: a manifest toward token shares by objective.

The choice is made by thresholds on `hash(sample_id, seed)`: each objective has a rate (its wanted tokens over its
available tokens); every row is taken floor(rate) times, and once more if its hash lies below the threshold at which
the objective's tokens are reached. So a row depends on its own hash and two numbers, and 1 % new rows change
about 1 % of the choice. Shards are never rewritten for a mixture.

Within navigation, action types that data hardly holds (PressRecent is 0.07 % of V1's mobile steps) have a rate of their
own, which brings each to `sparse_action` of navigation's tokens where repeating its rows can. Sources that
`most_of_source` names have one that holds them below their share; the others make up for what they leave.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store import Check, CheckSpec, Manifest, PartSpec, PartWriter, Store, StoreError
from pipelines.store.files import FileEntry
from pipelines.training_data.index_columns import COLUMNS, IndexColumns
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.mixture_floors import FLOORS, floor_checks
from pipelines.training_data.shards import ASSET as SHARDS
from pipelines.training_data.shards import HAS_ROWS
from schemas.ids import digest
from schemas.tables import OBJECTIVES, Column, Table

ASSET = "mid_training/mixture"
DUPLICATES = "hygiene/duplicates"
SCAN = "hygiene/shard_scan"
CODE_VERSION = "4"
SHARES_REACHED = CheckSpec(
    "token shares reached unless data is short", "An objective has too few tokens though there is data"
)
CHECKS = (HAS_ROWS, SHARES_REACHED, *FLOORS.values())


class Mixture(Table, version=1):
    """One row a shard, by its name among those that the mixture was made of (see `shards_of`): where it lies is
    history, no data. The three lists have one entry a chosen row."""

    shard = Column(pa.string(), "name of the file")
    sha256 = Column(pa.string(), "digest of the file")
    bytes = Column(pa.int64(), "size of the file")
    rows = Column(pa.list_(pa.int32()), "rows that train, from 0")
    repeats = Column(pa.list_(pa.int16()), "how often each of them does")
    row_groups = Column(pa.list_(pa.int32()), "row group of each, from 0")
    tokens = Column(pa.int64(), "tokens of an epoch, repeats counted")


SHARES = pa.schema(
    [
        ("group", pa.string()),
        ("name", pa.string()),
        ("available_tokens", pa.int64()),
        ("chosen_tokens", pa.int64()),
        ("chosen_rows", pa.int64()),
        ("target_share", pa.float64()),
        ("reached_share", pa.float64()),
        ("rate", pa.float64()),
    ]
)
"""One row an objective, source, platform and action type (whose reached share is that of navigation's tokens); target
and rate are of objectives only."""


def choose(index: IndexColumns, config: MixtureConfig) -> tuple[np.ndarray, dict[str, float]]:
    """Index rows → (repeats of each row, int16 [n]; rate of each objective). Pure; the order of rows has no say.

    `index` has the hashes of `config.seed`. An objective without rows is left out, and so is one that `shares` doesn't
    name (rate 0).
    """
    by_hash = index.order()
    tokens = index.tokens
    # int64: the sum of a large corpus passes 2**31.
    budget = config.budget_tokens if config.budget_tokens is not None else int(tokens.sum(dtype=np.int64))
    repeats = np.zeros(len(index), np.int16)
    rates: dict[str, float] = {}
    for name in OBJECTIVES:
        mine = index.is_of("objective", name)
        available = int(tokens[mine].sum(dtype=np.int64))
        wanted = config.shares.get(name, 0.0) * budget
        # More than `max_repeats` would be learned by heart; the share is missed instead, and reported.
        rates[name] = min(wanted / available, float(config.max_repeats)) if available else 0.0
        for part, rate in _parts(index, mine, rates[name], config):
            _take(repeats, tokens, by_hash[part[by_hash]], rate)
    return repeats, rates


def _take(repeats: np.ndarray, tokens: np.ndarray, order: np.ndarray, rate: float) -> None:
    """Rows in the order of their hashes: each floor(rate) times, and the first of them once more."""
    # Tokens up to and with each row, in the order of hashes: the cut lies where the wanted tokens are
    # reached.
    upto = np.cumsum(tokens[order], dtype=np.int64)
    available, whole = int(upto[-1]) if len(upto) else 0, int(rate)
    left = rate * available - whole * available
    # The small number makes up for rounding, where the rate times the tokens is just a whole row.
    cut = int(np.searchsorted(upto, left + 1e-6, side="right")) if left > 0 else 0
    repeats[order] = whole
    repeats[order[:cut]] += 1


def _parts(
    index: IndexColumns, mine: np.ndarray, rate: float, config: MixtureConfig
) -> Iterator[tuple[np.ndarray, float]]:
    """(rows of an objective, bool [n]; their rate): those of sources that are held down, its sparse action types each,
    then all others, which make room."""
    tokens = index.tokens
    wanted, most = rate * float(tokens[mine].sum(dtype=np.int64)), float(config.max_repeats)
    # `rest` are the rows still without a rate of their own, `room` the tokens left for them.
    least, rest, room = config.sparse_action * wanted, mine.copy(), wanted
    for source, share in sorted(config.most_of_source.items()):
        rows = mine & index.is_of("source", source)
        held, others = (float(tokens[one].sum(dtype=np.int64)) for one in (rows, mine & ~rows))
        own = max(share * wanted, wanted - most * others)  # it fills what others can't
        # Held down only if it would take more than its share by itself.
        if held * rate > own:
            yield rows, own / held
            rest, room = rest & ~rows, room - own
    present = {index.names["action"][code] for code in np.unique(index.codes["action"][rest]).tolist()}
    # Sorted by name, so that the choice doesn't depend on the order in which action types were met.
    for kind in sorted(present - {""}):
        rows = rest & index.is_of("action", kind)
        held = float(tokens[rows].sum(dtype=np.int64))
        if held * rate < least:
            # Repeated up to the share, but no row more often than any other may be.
            own = min(least / held, most)
            yield rows, own
            rest, room = rest & ~rows, room - own * held
    held = float(tokens[rest].sum(dtype=np.int64))
    # What is left of the objective shares what room is left.
    yield rest, min(max(room, 0.0) / held, most) if held else 0.0


def build_mixture(
    store: Store, *, config: MixtureConfig | None = None, duplicates: bool = True, asset: str = ASSET
) -> Manifest:
    """The shards → a mixture manifest with tables `mixture` (what the reader applies) and `shares` (the report).

    With `duplicates`, samples that `hygiene/duplicates` displaced are left out (nothing is, while that asset has no
    version). Shares that can't be reached because data is short are reported in counts and table, never padded.
    Where the store holds fingerprints of evaluation suites, exactly these shards must have passed `hygiene/shard_scan`.
    `asset`: where it is kept. Raises `StoreError` without shards or without that pass.
    """
    config = config or MixtureConfig()
    source = store.require(SHARDS)
    hygiene = store.current(DUPLICATES) if duplicates else None
    scan = require_scan(store, source)
    # The scan counts among the inputs, but not in the digest: it finds nothing that changes the choice.
    inputs = {m.asset: m.version for m in (source, hygiene, scan) if m is not None}
    data = {m.asset: m.data_version for m in (source, hygiene) if m is not None}
    plain = {**config.plain(), "duplicates": duplicates}
    spec = PartSpec("all", digest([CODE_VERSION, plain, data]))
    with store.build(asset, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        result = build.run_part(spec, lambda out: _make(out, source, hygiene, config))
        return build.commit(counts=result.counts, checks=_checks(result.counts, config))


def shards_of(store: Store, mixture: Manifest, names: Sequence[str]) -> list[Path]:
    """The files of the shards that a mixture names. Raises `StoreError` if its shards aren't in the store any more."""
    places: dict[str, tuple[Manifest, FileEntry]] = {}
    for asset, version in mixture.inputs.items():
        # An input may be the shards or hygiene; only the shards have files of that table.
        source = store.version(asset, version)
        places |= {Path(e.path).name: (source, e) for e in source.files if e.table == "shard"}
    if missing := [name for name in names if name not in places]:
        raise StoreError(f"{mixture.asset} {mixture.version}: shard {missing[0]} isn't among what it was made of")
    return [source.path(entry) for source, entry in (places[name] for name in names)]


def require_scan(store: Store, shards: Manifest) -> Manifest | None:
    """The scan that these very shards passed, for all fingerprints as they are now; None where there are none.

    Raises `StoreError` if that scan failed or wasn't made. The scan lies above this folder: it is read as data.
    """
    # Suites are known by their fingerprints: whatever has some has to be scanned for.
    folders = sorted(path.parent.name for path in (store.home / "assets" / "fingerprints").glob("*/current.json"))
    if not folders:
        return None
    known = [store.require(f"fingerprints/{name}") for name in folders]
    scan = store.current(SCAN)
    # For just these shards and these fingerprints: a pass for older ones says nothing.
    if scan is None or any(scan.inputs.get(read.asset) != read.version for read in (shards, *known)):
        raise StoreError(
            f"{shards.asset} {shards.version}: {SCAN} has not passed it; materialise the scan, and if its check fails, "
            "find out how evaluation data got into the shards"
        )
    return scan


def _make(out: PartWriter, source: Manifest, hygiene: Manifest | None, config: MixtureConfig) -> dict[str, Any]:
    # Read one file after another while they're taken apart, so one is in memory at a time.
    tables = (pq.read_table(path, columns=COLUMNS) for path in source.paths("index"))
    index = IndexColumns.of(tables, config.seed, _displaced(hygiene))
    repeats, rates = choose(index, config)
    out.table("mixture", _by_shard(index, repeats, source))
    shares = _shares(index, repeats, rates, config)
    out.table("shares", pa.Table.from_pylist(shares, schema=SHARES))
    objectives = {row["name"]: row for row in shares if row["group"] == "objective"}
    return {
        "rows": int((repeats > 0).sum()),
        "epoch_rows": int(repeats.sum(dtype=np.int64)),
        "displaced": source.rows("index") - len(index),
        "tokens": sum(row["chosen_tokens"] for row in objectives.values()),
        "available": {name: row["available_tokens"] for name, row in objectives.items()},
        "reached": {name: round(row["reached_share"], 6) for name, row in objectives.items()},
        "rates": {name: round(rate, 6) for name, rate in rates.items()},
        "short": sorted(n for n, row in objectives.items() if _is_short(row, config)),
        "platforms": _reached(shares, "platform"),
        "actions": _reached(shares, "action"),
    }


def _reached(shares: Sequence[Mapping[str, Any]], group: str) -> dict[str, float]:
    return {row["name"]: round(row["reached_share"], 6) for row in shares if row["group"] == group}


def _is_short(row: Mapping[str, Any], config: MixtureConfig) -> bool:
    return row["target_share"] > 0 and (row["available_tokens"] == 0 or row["rate"] >= config.max_repeats)


def _displaced(hygiene: Manifest | None) -> frozenset[str]:
    """Ids of the samples that `hygiene/duplicates` displaced."""
    if hygiene is None:
        return frozenset()
    table = hygiene.read("displaced", pa.schema([("item_id", pa.string())]), ["item_id"])
    return frozenset(n.removeprefix("sample:") for n in table["item_id"].to_pylist() if n.startswith("sample:"))


def _by_shard(index: IndexColumns, repeats: np.ndarray, source: Manifest) -> pa.Table:
    """A row for each shard of which rows are chosen, by name; rows in the order of the shard."""
    entries = {entry.path.rpartition("/")[2]: entry for entry in source.files if entry.table == "shard"}
    names, codes = index.names["shard"], index.codes["shard"]
    # argsort twice gives each name its rank; shards come by name, whatever number they were met with.
    rank = np.argsort(np.argsort(np.array(names, dtype=str))) if names else np.zeros(0, np.int64)
    chosen = np.flatnonzero(repeats)
    chosen = chosen[np.lexsort((index.row[chosen], rank[codes[chosen]]))]
    # Sorted by shard, so each is a run; ends are where the number changes.
    ends = [*(np.flatnonzero(np.diff(codes[chosen])) + 1).tolist(), len(chosen)] if len(chosen) else []
    rows, start = [], 0
    for end in ends:
        mine = chosen[start:end]
        entry = entries[names[codes[mine[0]]]]
        rows.append(
            {
                "shard": names[codes[mine[0]]],
                "sha256": entry.sha256,
                "bytes": entry.bytes,
                "rows": index.row[mine],
                "repeats": repeats[mine],
                "row_groups": index.row_group[mine],
                "tokens": int((index.tokens[mine].astype(np.int64) * repeats[mine]).sum()),
            }
        )
        start = end
    return pa.Table.from_pylist(rows, schema=Mixture.schema)


def _shares(
    index: IndexColumns, repeats: np.ndarray, rates: Mapping[str, float], config: MixtureConfig
) -> list[dict[str, Any]]:
    spent_of_rows = index.tokens.astype(np.int64) * repeats
    navigates = index.is_of("objective", "navigation")
    rows = []
    for group in ("objective", "source", "platform", "action"):
        # Shares of action types are those of navigation, the only objective that has actions.
        total = max(int((spent_of_rows[navigates] if group == "action" else spent_of_rows).sum()), 1)
        for name in OBJECTIVES if group == "objective" else sorted(set(index.names[group]) - {""}):
            mine = index.is_of(group, name)
            spent = int(spent_of_rows[mine].sum())
            rows.append(
                {
                    "group": group,
                    "name": name,
                    "available_tokens": int(index.tokens[mine].sum(dtype=np.int64)),
                    "chosen_tokens": spent,
                    "chosen_rows": int((repeats[mine] > 0).sum()),
                    "reached_share": spent / total,
                    "target_share": config.shares.get(name, 0.0) if group == "objective" else None,
                    "rate": rates[name] if group == "objective" else None,
                }
            )
    return rows


def _checks(counts: Mapping[str, Any], config: MixtureConfig) -> list[Check]:
    gaps = {name: abs(counts["reached"][name] - share) for name, share in config.shares.items()}
    worst = max(gaps, key=lambda name: gaps[name])
    # One row more or less than wanted is the best that can be done, so tiny corpora get that much more room.
    room = config.tolerance + len(config.shares) / max(counts["rows"], 1)
    reached = {"objective": counts["reached"], "platform": counts["platforms"], "action": counts["actions"]}
    # Too little data isn't the mixture's fault: that is what the floors are for.
    met = bool(counts["short"]) or gaps[worst] <= room
    found = f"{worst} misses by {gaps[worst]:.4f}" + (f"; short of {counts['short']}" if counts["short"] else "")
    return [
        HAS_ROWS.check(counts["rows"] > 0, counts["rows"], "at least 1", limit=1),
        SHARES_REACHED.check(met, found, f"at most {room:.4f}", gaps[worst], room),
        *floor_checks(reached, counts["rows"], config),
    ]
