"""`vesper export corpus|pool|checkpoint --to FORM DIR`: corpus, tasks or a checkpoint as other trainers load them."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.model_card import checkpoint_card
from dagster_project.settings import deployment as deployments
from generators.tasks.pool_export import POOL, export_pool
from generators.tasks.task_pool import SHARDS as TASKS
from pipelines.exports.corpus import export_corpus
from pipelines.exports.filters import Filters
from pipelines.exports.forms import CORPUS
from pipelines.exports.push import push
from pipelines.store import Manifest, Store
from pipelines.store.choose_version import named_version
from pipelines.training_data.dataset_card import CARD, LICENCES, Group
from pipelines.training_data.shards import ASSET as SHARDS
from schemas.settings import near
from trainer.exports import CHECKPOINT, export_checkpoint

KINDS: dict[str, tuple[str, Mapping[str, object]]] = {
    "corpus": (SHARDS, CORPUS),
    "pool": (TASKS, POOL),
    "checkpoint": ("checkpoints/unified", CHECKPOINT),
}
"""What is exported → its asset unless another is named, and its forms."""
FORMS = tuple(dict.fromkeys(form for _, forms in KINDS.values() for form in forms))
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
    default, forms = KINDS[options.kind]
    if options.form not in forms:
        raise ValueError(_unknown(options.kind, options.form))
    if options.push and options.form != "hub":
        raise ValueError(f"--push: expected --to hub, which writes a repository's folder, found --to {options.form}")
    given = {name: tuple(getattr(options, name)) for name in _LISTS if getattr(options, name)}
    # 0 is a score as well.
    given |= {"score": options.score} if options.score is not None else {}
    filters = Filters.parsed({**given, "mixture": options.mixture, "shard_mb": options.shard_mb}, "filters")
    store = open_store(options.home)
    said = options.asset or default
    # A version alone (@1f2e) is of the usual asset.
    manifest = named_version(store, default + said if said.startswith("@") else said)
    groups = _export(store, manifest, options, filters, given)
    # Of a checkpoint, the rows that it was trained on are counted in its licences; what was exported is itself.
    what = "" if options.kind == "checkpoint" else f"{sum(groups.values())} rows of "
    print(f"{options.folder}: {what}{manifest.asset}@{manifest.version}; see {CARD} and {LICENCES}")
    if options.push:
        print(push(options.folder, options.push, "model" if options.kind == "checkpoint" else "dataset"))
    return 0


def _export(
    store: Store, manifest: Manifest, options: argparse.Namespace, filters: Filters, given: Mapping[str, object]
) -> dict[Group, int]:
    refuses = deployments.load().licences.refuses
    if options.kind != "checkpoint":
        export = export_corpus if options.kind == "corpus" else export_pool
        return export(store, manifest, options.form, options.folder, filters, print, refuses=refuses)
    if given or options.mixture:
        raise ValueError(f"--{next(iter(given), 'mixture')}: expected no filter for a checkpoint, which is whole")
    how = f"Exported by `vesper export checkpoint --to {options.form}`."
    card = checkpoint_card(Manifests(store), manifest, "THIS FOLDER", how)
    return export_checkpoint(manifest, options.form, options.folder, card, print, refuses=refuses)


def _unknown(kind: str, form: str) -> str:
    """The error for a form that a kind doesn't have: what it has, and which kinds have that form."""
    offered = [other for other, (_, forms) in KINDS.items() if form in forms]
    more = f"it is there for a {' and a '.join(offered)}" if offered else near(form, FORMS)
    return f"--to: expected one of {', '.join(KINDS[kind][1])} for a {kind}, found {form!r}{more and f' ({more})'}"
