"""`vesper worth`: what data is worth to the agent, by probes; points beside costs, with intervals."""

import argparse
import shutil
import sys
from pathlib import Path

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.settings import deployment
from dagster_project.stages import sources
from dagster_project.stages.stage import StageWork
from schemas.ids import GENERATED_SOURCE
from schemas.settings_flags import add_flags, flag_names, given_flags
from trainer.settings.worth import WorthSettings
from trainer.worth.tables import ASSETS, GROUP, MARKDOWN, PAGE, PROPOSAL

FLAGS = flag_names(WorthSettings)
STUDIES = [asset.partition("/")[2] for asset in ASSETS]
EXAMPLES = """examples:
  vesper worth --what sources
  vesper worth --what mixture --out out/worth
  vesper promote worth/mixture --alias production       the mixture follows the proposal from its next version on"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    parser.add_argument("--what", choices=[*STUDIES, "all"], default="sources", help="what is measured (sources)")
    add_store(parser, "a store with gold and held-out samples")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for a copy of the pages, tables and proposal")
    add_flags(parser.add_argument_group("settings over those of the deployment"), WorthSettings(), FLAGS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure what was asked; → 1 if nothing could be compared."""
    from dagster_project.stage_functions.worth import measured  # with torch, which the help does without

    settings = deployment.load()
    given = {"trainer": {"worth": given_flags(options, FLAGS)}}
    work = StageWork(open_store(options.home), settings, progress=sys.stderr.isatty(), given=given)
    passed = True
    for study in STUDIES if options.what == "all" else [options.what]:
        manifest = measured(f"{GROUP}/{study}", [*sources.enabled(settings), GENERATED_SOURCE], work)
        passed &= manifest.checks_passed
        print(manifest.file(MARKDOWN).read_text(encoding="utf-8"), end="")
        print(f"{manifest.asset} {manifest.version}: {manifest.file(PAGE)}")
        for entry in (*manifest.files, *manifest.side_files) if options.out else ():
            name = entry.path.rpartition("/")[2]
            if name in (PAGE, MARKDOWN, PROPOSAL):
                options.out.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(manifest.path(entry), options.out / f"{study}-{name}")
    return 0 if passed else 1
