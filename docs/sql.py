"""Ask the tables of a store with SQL: `python docs/sql.py "SELECT source, count(*) FROM gold.steps GROUP BY 1"`.

Every table of every asset's current version becomes a DuckDB view `<group>.<table>`, all sources of a group together:
`unified.steps` is the table `steps` of all assets `unified/*`. A view lists exactly the files that the manifests name,
for a folder also holds older versions, and parts that a version shares with one before it lie in that one's folder.
The column `asset` says which asset a row is of. Without SQL the views are printed, for DuckDB's own shell:

    python docs/sql.py > tables.sql && duckdb -init tables.sql
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pipelines.store import Store

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""What is asked needs no extension that isn't built in; none is fetched."""


def files_of(home: Path) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(group, table) → [(asset, file)] of all current versions in the store."""
    store, found = Store(home), defaultdict(list)
    for pointer in sorted((store.home / "assets").rglob("current.json")):
        asset = pointer.parent.relative_to(store.home / "assets").as_posix()
        manifest = store.current(asset)
        if manifest is None:
            continue
        for entry in (*manifest.files, *manifest.side_files):
            path = manifest.root / entry.path
            if entry.table and path.suffix == ".parquet":
                found[asset.partition("/")[0], entry.table].append((asset, str(path)))
    return dict(found)


def views(home: Path) -> Iterator[str]:
    """One statement a view; schemas first. Raises `ValueError` if the folder holds no asset."""
    found = files_of(home)
    if not found:
        raise ValueError(f"{home}: expected a store with assets, found none; `make demo` fills one")
    for group in sorted({group for group, _ in found}):
        yield f'CREATE SCHEMA IF NOT EXISTS "{group}";'
    for (group, table), listed in sorted(found.items()):
        by_asset = defaultdict(list)
        for asset, path in listed:
            by_asset[asset].append(_text(path))
        parts = [
            f"SELECT {_text(asset)} AS asset, * FROM read_parquet([{', '.join(paths)}], union_by_name = true)"
            for asset, paths in by_asset.items()
        ]
        yield f'CREATE OR REPLACE VIEW "{group}"."{table}" AS {" UNION ALL BY NAME ".join(parts)};'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def main() -> int:
    """Print the views, or the answer to one question. Exit code 2 on bad input."""
    parser = argparse.ArgumentParser(description="SQL over the current versions of a store's tables.")
    parser.add_argument("sql", nargs="?", help="a question; without one the views are printed")
    parser.add_argument("--data", type=Path, default=os.environ.get("VESPER_HOME") or ".vesper", help="the store")
    options = parser.parse_args()
    try:
        statements = list(views(Path(options.data)))
    except (ValueError, OSError, RuntimeError) as error:
        print(f"sql: {error}", file=sys.stderr)
        return 2
    if options.sql is None:
        print("\n".join(statements))
        return 0
    import duckdb

    connection = duckdb.connect(config=OFFLINE)
    for statement in statements:
        connection.execute(statement)
    try:
        answer = connection.sql(options.sql)
    except duckdb.Error as error:
        print(f"sql: {error}", file=sys.stderr)
        return 2
    if answer is not None:
        answer.show(max_width=160, max_rows=40)
    return 0


if __name__ == "__main__":
    sys.exit(main())
