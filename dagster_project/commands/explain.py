"""`vesper explain ITEM_ID`: one item from its native row to the checkpoints that trained on it."""

import argparse

from dagster_project.commands.lineage import show
from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.explain import explain
from dagster_project.lineage.explain_text import explain_lines
from dagster_project.lineage.manifests import Manifests


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper explain step:aitz/5020101251009000000/3\n"
        "  vesper explain 4b97ccc1af94731ffd74ca483117ce54\n"
        "  vesper explain screenqa/answers_and_bboxes/train.json#'row 16'\n  vesper explain sample:... --native --json"
    )
    parser.add_argument(
        "item",
        metavar="ITEM_ID",
        help="step:SOURCE/EPISODE/NUMBER, episode:SOURCE/EPISODE, sample:ID, or the bare id of a sample, an episode, a "
        "trajectory or a native record; SOURCE/FILE#PLACE of what was quarantined",
    )
    add_store(parser)
    parser.add_argument("--native", action="store_true", help="read its record back from the native files")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is known of it."""
    answer = explain(Manifests(open_store(options.home)), options.item, options.native)
    show(explain_lines(answer), answer, options.json)
    return 0
