"""`vesper takedown LIST`: single records out of everything that a store holds, with the proof that they are gone."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.settings import deployment
from dagster_project.settings.raw_folders import raw_folder
from generators.generation import feedback
from generators.generation.round_names import VERIFIED
from pipelines import sources
from pipelines.mapping.adapter import Raw
from pipelines.store import TOMBSTONE, Store
from pipelines.takedown.check import verify
from pipelines.takedown.takedown import TakedownReport, finish, take_down
from pipelines.takedown.withdrawn import TakenDown, read_list
from quality.commands.takedown import forget

SHOWN = 20


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper takedown withdrawn.csv          columns id and reason; ids such as\n"
        "                                         record:aitw/10007919, episode:aitw/10007919,\n"
        "                                         step:aitw/10007919/3, sample:<32 hex>, screen:<sha256>\n"
        "  vesper takedown                        what the store remembers, once more\n"
        "  vesper takedown --verify               only look whether anything of it is left"
    )
    parser.add_argument("list", metavar="LIST", type=Path, nargs="?", help="a .csv or .jsonl file with id and reason")
    parser.add_argument("--verify", action="store_true", help="change nothing, only look what is left")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Take down and verify. Exit code 1 if anything is left."""
    store = open_store(options.home)
    if options.verify and options.list is not None:
        raise ValueError("--verify looks for what the store remembers; expected no LIST beside it")
    entries = read_list(options.list) if options.list is not None else []
    taken = TakenDown.load(store.home)
    if not entries and not taken:
        raise ValueError(f"{store.home}: nothing was ever taken down here; expected a LIST")
    plain: dict[str, Any] = {"remembered": len(taken.reasons)}
    raws = _Raws(store)
    if not options.verify:
        report, taken = take_down(store, entries, raws.of)
        _promote_rounds(store)
        forgotten = forget(store.home, taken)
        plain = {**asdict(report), "forgotten": asdict(forgotten)}
        if not options.json:
            _print(report)
            people = f"{forgotten.people} answers of people, {len(forgotten.sets)} promoted sets"
            print(f"caches: {forgotten.answers} answers of judges, {forgotten.vectors} vectors; {people}")
    sources = sorted({*taken.records, *taken.places})
    left = verify(store.home, taken, {name: raw for name in sources if (raw := raws.of(name)) is not None})
    if not options.verify:
        finish(store, taken)
    plain["left"] = [asdict(one) for one in left]
    if options.json:
        print(json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False))
    else:
        for one in left[:SHOWN]:
            print(f"left: {one.place}: {one.what}")
        print(f"verified: {f'{len(left)} places still hold something of it' if left else 'nothing of it is left'}")
    return 1 if left else 0


def _promote_rounds(store: Store) -> None:
    """Later rounds learn from promoted versions: those that were replaced are named anew."""
    rounds = feedback.promoted(store)["rounds"]
    gone = (store.root(f"{VERIFIED}/{name}") / version / TOMBSTONE for name, version in rounds.items())
    if any(path.is_file() for path in gone):
        feedback.promote(store)


class _Raws:
    """Native files of sources: where the deployment says, else in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, source: str) -> Raw | None:
        try:
            adapter = sources.get(source)
        except ValueError:  # generated here: nothing native
            return None
        chosen = deployment.load()
        folder = raw_folder(chosen, self._store.home, source)
        companions = {name: raw_folder(chosen, self._store.home, name) for name in adapter.descriptor.companions}
        there = {name: path for name, path in companions.items() if path.is_dir()}
        return Raw(folder, there) if folder.is_dir() else None


def _print(report: TakedownReport) -> None:
    text = ", ".join(f"{number} of {source}" for source, number in report.records.items())
    print(f"{report.entries} ids remembered; native records that the store held: {text or 'none'}")
    for name in report.unknown:
        print(f"not in this store, left out from now on: {name}")
    for key, rows in report.rows.items():
        print(f"{key}: {rows} rows went")
    for name, new in report.versions.items():
        print(f"{name}: {new} took its place")
    print(f"screens: {report.screens} pictures went")
    for raw in report.raw:
        print(f"raw/{raw.source}: {len(raw.changed)} files cut, {len(raw.removed)} removed")
        for file in raw.left[:SHOWN]:
            by_hand = "write it anew without the record, or withdraw the whole file"
            print(f"raw/{raw.source}: {file}: no cut leaves exactly its other records: {by_hand}")
    for journal in report.journals:
        print(f"{journal}: went")
    for name in report.trained:
        print(f"trained on it: {name} (its weights stay; train again, then `vesper gc`)")
