"""`vesper export corpus|pool|checkpoint --to FORM DIR`: corpus, tasks or a checkpoint as other trainers load them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.model_card import checkpoint_card
from dagster_project.settings import deployment as deployments
from dagster_project.stages.exports import FORMS, KINDS, require_fit
from generators.tasks.pool_export import pool_export
from pipelines.exports.corpus import corpus_export
from pipelines.exports.export import Export
from pipelines.exports.filters import Filters
from pipelines.exports.folder import write_folder
from pipelines.exports.push import push
from pipelines.store import Manifest, Store
from pipelines.store.choose_version import named_version
from pipelines.training_data.dataset_card import CARD, LICENCES, Group
from trainer.exports import export_checkpoint

_LISTS = ("source", "licence", "platform", "objective", "split")


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper export corpus --to trl out/trl\n"
        "  vesper export corpus --to llama-factory --licence 'Apache-*' --licence MIT --score 7 out/lf\n"
        "  vesper export pool --to verl out/tasks\n"
        "  vesper export checkpoint --to hub --asset unified --push acme/agent out/agent\n\n"
        "A run that was stopped goes on when the same command is given again."
    )
    parser.add_argument("kind", choices=tuple(KINDS), help="what to export")
    parser.add_argument("folder", metavar="DIR", type=Path, help="data/, README.md (its card) and LICENSES.md go there")
    parser.add_argument("--to", dest="form", metavar="FORM", required=True, help=f"one of {', '.join(FORMS)}")
    parser.add_argument(
        "--asset", metavar="NAME[@VERSION]", help="another asset or version: @1f2e, evaluations/heldout, production"
    )
    for name in _LISTS:
        text = (Filters.model_fields[name].description or "").removesuffix(".")
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"{text}; repeatable")
    parser.add_argument("--score", type=int, metavar="N", help=Filters.model_fields["score"].description)
    parser.add_argument("--mixture", action="store_true", help=Filters.model_fields["mixture"].description)
    parser.add_argument(
        "--shard-mb", type=int, default=256, metavar="MB", help="size from which a file is closed (256)"
    )
    parser.add_argument("--push", metavar="OWNER/NAME", help="with --to hub: upload it ($HF_ENDPOINT, $HF_TOKEN)")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Export; print a line for each file and what was written."""
    default = KINDS[options.kind].asset
    filters = Filters.parsed({name: getattr(options, name) for name in Filters.model_fields}, "filters")
    require_fit(options.kind, options.form, filters)
    if options.push and options.form != "hub":
        raise ValueError(f"--push: expected --to hub, which writes a repository's folder, found --to {options.form}")
    store = open_store(options.home)
    said = options.asset or default
    # A version alone (@1f2e) is of the usual asset.
    manifest = named_version(store, default + said if said.startswith("@") else said)
    groups = _export(store, manifest, options, filters)
    # Of a checkpoint, the rows that it was trained on are counted in its licences; what was exported is itself.
    what = "" if options.kind == "checkpoint" else f"{sum(groups.values())} rows of "
    print(f"{options.folder}: {what}{manifest.asset}@{manifest.version}; see {CARD} and {LICENCES}")
    if options.push:
        print(push(options.folder, options.push, "model" if options.kind == "checkpoint" else "dataset"))
    return 0


def _export(store: Store, manifest: Manifest, options: argparse.Namespace, filters: Filters) -> dict[Group, int]:
    refuses = deployments.load().licences.refuses
    if options.kind == "checkpoint":
        how = f"Exported by `vesper export checkpoint --to {options.form}`."
        card = checkpoint_card(Manifests(store), manifest, "THIS FOLDER", how)
        return export_checkpoint(manifest, options.form, options.folder, card, print, refuses=refuses)
    rows_of: Callable[..., Export[Any, Any]] = corpus_export if options.kind == "corpus" else pool_export
    return write_folder(options.folder, rows_of(store, manifest, options.form, filters), print, refuses=refuses)
