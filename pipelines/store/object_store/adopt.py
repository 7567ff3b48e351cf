"""Put a store of local files behind a URL: `python -m pipelines.store.object_store.adopt --home DIR URL`.

All parts with their pictures, manifests, journals and promoted feedback, and the pointers last; then the home becomes
the copy. Nothing here is changed. It may be stopped and run again: what is there already isn't put twice.
"""

import argparse
import sys
from pathlib import Path

from pipelines.home import default_home
from pipelines.store.current_version import JOURNAL, POINTER
from pipelines.store.files import StoreError
from pipelines.store.object_store.binding import FILE, MARK, bind, open_objects
from pipelines.store.object_store.copies import StoreCopies
from pipelines.store.object_store.withdrawn import NAME
from pipelines.store.parts import read_marker
from pipelines.store.reachable import find_assets
from pipelines.store.store import TOMBSTONE, Store


def adopt(home: Path, url: str) -> int:
    """Put a local store behind a URL and bind it; returns the number of its assets. Raises `StoreError` if there is
    another store already, a build is in progress, or a file has gone that a manifest names."""
    if (home / FILE).exists():
        raise StoreError(f"{home}: is the copy of a URL already, see its {FILE}")
    store, objects = Store(home, ""), open_objects(url)
    assets = find_assets(store)
    # A build in progress would go on writing here what nobody puts there.
    for asset in assets.values():
        if asset.holder is not None:
            raise StoreError(
                f"{asset.key}: is being built by process {asset.holder.pid}; wait for it to end, or stop it"
            )
    if objects.read(MARK) is not None:
        raise StoreError(f"{url}: holds a store already; take an empty place, or an empty VESPER_HOME in front of it")
    copies = StoreCopies(store.home, objects)
    # Parts of all assets before any manifest, since manifests name parts of others.
    for asset in assets.values():
        _put_parts(copies, asset.root)
    for asset in assets.values():
        for version, manifest in sorted(asset.manifests.items()):
            # Whatever a manifest names must be there before it is.
            copies.require_files(asset.root, [*manifest.files, *manifest.side_files])
            copies.objects.put_file(
                copies.name(asset.root / version / "manifest.json"), asset.root / version / "manifest.json"
            )
        # Pointers last: until then nobody reads anything of this store.
        for path in (*asset.root.glob(f"*/{TOMBSTONE}"), asset.root / JOURNAL, asset.root / POINTER):
            if path.exists():
                copies.objects.put_file(copies.name(path), path)
    for path in sorted(store.home.glob("feedback/*/current.json")):
        copies.put_feedback(path)
    if (store.home / NAME).exists():
        copies.objects.put_file(NAME, store.home / NAME)
    # From here on the home is a copy; before it, a run that was stopped may just be run again.
    bind(store.home, url, holds_it=True)
    return len(assets)


def _put_parts(copies: StoreCopies, root: Path) -> None:
    """Finished parts whose files are all here, and whose receipt isn't there yet."""
    there = copies.sizes(root)
    for receipt in sorted((root / "parts").glob("*.json")):
        found = read_marker(receipt.read_text(encoding="utf-8"), receipt)
        entries = (*found.files, *found.side_files)
        whole = all((root / entry.path).is_file() for entry in entries)
        if whole and receipt.relative_to(root).as_posix() not in there:
            copies.put_part(root, receipt, entries)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pipelines.store.object_store.adopt", description=adopt.__doc__)
    parser.add_argument("--home", type=Path, default=default_home(), help="the store ($VESPER_HOME)")
    parser.add_argument("url", help="where it goes: s3://bucket/prefix, file:///share")
    options = parser.parse_args()
    try:
        number = adopt(options.home.resolve(), options.url.rstrip("/"))
    except StoreError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{number} assets of {options.home} are behind {options.url} now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
