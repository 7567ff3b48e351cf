"""The corpus as the browser reads it: DuckDB over an index of the current versions, rebuilt where these change.

    $VESPER_HOME/cache/browse/parts/<digest>.parquet   rows of one part (`quality.browser.rows`), named after its inputs
    $VESPER_HOME/cache/browse/<digest>.duckdb          all rows in order of unit and id, named after what it was made of

Nothing here is needed: it is made again from the tables of the store. A changed part is read again, the others aren't.
A scan of the tables themselves takes seconds for each page (a verdict is joined by text to a million samples, and a
question stands inside JSON), so the index holds what is filtered and shown, texts cut short, and no picture.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from pipelines import sources
from pipelines.store import Store
from pipelines.store.current_version import read_pointer
from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY
from pipelines.whole_files import part_beside, whole_file
from quality.browser.rows import CODED, INDEX, UNITS, VERSION, IndexedPart, index_part
from schemas.ids import digest

if TYPE_CHECKING:
    import duckdb

FileHere = tuple[Manifest, FileEntry]
GROUPS = ("unified", "verdicts", "gold")
REMOVED = {SAFETY: "unsafe", CONTAMINATION: "contaminated", PEOPLE: "refused"}
"""Asset → the state of what it keeps from training. The first that names an item counts."""
LOOK_AGAIN_S = 2.0
"""Versions are compared with the store's at most so often."""
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
}
"""The database reads its own file alone."""
_TABLE = """
CREATE TABLE items AS
SELECT s.* EXCLUDE (n, names, state), coalesce(g.state, CASE WHEN d.kept IS NULL THEN s.state ELSE 'duplicate' END)
    AS state, coalesce(d.kept, CASE WHEN k.kept IS NULL THEN '' ELSE s.item_id END) AS cluster
FROM staged s
LEFT JOIN (
    SELECT n, arg_min(gone.state, gone.rank) AS state
    FROM (SELECT n, unnest(names) AS name FROM staged) JOIN gone USING (name) GROUP BY n
) g ON g.n = s.n
LEFT JOIN (SELECT item_id, min(kept) AS kept FROM displaced GROUP BY item_id) d ON d.item_id = s.item_id
LEFT JOIN (SELECT DISTINCT kept FROM displaced) k ON k.kept = s.item_id
"""


