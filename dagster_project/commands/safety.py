"""`vesper scan`: planted triggers, personal data and credentials in a unified folder."""

import argparse
from pathlib import Path

from dagster_project.commands.corpus_option import TEXT, corpus, out_beside
from dagster_project.commands.engine_option import add_engine, execution


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper scan out/aitw --out out/aitw-scan --policy quarantine\n"
        "  vesper scan unified/aitw@1f2e --out out/aitw-scan"
    )
    parser.add_argument("input", metavar="DIR", type=corpus, help=TEXT)
    parser.add_argument(
        "--out", type=Path, help="findings.parquet, triggers.parquet, report.json (default: DIR with -scan after it)"
    )
    parser.add_argument(
        "--policy",
        choices=("report", "quarantine"),
        default="report",
        help="personal data: only report it (default), or list the items to take out",
    )
    add_engine(parser)
    parser.set_defaults(run=scan)


def scan(options: argparse.Namespace) -> int:
    """Scan a folder. Exit code 1 if a planted trigger was found."""
    from quality.commands.safety_scan import scan_directory

    source = options.input
    out = options.out or out_beside(source, "scan")
    if out.resolve() == source.resolve():
        raise ValueError(f"--out {out}: expected another folder than the one that is read")
    report = scan_directory(source, out, options.policy, execution(options))
    shown = ("items", "screens", "triggers", "items_trigger", "items_personal", "items_credential")
    text = ", ".join(f"{name.replace('_', ' ')} {report[name]}" for name in shown)
    print(f"{text}; report in {out / 'report.json'}")
    return 1 if report["triggers"] else 0
