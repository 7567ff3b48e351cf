"""Which rows of which shards train, and how often: a manifest toward token shares by objective.

The choice is made by thresholds on `hash(sample_id, seed)`: each objective has a rate (its wanted tokens over its
available tokens); every row is taken floor(rate) times, and once more if its hash lies below the threshold at which
the objective's tokens are reached. So a row depends on its own hash and two numbers, and 1 % new rows change
about 1 % of the choice. Shards are never rewritten for a mixture.

Within navigation, action types that data hardly holds (PressRecent is 0.07 % of V1's mobile steps) have a rate of their
own, which brings each to `sparse_action` of navigation's tokens where repeating its rows can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.store import Check, CheckSpec, Manifest, PartSpec, PartWriter, Store, StoreError
from pipelines.store.files import FileEntry
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.training_data.mixture_floors import FLOORS, floor_checks
from pipelines.training_data.shard_form import ShardIndex
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


def unit_hashes(sample_ids: list[str], seed: int) -> np.ndarray:
    """hash(sample_id, seed) in [0, 1), float64 [n]."""
    prefix = f"{seed}\x1f".encode()
    words = [hashlib.blake2b(prefix + name.encode(), digest_size=8).digest() for name in sample_ids]
    return np.frombuffer(b"".join(words), ">u8").astype(np.float64) / 2.0**64


def choose(index: pa.Table, config: MixtureConfig) -> tuple[np.ndarray, dict[str, float]]:
    """Index rows → (repeats of each row, int16 [n]; rate of each objective). Pure; the order of rows has no say.

    An objective without rows is left out, and so is one that `shares` doesn't name (rate 0).
    """
    tokens = index["tokens"].to_numpy().astype(np.int64)
    objective = np.asarray(index["objective"].to_pylist(), dtype=object)
    action = np.asarray(index["action"].to_pylist(), dtype=object)
    names = index["sample_id"].to_pylist()
    hashes = unit_hashes(names, config.seed)
    by_hash = np.lexsort((np.asarray(names, dtype=str), hashes))  # the id breaks a tie, never the place in a file
    budget = config.budget_tokens if config.budget_tokens is not None else int(tokens.sum())
    repeats = np.zeros(index.num_rows, np.int16)
    rates: dict[str, float] = {}
    for name in OBJECTIVES:
        mine = objective == name
        available = int(tokens[mine].sum())
        wanted = config.shares.get(name, 0.0) * budget
        rates[name] = min(wanted / available, float(config.max_repeats)) if available else 0.0
        for part, rate in _parts(tokens, action, mine, rates[name], config):
            _take(repeats, tokens, by_hash[part[by_hash]], rate)
    return repeats, rates


def _take(repeats: np.ndarray, tokens: np.ndarray, order: np.ndarray, rate: float) -> None:
    """Rows in the order of their hashes: each floor(rate) times, and the first of them once more."""
    available, whole = int(tokens[order].sum()), int(rate)
    left = rate * available - whole * available
    cut = int(np.searchsorted(np.cumsum(tokens[order]), left + 1e-6, side="right")) if left > 0 else 0
    repeats[order] = whole
    repeats[order[:cut]] += 1


def _parts(
    tokens: np.ndarray, action: np.ndarray, mine: np.ndarray, rate: float, config: MixtureConfig
) -> Iterator[tuple[np.ndarray, float]]:
    """(rows of an objective, bool [n]; their rate): its sparse action types each, then all others, which make room."""
    wanted, most = rate * float(tokens[mine].sum()), float(config.max_repeats)
    least, rest, room = config.sparse_action * wanted, mine.copy(), wanted
    for kind in sorted(set(action[mine]) - {""}):
        rows = mine & (action == kind)
        held = float(tokens[rows].sum())
        if held * rate < least:
            own = min(least / held, most)
            yield rows, own
            rest, room = rest & ~rows, room - own * held
    held = float(tokens[rest].sum())
    yield rest, min(max(room, 0.0) / held, most) if held else 0.0


def build_mixture(store: Store, *, config: MixtureConfig | None = None, duplicates: bool = True) -> Manifest:
    """The shards → a mixture manifest with tables `mixture` (what the reader applies) and `shares` (the report).

    With `duplicates`, samples that `hygiene/duplicates` displaced are left out (nothing is, while that asset has no
    version). Shares that can't be reached because data is short are reported in counts and table, never padded.
    Where the store holds fingerprints of evaluation suites, exactly these shards must have passed `hygiene/shard_scan`.
    Raises `StoreError` without shards or without that pass.
    """
    config = config or MixtureConfig()
    source = store.require(SHARDS)
    hygiene = store.current(DUPLICATES) if duplicates else None
    scan = require_scan(store, source)
    inputs = {m.asset: m.version for m in (source, hygiene, scan) if m is not None}
    data = {m.asset: m.data_version for m in (source, hygiene) if m is not None}
    plain = {**config.plain(), "duplicates": duplicates}
    spec = PartSpec("all", digest([CODE_VERSION, plain, data]))
    with store.build(ASSET, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        result = build.run_part(spec, lambda out: _make(out, source, hygiene, config))
        return build.commit(counts=result.counts, checks=_checks(result.counts, config))


def shards_of(store: Store, mixture: Manifest, names: Sequence[str]) -> list[Path]:
    """The files of the shards that a mixture names. Raises `StoreError` if its shards aren't in the store any more."""
    places: dict[str, tuple[Manifest, FileEntry]] = {}
    for asset, version in mixture.inputs.items():
        source = store.version(asset, version)
        places |= {Path(e.path).name: (source, e) for e in source.files if e.table == "shard"}
    if missing := [name for name in names if name not in places]:
        raise StoreError(f"{mixture.asset} {mixture.version}: shard {missing[0]} isn't among what it was made of")
    return [source.path(entry) for source, entry in (places[name] for name in names)]


