"""`vesper diff A B`: what entered and left the corpus between two versions, and why."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from dagster_project.commands.lineage import show, write_file
from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.diff import CHANGED, ENTERED, LEFT, Diff, compare
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.tables import clean, table


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper diff mid_training/mixture@62553a9e mid_training/mixture\n"
        "  vesper diff gold/aitz@17b391e3 gold/aitz --items changes.ndjson\n"
        "  vesper diff unified@d1d2261c unified"
    )
    for name, stated in (("A", "before"), ("B", "after")):
        parser.add_argument(
            name.lower(),
            metavar=name,
            help=f"{stated}: a version (ASSET@VERSION, its first digits suffice) of shards, a mixture, a gold, unified "
            "or raw asset; or a checkpoint, for what it trained on and with",
        )
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="counts, reasons and examples as JSON")
    parser.add_argument("--items", type=Path, metavar="FILE", help="write every item with its reason, as NDJSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare, print, and write the items if asked."""
    found = compare(Manifests(open_store(options.home)), options.a, options.b)
    if options.items:
        lines = (json.dumps(asdict(change), sort_keys=True, ensure_ascii=False) for change in found.changes)
        write_file(options.items, "".join(f"{line}\n" for line in lines))
    show(_lines(found), found.plain(), options.json)
    return 0


def _lines(found: Diff) -> Iterator[str]:
    plain = found.plain()
    yield f"{', '.join(found.before)} → {', '.join(found.after)}"
    yield f"{plain[LEFT]} left, {plain[ENTERED]} entered, {plain[CHANGED]} changed"
    rows = [
        [g["direction"], g["items"], g["source"], ": ".join(filter(None, (g["reason"], g["words"]))), g["examples"][0]]
        for g in plain["groups"]
    ]
    if rows:
        yield from table(("", "items", "source", "why", "for example"), rows, 70)
    for asset, (before, after) in found.inputs.items():
        code = " (other code: {} → {})".format(*found.code[asset]) if asset in found.code else ""
        yield f"{asset}: {clean(before or 'none')} → {clean(after or 'none')}{code}"
    for name, (before, after) in found.settings.items():
        yield f"{clean(name)}: {clean(before)} → {clean(after)}"
