"""`vesper unify | dedup | shard`: the pipeline's steps on plain folders, without a store."""

import argparse
from pathlib import Path
from typing import Any

from dagster_project.commands.corpus_option import corpus
from dagster_project.commands.engine_option import add_engine, execution
from pipelines.commands import shard_directory, unify_directory
from pipelines.mapping.adapter import Raw
from pipelines.mapping.layouts import layout
from pipelines.raw.archives import SUFFIXES, is_archive, unpack
from pipelines.sources import get
from pipelines.store import Store
from pipelines.unify.changes import ChangeBands
from quality.commands.dedup_texts import dedup_file
from schemas.action_types import ACTION_SPACE, SPACES

EXAMPLES = {
    "unify": "vesper unify screenqa --raw ~/data/screenqa.zip --companion rico=~/data/rico --out out/screenqa",
    "dedup": "vesper dedup tasks.jsonl --threshold 0.9 --out out/dedup",
    "shard": "vesper shard out/aitw-gold --out out/shards",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLES[command]}"
    {"unify": _unify_arguments, "dedup": _dedup_arguments, "shard": _shard_arguments}[command](parser)


def _unify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help="a source of `vesper sources list`")
    parser.add_argument("--layout", action="store_true", help="show what native files it reads, and end")
    parser.add_argument("--raw", type=Path, help="folder of native files, or a .zip or .tar(.gz) of them")
    parser.add_argument("--out", type=Path, help="steps*.parquet, samples*.parquet, screens/, report.json")
    parser.add_argument(
        "--companion",
        action="append",
        default=[],
        metavar="ID=PATH",
        help="folder or archive of a companion, such as rico=~/data/rico",
    )
    add_engine(parser)
    parser.add_argument(
        "--action-space",
        choices=tuple(SPACES),
        default=ACTION_SPACE,
        help="which actions the rows may hold: v2 has RightClick, SelectOption, GetUrl and TakeNote beside the 16 of "
        f"v1.5 (default: {ACTION_SPACE})",
    )
    parser.add_argument(
        "--damaged-files",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="share of the native files that may be unreadable or end in the middle (default: 0.2; in the graph 0)",
    )
    parser.set_defaults(run=unify)


def _dedup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="parquet or JSONL with columns id and text")
    parser.add_argument(
        "--threshold", type=float, required=True, help="cosine similarity from which two are duplicates"
    )
    parser.add_argument("--out", type=Path, required=True, help="pairs.parquet and kept.parquet")
    parser.add_argument("--model", help="a sentence-transformers model by name or path (default: the embedded one)")
    parser.set_defaults(run=dedup)


def _shard_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="IN", type=corpus, help="what `vesper refine` (or unify) wrote, or its asset: gold/aitw"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="data/ (the shards), README.md (their card), index.parquet, report.json"
    )
    parser.add_argument(
        "--split",
        action="append",
        choices=("train", "validation", "test"),
        help="may be given more than once (default: train)",
    )
    add_engine(parser)
    parser.set_defaults(run=shard)


