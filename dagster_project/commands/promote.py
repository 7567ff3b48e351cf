"""`vesper promote ASSET[@VERSION]`, `vesper rollback ASSET [--to VERSION]`: which version of an asset others read, or
an alias names."""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime

from dagster_project.commands.store_option import add_store, open_store
from pipelines.store import Store, choose_version
from pipelines.store.aliases import ALIASES, alias_history
from pipelines.store.choose_version import versions
from pipelines.store.current_version import VersionChange, read_history
from trainer.stages import care_gate

EXAMPLES = {
    "promote": "vesper promote unified/aitw --list\n  vesper promote unified/aitw@5f9143db60d540ad\n"
    "  vesper promote checkpoints/unified@1f2e --alias production\n"
    '  vesper promote checkpoints/unified --force --reason "the check is wrong, see the log of 3 May"',
    "rollback": 'vesper rollback gold/aitw --reason "the new judge is too strict"\n'
    "  vesper rollback gold/aitw --to be6ab347597ff7af\n  vesper rollback checkpoints/unified --alias production",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"examples:\n  {EXAMPLES[command]}"
    if command == "promote":
        parser.add_argument("asset", metavar="ASSET[@VERSION]", help="an asset; without a version: the newest")
        parser.add_argument("--list", action="store_true", help="show all versions and the journal, change nothing")
        parser.add_argument("--json", action="store_true", help="the list as JSON")
    else:
        parser.add_argument("asset", metavar="ASSET", help="such as gold/aitw, unified or production")
        parser.add_argument("--to", metavar="VERSION", help="default: what was current before")
    parser.add_argument("--reason", default="", help="why; the journal keeps it")
    parser.add_argument("--force", action="store_true", help="though blocking checks failed; needs --reason")
    parser.add_argument(
        "--alias", choices=ALIASES, default="", help="change what this alias names, and leave what is current as it is"
    )
    add_store(parser)
    parser.set_defaults(run=promote if command == "promote" else roll_back)


def promote(options: argparse.Namespace) -> int:
    """Make a version current, or list them."""
    store = open_store(options.home)
    asset, version = choose_version.asset_of(options.asset)
    if options.list or options.json:
        return _show(store, asset, options.json)
    change = care_gate.promote(
        store, asset, version or None, why=options.reason, force=options.force, alias=options.alias
    )
    _print_change(asset, change, options.alias)
    return 0


def roll_back(options: argparse.Namespace) -> int:
    """Make an earlier version current."""
    store = open_store(options.home)
    asset, version = choose_version.asset_of(options.asset)
    alias = options.alias or (version if version in ALIASES else "")
    if version and version != alias:
        raise ValueError(f"{options.asset}: expected an asset without a version, which --to names; found @{version}")
    change = choose_version.roll_back(store, asset, options.to, why=options.reason, force=options.force, alias=alias)
    _print_change(asset, change, alias)
    return 0


def _print_change(asset: str, change: VersionChange, alias: str) -> None:
    note = ", though its checks failed" if change.forced else ""
    # Promoting what is current already isn't an error: a script may do it twice.
    same = change.before == change.version
    was = f"was {alias or 'current'} already" if same else f"before: {change.before or 'none'}"
    named = f"{asset}@{alias}" if alias else asset
    print(f"{named}: {change.version} {change.action} by {change.who}{note} ({was})")


def _show(store: Store, asset: str, as_json: bool) -> int:
    found, history = versions(store, asset), read_history(store.root(asset))
    by_alias = {alias: alias_history(store.root(asset), alias) for alias in ALIASES}
    if as_json:
        listed = [
            {
                "version": one.manifest.version,
                "made": _time(one.made),
                "current": one.current,
                "set_aside": one.set_aside,
                "aliases": one.aliases,
                "checks_passed": one.manifest.checks_passed,
                "bytes": one.bytes,
            }
            for one in found
        ]
        aliases = {alias: list(map(asdict, changes)) for alias, changes in by_alias.items() if changes}
        plain = {"asset": asset, "versions": listed, "history": list(map(asdict, history)), "aliases": aliases}
        print(json.dumps(plain, indent=1))
        return 0
    for one in found:
        notes = [
            word
            for word, holds in (
                ("current", one.current),
                ("set aside", one.set_aside),
                ("checks failed", not one.manifest.checks_passed),
            )
            if holds
        ]
        notes += one.aliases
        print(f"{one.manifest.version}  {_time(one.made)}  {one.bytes:>12,} bytes  {', '.join(notes)}".rstrip())
    for alias, changes in {"": history, **by_alias}.items():
        for change in changes:
            forced = " (forced)" if change.forced else ""
            why = f": {change.why}" if change.why else ""
            to = f" to {alias}" if alias else ""
            print(f"{change.when}  {change.version} {change.action}{to}{forced} by {change.who}{why}")
    return 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
