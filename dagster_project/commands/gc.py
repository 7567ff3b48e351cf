"""`vesper gc --keep N`: what of a store nobody needs any more, listed first, deleted with `--delete`."""

import argparse
import json
from typing import Any

from dagster_project.commands.store_option import add_store, open_store
from pipelines.store.collect_garbage import GarbagePlan, collect, survey
from pipelines.store.free_space import free_bytes, sized

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper gc --keep 3\n  vesper gc --keep 3 --delete\n  vesper gc --keep 1 --min-age 7d --json"
    )
    parser.add_argument(
        "--keep",
        type=int,
        required=True,
        metavar="N",
        help="versions of each asset that stay, besides all that these and the current were made from",
    )
    parser.add_argument(
        "--min-age", type=_seconds, default=86400.0, metavar="AGE", help="younger files stay: 30m, 24h (default), 7d"
    )
    parser.add_argument("--delete", action="store_true", help="delete; without it nothing is changed")
    parser.add_argument("--json", action="store_true", help="the plan as JSON")
    add_store(parser)
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isdigit() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"expected a number and s, m, h or d, such as 24h, found {text!r}")
    return float(int(number) * _UNITS[unit])


def run(options: argparse.Namespace) -> int:
    """List, and delete if asked to."""
    store = open_store(options.home)
    act = collect if options.delete else survey
    plan = act(store, options.keep, min_age_s=options.min_age)
    if options.json:
        print(json.dumps(_plain(plan, options.delete), indent=1, sort_keys=True))
        return 0
    _print(plan)
    # Asked after deleting, so that it is the room that there is now.
    free = sized(free_bytes(store.home))
    print(f"{'deleted' if options.delete else 'to delete'}: {plan.files} files, {sized(plan.bytes)}; {free} free now")
    if not options.delete and plan.files:
        print("dry run: nothing was changed; `--delete` deletes")
    return 0


def _print(plan: GarbagePlan) -> None:
    print(f"{'asset':<44} {'versions':>8} {'go':>4} {'bytes stay':>16} {'bytes go':>16}")
    for asset in sorted(plan.assets, key=lambda one: (-one.bytes, one.key)):
        print(
            f"{asset.key:<44} {len(asset.kept) + len(asset.dropped):>8} {len(asset.dropped):>4} "
            f"{asset.bytes_kept:>16,} {asset.bytes:>16,}{f'  left alone: {asset.held}' if asset.held else ''}"
        )
    going = sum(size for _, size in plan.screens)
    note = f"  left alone: {plan.screens_held}" if plan.screens_held else ""
    print(
        f"{'screens':<44} {plan.screens_kept + len(plan.screens):>8} {len(plan.screens):>4} "
        f"{plan.screens_bytes_kept:>16,} {going:>16,}{note}"
    )


def _plain(plan: GarbagePlan, deleted: bool) -> dict[str, Any]:
    assets = {
        one.key: {
            "kept": one.kept,
            "dropped": one.dropped,
            "files": len(one.files),
            "bytes": one.bytes,
            "bytes_kept": one.bytes_kept,
            "held": one.held,
        }
        for one in plan.assets
    }
    screens = {
        "dropped": len(plan.screens),
        "bytes": sum(size for _, size in plan.screens),
        "kept": plan.screens_kept,
        "bytes_kept": plan.screens_bytes_kept,
        "held": plan.screens_held,
    }
    return {"deleted": deleted, "files": plan.files, "bytes": plan.bytes, "assets": assets, "screens": screens}