@dataclass(frozen=True)
class Loaded:
    """One state of the corpus: the database, the values of the coded columns, and the parts that rows came from."""

    name: str
    base: duckdb.DuckDBPyConnection
    values: Mapping[str, Sequence[str]]
    """Column → its values in order; a row holds a value's place."""
    parts: Mapping[tuple[str, str], IndexedPart]
    """(source, key) → a part."""

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one thread."""
        return self.base.cursor()

    def codes(self, column: str, names: Sequence[str]) -> list[int]:
        """Places of those of some values that this corpus has."""
        listed = self.values[column]
        return [listed.index(name) for name in names if name in listed]


@dataclass
class Corpus:
    """What a store holds now, loaded once and again where versions change."""

    store: Store
    _loaded: Loaded | None = None
    _looked: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _building: threading.Thread | None = None

    @property
    def folder(self) -> Path:
        """Where the index lies."""
        return self.store.home / "cache" / "browse"

    def now(self) -> Loaded:
        """The corpus; the last one while a newer is made beside it, in a thread. Raises `StoreError`."""
        # Made at once only when there is none yet: afterwards nobody waits.
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
                self._looked = time.monotonic()
            elif time.monotonic() - self._looked > LOOK_AGAIN_S and not self.busy:
                # Looking costs a read of every pointer, so not at each request.
                self._looked = time.monotonic()
                if self._name(self._parts()) != self._loaded.name:
                    self._building = threading.Thread(target=self._renew, daemon=True)
                    self._building.start()
            return self._loaded

    @property
    def busy(self) -> bool:
        """Whether a newer state is being made."""
        return self._building is not None and self._building.is_alive()

    def refresh(self) -> Loaded:
        """The corpus as the store has it now, however long that takes."""
        with self._lock:
            self._loaded = self._load()
        return self._loaded

    def _renew(self) -> None:
        # Without the lock, so that pages are answered from the old one meanwhile.
        loaded = self._load()
        with self._lock:
            self._loaded = loaded

    # --- what there is ------------------------------------------------------------------------------------------------
    def _parts(self) -> list[tuple[str, IndexedPart]]:
        """(digest, part) of all parts of the current versions."""
        root = self.store.home / "assets"
        names = {path.parent.name for group in GROUPS for path in (root / group).glob("*/current.json")}
        found = []
        for source in sorted(names):
            manifests = {group: self.store.current(f"{group}/{source}") for group in GROUPS}
            licence = _licence(source)
            for key, files in sorted(_files_by_part(manifests).items()):
                part = IndexedPart(source, key, licence, manifests["gold"] is not None, files)
                # Whatever a part's rows depend on, and nothing else: parts are indexed again only if that
                # changed.
                named = sorted((*names_, entry.sha256) for names_, (_, entry) in files.items())
                found.append((digest([VERSION, source, licence, part.judged, named])[:32], part))
        return found

    def _name(self, parts: Sequence[tuple[str, IndexedPart]]) -> str:
        """What the database of these parts, and of what stages after gold say now, is called."""
        after = [read_pointer(self.store.root(asset)).get("version") for asset in (*REMOVED, DUPLICATES)]
        return digest([VERSION, [name for name, _ in parts], after])[:32]

    # --- loading ------------------------------------------------------------------------------------------------------
    def _load(self) -> Loaded:
        import duckdb

        parts = self._parts()
        name = self._name(parts)
        path = self.folder / f"{name}.duckdb"
        if not path.is_file():
            self._build(path, parts)
        base = duckdb.connect(path, read_only=True, config=OFFLINE)
        values: dict[str, list[str]] = {column: [] for column in CODED}
        for column, value in base.execute("SELECT col, name FROM coded ORDER BY col, code").fetchall():
            values[column].append(value)
        # Only now, when the newer one can be read.
        self._sweep(name, {digest_ for digest_, _ in parts})
        return Loaded(name, base, values, {(part.source, part.key): part for _, part in parts})

    def _build(self, path: Path, parts: Sequence[tuple[str, IndexedPart]]) -> None:
        import duckdb

        tables = [self._indexed(name, part) for name, part in tqdm(parts, "index", unit=" parts", disable=None)]
        staged = pa.concat_tables(tables) if tables else INDEX.empty_table()
        with part_beside(path) as beside:
            beside.unlink()  # DuckDB makes its file itself
            base = duckdb.connect(beside, config={"autoinstall_known_extensions": "false"})
            try:
                # The rows' order is the tie of all orders that follow.
                base.register("staged", staged.append_column("n", pa.array(np.arange(staged.num_rows))))
                base.register("gone", _gone(self.store))
                base.register("displaced", _displaced(self.store.current(DUPLICATES)))
                # DuckDB reorders otherwise, and the numbers of rows are their places.
                base.execute("SET preserve_insertion_order = true")
                base.execute(_TABLE)
                _code(base)
            finally:
                base.close()
            # In one step: another process may read meanwhile.
            os.replace(beside, path)

    def _indexed(self, name: str, part: IndexedPart) -> pa.Table:
        path = self.folder / "parts" / f"{name}.parquet"
        if path.is_file():
            return pq.read_table(path, schema=INDEX)
        table = index_part(part)
        with whole_file(path) as beside:
            pq.write_table(table, beside, compression="zstd")
        return table

    def _sweep(self, name: str, parts: set[str]) -> None:
        """Remove what earlier states needed; who has such a file open goes on reading it."""
        for path in self.folder.glob("*.duckdb"):
            if path.stem != name:
                path.unlink(missing_ok=True)
        for path in (self.folder / "parts").glob("*.parquet"):
            if path.stem not in parts:
                path.unlink(missing_ok=True)


def _code(base: duckdb.DuckDBPyConnection) -> None:
    """Replace the values of the coded columns by their places: counts and filters are several times faster on small
    numbers than on texts. Rows are put in order of unit and id, so that a row's number is its place in that order."""
    base.execute("CREATE TABLE coded (col VARCHAR, code USMALLINT, name VARCHAR)")
    for column in CODED:
        base.execute(
            f"INSERT INTO coded SELECT ?, row_number() OVER (ORDER BY {column}) - 1, {column} "
            f"FROM (SELECT DISTINCT {column} FROM items)",
            [column],
        )
    joins = " ".join(f"JOIN coded c_{name} ON c_{name}.col = '{name}' AND c_{name}.name = i.{name}" for name in CODED)
    coded = ", ".join(f"c_{name}.code AS {name}" for name in CODED)
    units = " ".join(f"WHEN '{unit}' THEN {place}" for place, unit in enumerate(UNITS))
    # By default texts are kept by dictionaries, and a page of sixty cards decodes sixty of them for each column: twenty
    # times the work of this one, whose file is half as large again.
    base.execute("SET force_compression = 'fsst'")
    base.execute(
        f"CREATE TABLE ordered AS SELECT (CASE unit {units} END)::UTINYINT AS unit, {coded}, "
        f"i.* EXCLUDE (unit, {', '.join(CODED)}) FROM items i {joins} ORDER BY 1, i.item_id, i.reason"
    )
    base.execute("DROP TABLE items")
    base.execute("ALTER TABLE ordered RENAME TO items")


def _gone(store: Store) -> pa.Table:
    """(name, state, rank) of what stages after gold keep from training."""
    found = []
    # The first that removed an item names its state.
    for rank, (asset, state) in enumerate(REMOVED.items()):
        manifest = store.current(asset)
        names = manifest.read("quarantine", columns=["item_id"]) if manifest and manifest.paths("quarantine") else None
        if names is not None:
            listed = pc.cast(names["item_id"], pa.string())
            whole = [pa.array([value] * len(listed)) for value in (state, rank)]
            found.append(pa.table({"name": listed, "state": whole[0], "rank": whole[1]}))
    empty = pa.schema([("name", pa.string()), ("state", pa.string()), ("rank", pa.int64())]).empty_table()
    return pa.concat_tables([table.cast(empty.schema) for table in found]) if found else empty


def _displaced(manifest: Manifest | None) -> pa.Table:
    """(item_id, kept) of what yields to a duplicate."""
    empty = pa.schema([("item_id", pa.string()), ("kept", pa.string())]).empty_table()
    if manifest is None or not manifest.paths("displaced"):
        return empty
    return manifest.read("displaced", columns=["item_id", "kept"]).cast(empty.schema)


def _licence(source: str) -> str:
    adapter = sources.registry().get(source)
    return adapter.descriptor.licence if adapter else "unknown"


def _files_by_part(manifests: Mapping[str, Manifest | None]) -> dict[str, dict[tuple[str, str], FileHere]]:
    """Part → (group, table) → its file. Costs lie beside the verdicts and aren't read."""
    found: dict[str, dict[tuple[str, str], FileHere]] = {}
    for group, manifest in manifests.items():
        for entry in manifest.files if manifest is not None else ():
            if manifest is not None and entry.table is not None:
                found.setdefault(entry.part, {})[group, entry.table] = (manifest, entry)
    return found
