"""`vesper sources list | pull`."""

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten
from typing import Any

from dagster_project.commands.source_cards import page
from dagster_project.settings import deployment as deployments
from pipelines.mapping.card import Download
from pipelines.raw.pull import first_rows, pull_source
from pipelines.sources import registry
from schemas.settings import nearest

PULL = "vesper sources pull mind2web --revision main --to ~/data"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "examples:\n  vesper sources list --json\n  " + PULL
    actions = parser.add_subparsers(dest="action", metavar="list|pull", required=True)
    listing = actions.add_parser(
        "list",
        help="all sources, one a line",
        epilog="example: vesper sources list --json",
        description="All sources. STATE is what becomes of a source here: native (its files are here), embedded "
        "(Vesper makes some), waiting (for files), licence (the deployment's policy doesn't allow it), off.",
    )
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="whole descriptors, loss tables included")
    form.add_argument("--markdown", action="store_true", help="the page docs/sources.md")
    listing.set_defaults(run=list_sources)
    pulling = actions.add_parser("pull", help="bring native files here", epilog=f"example: {PULL}")
    pulling.add_argument("source", metavar="ID", nargs="+", help="a source, or a companion such as rico")
    pulling.add_argument(
        "--from",
        dest="origin",
        metavar="URL",
        help="a folder or fsspec URL (hf://datasets/OWNER/NAME, gs://…); {id}: the source (default: its descriptor's)",
    )
    pulling.add_argument("--to", type=Path, help="raw root; files go to TO/ID (default: the deployment's raw_root)")
    pulling.add_argument("--revision", help="branch, tag or commit (default: the deployment's, else what was pulled)")
    pulling.add_argument("--update", action="store_true", help="move on to the newest revision")
    pulling.add_argument("--rows", type=int, metavar="N", help="stream only the first N rows of each table")
    pulling.add_argument("--endpoint", metavar="URL", help="another hub that speaks the same API (HF_ENDPOINT)")
    pulling.set_defaults(run=pull)


def list_sources(options: argparse.Namespace) -> int:
    """Print the registry."""
    cards = [adapter.descriptor for adapter in registry().values()]
    if options.json:
        versions = {name: adapter.version for name, adapter in registry().items()}
        print(
            json.dumps([{**asdict(card), "version": versions[card.id]} for card in cards], indent=1, ensure_ascii=False)
        )
        return 0
    if options.markdown:
        print(page(cards), end="")
        return 0

    deployment = deployments.load()
    print(f"{'SOURCE':20} {'STATE':9} {'PLATFORMS':22} {'OBJECTIVES':38} {'LICENCE':28} TITLE")
    for card in cards:
        platforms, objectives = ",".join(card.platforms), ",".join(card.objectives)
        state = deployment.state(card.id, card.licence)
        licence = shorten(card.licence, 28, placeholder=" …")
        print(f"{card.id:20} {state:9} {platforms:22} {objectives:38} {licence:28} {card.title}")
    return 0


def pull(options: argparse.Namespace) -> int:
    """Bring native files here: resumed, verified, pinned. What the licence policy doesn't allow is refused."""
    if options.endpoint:
        os.environ["HF_ENDPOINT"] = options.endpoint  # before the hub's libraries are imported: they read it once

    deployment = deployments.load()
    known = {name: adapter.descriptor for name, adapter in registry().items()}
    companions = {name for card in known.values() for name in card.companions}
    for name in options.source:
        if name not in known and name not in companions:
            raise ValueError(f"unknown source {name[:60]!r}; {nearest(name, {*known, *companions})}")
        if name in known and (why := deployment.licences.refuses(known[name].licence)):
            raise ValueError(f"{name}: {why}")
    # All of them would go into one folder.
    if len(options.source) > 1 and options.origin and "{id}" not in options.origin:
        raise ValueError("--from: with several sources the URL needs an {id} in it")
    root = options.to.expanduser() if options.to is not None else deployment.raw_root
    for name in options.source:
        said = options.origin.replace("{id}", name) if options.origin else ""
        card = known.get(name)
        download = _download(said) if said else (card.download if card else None)
        if download is None:
            where = f"; a person finds it at {card.origin}" if card else ""
            # Some data sets can only be had by hand.
            raise ValueError(f"{name}: no download is known; say --from URL{where}")
        print(f"{name}: {_pull_one(options, name, download, root, deployment.source(name).revision)}, in {root / name}")
    return 0


def _download(said: str) -> Any:
    hub, _, rest = said.partition("://")
    if hub != "hf" or not rest.startswith("datasets/"):
        return Download(url=said)
    parts = rest.removeprefix("datasets/").strip("/").split("/")
    if len(parts) < 2:
        raise ValueError(f"--from {said[:120]!r}: expected hf://datasets/OWNER/NAME")
    # A path within the repository is a prefix of its files.
    return Download(repo="/".join(parts[:2]), files=(f"{'/'.join(parts[2:])}*",) if parts[2:] else ())


def _pull_one(options: argparse.Namespace, name: str, download: Any, root: Path, pinned: str | None) -> str:
    # What is said now wins over what the deployment pins.
    revision = options.revision or pinned
    if options.rows is None:
        return pull_source(download, root / name, revision=revision, update=options.update)
    if not download.repo:
        raise ValueError(f"{name}: --rows streams from a hub repository; {download.url!r} is none")
    built = first_rows(download.repo, options.rows, root / name, revision=revision)
    return ", ".join(f"{count} rows in {file}" for file, count in built.items())