def unify(options: argparse.Namespace) -> int:
    """Native files → unified tables."""
    adapter = get(options.source)  # before an archive is unpacked for nothing
    if options.layout:
        print(layout(adapter))
        return 0
    if missing := [flag for flag, value in (("--raw", options.raw), ("--out", options.out)) if value is None]:
        raise ValueError(f"expected {' and '.join(missing)}, found none; `--layout` shows what {options.source} reads")
    # A rerun removes such files in OUT, which may be the folder of the native ones.
    keep_off(options.out, options.raw.expanduser(), "*-*.parquet", "screens/*/*")
    companions = {}
    for text in options.companion:
        name, sign, path = text.partition("=")
        if not sign or not Path(path).expanduser().exists():
            raise ValueError(f"--companion: expected ID=PATH with an existing folder or archive, found {text!r}")
        companions[name] = _folder(Path(path).expanduser(), options.out)
    raw = Raw(_folder(options.raw.expanduser(), options.out), companions)
    bands = ChangeBands(damaged_files=options.damaged_files)
    report = unify_directory(
        options.source, raw, options.out, execution=execution(options), bands=bands, space=options.action_space
    )
    records, items = report["records"], report["items"]
    unit = items["unit"].partition(":")[0]
    print(
        f"{options.source}: {items['in']} in, {items['mapped']} mapped, {items['quarantined']} quarantined "
        f"(counted: {unit}); {records['in']} records, {records['quarantined']} of them quarantined; "
        f"report in {options.out / 'report.json'}"
    )
    failed = report["failed"]
    if report["damaged_files"]:
        print(f"note: {report['files']} native files, damaged: {'; '.join(report['damaged_files'])}")
    if report["images_broken"]:
        # Their rows are mapped all the same, so no count of rows shows that every picture is junk.
        print(f"note: {report['images_broken']} pictures can't be read; see {options.out / 'quarantine.jsonl'}")
    if report["images_missing"]:
        rows = report["rows"]["steps"] + report["rows"]["samples"]
        print(
            f"note: {report['images_missing']} of {rows} rows have no picture; if the source has them, bring them too"
        )
    current = Store(options.out / ".store").current(f"unified/{options.source}")
    if current is None or current.data_version != report["data_version"]:  # only what passed becomes current
        failures = "; ".join(f"{name}: {said}" for name, said in failed.items())
        raise ValueError(f"checks failed: {failures}; see {options.out / 'report.json'}")
    if failed:
        unseen = [name for name in report["quarantine_reasons"] if name.startswith("unknown_")]
        message = f" ({', '.join(unseen)})" if unseen else ""
        print(f"note: {', '.join(failed)} failed{message}; see {options.out / 'quarantine.jsonl'}")
    return 0


def keep_off(out: Path, source: Path, *replaced: str) -> None:
    """Raises `ValueError` if writing to OUT would damage what is read, or remove files (those of the patterns, which a
    rerun replaces) that no earlier run wrote."""
    if out.resolve() == source.resolve():
        raise ValueError(f"--out {out}: expected another folder than the one that is read")
    foreign = [] if (out / ".store").is_dir() else [path for pattern in replaced for path in sorted(out.glob(pattern))]
    if foreign:
        raise ValueError(
            f"--out {out}: expected an empty folder or one written by this command, found {foreign[0].name!r}, which "
            "would be replaced"
        )


def _folder(path: Path, out: Path) -> Path:
    """The folder itself; an archive is unpacked beside the store, once. Raises `ArchiveError`."""
    if is_archive(path):
        return unpack(path, out / ".store" / "cache" / "archives")
    if path.is_file():
        raise ValueError(f"{path.name}: expected a folder or an archive ({', '.join(SUFFIXES)}), found a file")
    return path


def dedup(options: argparse.Namespace) -> int:
    """A list of texts → its duplicates."""
    more = {"model": options.model} if options.model else {}
    report = dedup_file(options.file, options.threshold, options.out, cache=options.out / "cache", **more)
    return print_report(report, ("rows", "pairs", "kept", "displaced"), options.out)


def shard(options: argparse.Namespace) -> int:
    """Samples and screens → shards."""
    keep_off(options.out, options.input, "data/*.parquet", "shards/*.parquet", "index.parquet", "README.md")
    splits = tuple(options.split or ("train",))
    report = shard_directory(options.input, options.out, splits, execution=execution(options))
    return print_report(report, ("samples", "shards", "tokens"), options.out)


def print_report(report: dict[str, Any], names: tuple[str, ...], out: Path) -> int:
    """Print figures of a report in one line; returns 0."""
    shown = ((name, report[name]) for name in names if name in report)
    line = ", ".join(f"{n.replace('_', ' ')} {v:.3f}" if isinstance(v, float) else f"{n} {v}" for n, v in shown)
    print(f"{line}; report in {out / 'report.json'}")
    return 0
