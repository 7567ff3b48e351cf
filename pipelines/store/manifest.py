"""What a committed version of an asset consists of."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store.files import FileEntry, StoreError, sealed, unsealed
from pipelines.store.object_store.binding import copies_of
from pipelines.store.soundness import require_sound

EXPERIMENTS = "experiments"
"""Group of what is made beside the mainline: `experiments/<name>/<key of the mainline>`."""
_OPENED: set[tuple[Path, str, str]] = set()
"""Versions whose tables this process has held to their manifest."""


def mainline_key(asset: str) -> str:
    """What the mainline keeps an experiment's asset as (`experiments/lr_high/checkpoints/base` → `checkpoints/base`);
    any other key as it is. What is asked of a kind of assets is asked of it, so that it holds for experiments, too."""
    group, _, rest = asset.partition("/")
    return rest.partition("/")[2] or asset if group == EXPERIMENTS else asset


@dataclass(frozen=True, slots=True)
class Check:
    """A check that can fail: what was found, and what was expected of it. One that doesn't block only warns."""

    name: str
    passed: bool
    found: str
    expected: str
    blocking: bool = True
    value: float | None = None
    """What was found, where that is one number: people follow it over nights."""
    limit: float | None = None
    """The number that `value` is held to."""


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A check that a stage declares before anything runs: the graph shows it by its name, and makes no other."""

    name: str
    means: str
    """What has happened if it fails, in words for whoever has to mend it."""
    blocking: bool = True
    sometimes: bool = False
    """Whether there are versions for which there is nothing to check; every other check is made each time."""

    @property
    def slug(self) -> str:
        """The name in letters, digits and underscores: that of the check in Dagster, and its anchor in the runbook."""
        return re.sub(r"[^A-Za-z0-9]+", "_", self.name.replace("'", "")).strip("_")

    def check(
        self,
        passed: bool,
        found: str | float,
        expected: str | float,
        value: float | None = None,
        limit: float | None = None,
        *,
        blocking: bool | None = None,
    ) -> Check:
        """The check of one version. A number that is `found` or `expected` is `value` or `limit`, too; `blocking` says
        for this version alone that a check that blocks does no more than warn."""
        return Check(
            self.name,
            passed,
            str(found),
            str(expected),
            # A check may be made softer for one version, never harder than it was declared.
            self.blocking if blocking is None else self.blocking and blocking,
            _number(found if value is None else value),
            _number(expected if limit is None else limit),
        )


def _number(stated: str | float) -> float | None:
    """None for words, and for what no JSON holds (NaN, infinity)."""
    return None if isinstance(stated, str) or not math.isfinite(stated) else stated


@dataclass(frozen=True)
class Manifest:
    """A version of an asset: its files, what it was made from, its counts and checks."""

    asset: str
    version: str
    data_version: str
    code_version: str
    config_hash: str
    inputs: dict[str, str]
    files: list[FileEntry]
    side_files: list[FileEntry]
    """Files that don't enter the data version: costs, timings, pictures."""
    counts: dict[str, Any]
    checks: list[Check]
    checks_passed: bool
    folder: Path = field(compare=False)
    """The asset's folder, `assets/<asset>`; not written to the file."""
    code_revision: str = ""
    """Commit of the code that made this version first; it doesn't enter any version ("" if nobody knew it)."""

    @property
    def root(self) -> Path:
        """The asset's folder with all files of this version in it: those of a store behind a URL are fetched first.
        `path`, `paths` and `file` fetch less. Like these it raises `StoreError`, which names the file, where a table
        isn't the bytes that were written."""
        fetch(self.folder, chain(self.files, self.side_files), self.version)
        # Once a process: to hash all tables at every look would cost more than most reads.
        if (whole := (self.folder, self.version, self.data_version)) not in _OPENED:
            # Tables alone: `file` holds weights to theirs when it gives them out.
            require_sound(self.folder, (entry for entry in chain(self.files, self.side_files) if entry.table))
            _OPENED.add(whole)
        return self.folder

    @property
    def directory(self) -> Path:
        """The folder of this version (files of unchanged parts may lie in an older one: use `file` or `paths`)."""
        return self.folder / self.version

    def path(self, entry: FileEntry) -> Path:
        """One of the files."""
        return opened(self.folder, [entry])[0]

    def paths(self, table: str) -> list[Path]:
        """The parquet files of a table, in order of their parts."""
        return opened(self.folder, [entry for entry in (*self.files, *self.side_files) if entry.table == table])

    def file(self, name: str) -> Path:
        """A file by its last name, e.g. `model.safetensors`, and what lies beside it. Raises `StoreError` if there is
        none."""
        entries = [*self.files, *self.side_files]
        for entry in entries:
            folder, _, last = entry.path.rpartition("/")
            if last == name:
                # A file is often of no use without its neighbours: weights without their configuration.
                beside = [other for other in entries if other.path.startswith(f"{folder}/")]
                fetch(self.folder, beside)
                require_sound(self.folder, [entry])
                return self.folder / entry.path
        raise StoreError(f"{self.asset} {self.version}: expected a file {name!r}, found none of that name")

    def json_file(self, name: str) -> dict[str, Any]:
        """What a file of JSON says, by its last name; {} if the version has none of that name."""
        if not any(entry.path.endswith(f"/{name}") for entry in (*self.files, *self.side_files)):
            return {}
        return dict(json.loads(self.file(name).read_text(encoding="utf-8")))

    def read(self, table: str, schema: pa.Schema | None = None, columns: list[str] | None = None) -> pa.Table:
        """All parts of a table as one; empty with `schema` (or without columns) if there is no part."""
        tables = [pq.read_table(path, columns=columns) for path in self.paths(table)]
        if tables:
            return pa.concat_tables(tables)
        empty = (schema or pa.schema([])).empty_table()
        return empty.select(columns) if columns and schema else empty

    @cached_property
    def by_part(self) -> dict[str, dict[str, FileEntry]]:
        """Key of a part → table → its file, of `files` and `side_files`; one look over them serves all parts."""
        found: dict[str, dict[str, FileEntry]] = {}
        for entry in chain(self.files, self.side_files):
            if entry.table is not None:
                found.setdefault(entry.part, {})[entry.table] = entry
        return found

    @cached_property
    def part_hashes(self) -> dict[str, dict[str, str]]:
        """Key of a part → table → sha256 of its file: what a part that is made from it depends on. Side files, which
        are no data, aren't among them."""
        found: dict[str, dict[str, str]] = {}
        for entry in self.files:
            if entry.table is not None:
                found.setdefault(entry.part, {})[entry.table] = entry.sha256
        return found

    def read_part(
        self,
        key: str,
        table: str,
        schema: pa.Schema,
        columns: list[str] | None = None,
        filters: Sequence[tuple[str, str, object]] | None = None,
    ) -> pa.Table:
        """A table of one part, of which no other file is looked at; empty if the part lacks it. `filters` as
        `pyarrow.parquet.read_table`."""
        entry = self.by_part.get(key, {}).get(table)
        if entry is None:
            empty = schema.empty_table()
            return empty.select(columns) if columns else empty
        return pq.read_table(self.path(entry), columns=columns, filters=list(filters) if filters else None)

    def rows(self, table: str) -> int:
        """Number of rows of a table over all parts."""
        return sum(entry.rows or 0 for entry in (*self.files, *self.side_files) if entry.table == table)

    def to_json(self, *, seal: bool = True) -> str:
        """`manifest.json` of the version; without its seal, as it was written before there were any."""
        plain = asdict(self)
        del plain["folder"]
        # Numbers came later: an old manifest read and written again keeps its bytes.
        for check in plain["checks"]:
            for name in ("value", "limit"):
                if check[name] is None:
                    del check[name]
        text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        return sealed(text) if seal else text

    @classmethod
    @lru_cache(maxsize=16)
    def from_json(cls, text: str, folder: Path, place: str | Path) -> "Manifest":
        """The manifest that `to_json` wrote. Raises `StoreError`, which names its `place`, where it isn't any more.

        Workers open the same one for each of its parts, so the last are kept: one with ten thousand parts takes longer
        to parse than many of its parts to work on."""

        def build(plain: dict[str, Any]) -> Manifest:
            plain["checks"] = [Check(**check) for check in plain["checks"]]
            return cls(**plain, folder=folder)

        return unsealed(text, place, "a manifest", build)

    @classmethod
    def verified(cls, text: str, folder: Path, asset: str, version: str, name: str) -> "Manifest":
        """The manifest of a version, from a text that nothing names by its hash: it must be the one asked for, and its
        data version that of its files' hashes. `name` is for messages. Raises `StoreError`."""
        found = cls.from_json(text, folder, name)
        try:
            computed = data_version(found.files)
        except TypeError as error:
            raise StoreError(f"{name}: expected sha256 of files, found {error}") from None
        # No hash names a manifest, so one that lies in another's place would be believed.
        if (found.asset, found.version) != (asset, version):
            raise StoreError(
                f"{name}: expected the manifest of {asset} {version}, found {found.asset!r} {found.version!r}"
            )
        if found.data_version != computed:
            raise StoreError(f"{name}: says data version {found.data_version!r}, its files give {computed}; refused")
        return found


def fetch(folder: Path, entries: Iterable[FileEntry], version: str = "") -> None:
    """Make files of an asset be in its folder, where that is the copy of a store behind a URL; `version` tells that
    these are all files of one. Raises `StoreError`."""
    if (copies := copies_of(folder)) is not None:
        copies.fetch(folder, entries, version)


def opened(folder: Path, entries: Sequence[FileEntry]) -> list[Path]:
    """The paths of files of an asset, once all are there and sound. Raises `StoreError`."""
    fetch(folder, entries)
    require_sound(folder, entries)
    return [folder / entry.path for entry in entries]


def data_version(files: list[FileEntry]) -> str:
    """sha256 over the sorted file hashes: equal content, equal version, whatever the paths are."""
    return hashlib.sha256("\n".join(sorted(entry.sha256 for entry in files)).encode()).hexdigest()