def require_scan(store: Store, shards: Manifest) -> Manifest | None:
    """The scan that these very shards passed, for all fingerprints as they are now; None where there are none.

    Raises `StoreError` if that scan failed or wasn't made. The scan lies above this folder: it is read as data.
    """
    folders = sorted(path.parent.name for path in (store.home / "assets" / "fingerprints").glob("*/current.json"))
    if not folders:
        return None
    known = [store.require(f"fingerprints/{name}") for name in folders]
    scan = store.current(SCAN)
    if scan is None or any(scan.inputs.get(read.asset) != read.version for read in (shards, *known)):
        raise StoreError(
            f"{shards.asset} {shards.version}: {SCAN} has not passed it; materialise the scan, and if its check fails, "
            "find out how evaluation data got into the shards"
        )
    return scan


def _make(out: PartWriter, source: Manifest, hygiene: Manifest | None, config: MixtureConfig) -> dict[str, Any]:
    index = source.read("index", ShardIndex.schema).sort_by([("shard", "ascending"), ("row", "ascending")])
    displaced = _displaced(hygiene)
    usable = index.filter(pc.invert(pc.is_in(index["sample_id"], displaced)))
    repeats, rates = choose(usable, config)
    usable = usable.append_column("repeats", pa.array(repeats))
    chosen = usable.filter(pc.greater(usable["repeats"], 0))
    out.table("mixture", _by_shard(chosen, source))
    shares = _shares(usable, rates, config)
    out.table("shares", pa.Table.from_pylist(shares, schema=SHARES))
    objectives = {row["name"]: row for row in shares if row["group"] == "objective"}
    return {
        "rows": chosen.num_rows,
        "epoch_rows": int(repeats.sum(dtype=np.int64)),
        "displaced": index.num_rows - usable.num_rows,
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


def _displaced(hygiene: Manifest | None) -> pa.Array:
    if hygiene is None:
        return pa.array([], pa.string())
    table = hygiene.read("displaced", pa.schema([("item_id", pa.string())]), ["item_id"])
    names = [n.removeprefix("sample:") for n in table["item_id"].to_pylist() if n.startswith("sample:")]
    return pa.array(names, pa.string())


def _by_shard(chosen: pa.Table, source: Manifest) -> pa.Table:
    """A row for each shard of the chosen rows, which are sorted by shard."""
    entries = {entry.path.rpartition("/")[2]: entry for entry in source.files if entry.table == "shard"}
    runs, rows, start = pc.run_end_encode(chosen["shard"].combine_chunks(), pa.int64()), [], 0
    for shard, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        mine, entry = chosen.slice(start, end - start), entries[shard]
        spent = pc.sum(pc.multiply(mine["tokens"].cast(pa.int64()), mine["repeats"].cast(pa.int64()))).as_py()
        rows.append(
            {
                "shard": shard,
                "sha256": entry.sha256,
                "bytes": entry.bytes,
                "rows": mine["row"].to_pylist(),
                "repeats": mine["repeats"].to_pylist(),
                "row_groups": mine["row_group"].to_pylist(),
                "tokens": spent,
            }
        )
        start = end
    return pa.Table.from_pylist(rows, schema=Mixture.schema)


def _shares(usable: pa.Table, rates: Mapping[str, float], config: MixtureConfig) -> list[dict[str, Any]]:
    tokens = usable["tokens"].to_numpy().astype(np.int64)
    times = usable["repeats"].to_numpy().astype(np.int64)
    navigates = np.asarray(usable["objective"].to_pylist(), dtype=object) == "navigation"
    rows = []
    for group in ("objective", "source", "platform", "action"):
        values = np.asarray(usable[group].to_pylist(), dtype=object)
        counted = navigates if group == "action" else np.ones(len(tokens), bool)
        total = max(int((tokens * times)[counted].sum()), 1)
        for name in OBJECTIVES if group == "objective" else sorted(set(values) - {""}):
            mine = values == name
            spent = int((tokens * times)[mine].sum())
            rows.append(
                {
                    "group": group,
                    "name": name,
                    "available_tokens": int(tokens[mine].sum()),
                    "chosen_tokens": spent,
                    "chosen_rows": int((times[mine] > 0).sum()),
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
    met = bool(counts["short"]) or gaps[worst] <= room
    found = f"{worst} misses by {gaps[worst]:.4f}" + (f"; short of {counts['short']}" if counts["short"] else "")
    return [
        HAS_ROWS.check(counts["rows"] > 0, counts["rows"], "at least 1", limit=1),
        SHARES_REACHED.check(met, found, f"at most {room:.4f}", gaps[worst], room),
        *floor_checks(reached, counts["rows"], config),
    ]
