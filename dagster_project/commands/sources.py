"""`vesper sources list | pull`."""

from __future__ import annotations

import argparse
import json
import os
import posixpath
from dataclasses import asdict
from pathlib import Path
from typing import Any

PULL = "vesper sources pull mind2web --from hf://datasets/osunlp/Mind2Web --to ~/data"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "examples:\n  vesper sources list --json\n  " + PULL
    actions = parser.add_subparsers(dest="action", metavar="list|pull", required=True)
    listing = actions.add_parser("list", help="all sources, one a line", epilog="example: vesper sources list --json")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="whole descriptors, loss tables included")
    form.add_argument("--markdown", action="store_true", help="the page docs/sources.md")
    listing.set_defaults(run=list_sources)
    pulling = actions.add_parser("pull", help="copy native files here", epilog=f"example: {PULL}")
    pulling.add_argument("source", metavar="ID", nargs="+", help="a source, or a companion such as rico")
    pulling.add_argument("--from", dest="origin", metavar="URL", required=True,
                         help="a folder or fsspec URL (hf://, gs://, https://); {id}: the source")  # fmt: skip
    pulling.add_argument("--to", type=Path, help="raw root; files go to TO/ID (default: $VESPER_HOME/incoming)")
    pulling.set_defaults(run=pull)


def list_sources(options: argparse.Namespace) -> int:
    """Print the registry."""
    from pipelines.sources import registry

    cards = [adapter.descriptor for adapter in registry().values()]
    if options.json:
        versions = {name: adapter.version for name, adapter in registry().items()}
        print(
            json.dumps([{**asdict(card), "version": versions[card.id]} for card in cards], indent=1, ensure_ascii=False)
        )
        return 0
    if options.markdown:
        from dagster_project.commands.source_cards import page

        print(page(cards), end="")
        return 0
    for card in cards:
        platforms, objectives = ",".join(card.platforms), ",".join(card.objectives)
        print(f"{card.id:20} {platforms:22} {objectives:22} {card.licence:24} {card.title}")
    return 0


def pull(options: argparse.Namespace) -> int:
    """Copy files that aren't there yet; a file appears whole or not at all."""
    from pipelines.sources import registry

    known = {name: adapter.descriptor for name, adapter in registry().items()}
    companions = {name for card in known.values() for name in card.companions}
    for name in options.source:
        if name not in known and name not in companions:
            raise ValueError(f"unknown source {name[:60]!r}; known are {', '.join(sorted({*known, *companions}))}")
    if len(options.source) > 1 and "{id}" not in options.origin:
        raise ValueError("--from: with several sources the URL needs an {id} in it")
    root = _root(options.to)
    for name in options.source:
        copied, there = fetch(options.origin.replace("{id}", name), root / name)
        print(f"{name}: {copied} files copied, {there} there already, in {root / name}")
    return 0


def _root(given: Path | None) -> Path:
    if given is not None:
        return given.expanduser()
    from dagster_project import deployment

    return deployment.load().raw_root


def fetch(origin: str, target: Path) -> tuple[int, int]:
    """Copy a folder (or one file) of any file system; (copied, already there with the same size).

    Raises `ValueError` if there is nothing, or a name leads out of the folder.
    """
    import fsspec
    from tqdm import tqdm

    try:
        system, path = fsspec.core.url_to_fs(origin)
        single = system.isfile(path)
        found: dict[str, Any] = {path: system.info(path)} if single else system.find(path, detail=True)
    except (ImportError, ValueError) as error:
        raise ValueError(f"--from {origin[:120]!r}: {error}") from error
    if not found:
        raise ValueError(f"--from {origin[:120]!r}: expected a folder with files or a file, found nothing")
    base = posixpath.dirname(path) if single else path.rstrip("/")
    copied = there = 0
    for name, info in tqdm(sorted(found.items()), desc=target.name, unit="file", mininterval=2):
        place = (target / posixpath.relpath(name, base)).resolve()
        if not place.is_relative_to(target.resolve()):
            raise ValueError(f"{name[:120]!r} leads out of the folder")
        if place.exists() and place.stat().st_size == info.get("size"):
            there += 1
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            system.get_file(name, str(partial))
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
        copied += 1
    return copied, there
