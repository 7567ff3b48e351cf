"""`exports/<name>`: what the deployment exports, in the forms that others load, retained beside what it is made of."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from dagster_project.settings.deployment import Deployment, DeploymentError
from dagster_project.settings.exports import ExportSettings
from dagster_project.stages.stage import GraphStage, Job, NamedFunction
from generators.tasks import pool_export
from generators.tasks.pool_export import POOL
from generators.tasks.task_pool import SHARDS as TASKS
from pipelines.exports.asset import ALL_EXPORTED, CODE_VERSION, asset_of
from pipelines.exports.filters import Filters
from pipelines.exports.form import ExportForm
from pipelines.exports.forms import CORPUS
from pipelines.training_data.mixture import ASSET as MIXTURE
from pipelines.training_data.mixture import SCAN
from pipelines.training_data.shards import ASSET as SHARDS
from schemas.settings import near, nearest
from trainer.exports import CHECKPOINT, SAME_FILES

FUNCTION = "dagster_project.stage_functions.exports:exported"


class Exportable(NamedTuple):
    """A kind of thing that is exported."""

    asset: str
    """Which, unless another is named."""
    forms: Collection[str]
    filters: Collection[str]


KINDS = {
    "corpus": Exportable(SHARDS, CORPUS, Filters.model_fields),
    "pool": Exportable(TASKS, POOL, pool_export.FILTERS),
    "checkpoint": Exportable("checkpoints/unified", CHECKPOINT, ()),
}
OF_ROWS: Mapping[str, Mapping[str, ExportForm[Any]]] = {"corpus": CORPUS, "pool": POOL}
FORMS = tuple(dict.fromkeys(form for kind in KINDS.values() for form in kind.forms))


def require_fit(kind: str, form: str, filters: Filters) -> None:
    """Raise `ValueError` for a form that a kind hasn't, which says what it has and which kinds have that form, and for
    a filter that means nothing to it."""
    forms = KINDS[kind].forms
    if form not in forms:
        offered = [other for other, found in KINDS.items() if form in found.forms]
        more = f"it is there for a {' and a '.join(offered)}" if offered else near(form, FORMS)
        raise ValueError(
            f"form: expected one of {', '.join(forms)} for a {kind}, found {form[:80]!r}{more and f' ({more})'}"
        )
    filters.require_only(kind, KINDS[kind].filters)


def stages(deployment: Deployment, trained: Mapping[str, Job]) -> Iterator[GraphStage]:
    """A stage an export. `trained`: stages of the trainer → their jobs. Raises `DeploymentError` for a form, a filter
    or a checkpoint that there isn't."""
    names = Counter(asset_of(said.asset_name) for said in deployment.exports)
    for said in deployment.exports:
        if names[name := asset_of(said.asset_name)] > 1:
            raise DeploymentError(f"deployment: exports: {name} is there twice; give one of them another `name`")
        try:
            require_fit(said.kind, said.form, said.filters)
        except ValueError as error:
            raise DeploymentError(f"deployment: exports: {error}") from None
        form = OF_ROWS.get(said.kind, {}).get(said.form)
        deps, job = _place(said, trained)
        yield GraphStage(
            key=name,
            deps=deps,
            job=job,
            run=NamedFunction(FUNCTION, (said,)),
            kinds=("huggingface",) if form is None or form.schema is not None else ("file",),
            code_version=CODE_VERSION,
            checks=(SAME_FILES if form is None else ALL_EXPORTED,),
            owners=deployment.owners,
            form=form,
            description=f"{deps[0]} for {CHECKPOINT[said.form] if form is None else form.loader}, with its card and "
            "licences.",
        )


def _place(said: ExportSettings, trained: Mapping[str, Job]) -> tuple[tuple[str, ...], Job]:
    """What an export is made after, first what it is made of; and the job that makes it."""
    if said.kind == "pool":
        return (TASKS,), "build_corpus"
    if said.kind == "corpus":
        # After the scan, whose findings never leave; the mixture only where the export is one of it.
        return (SHARDS, SCAN, *([MIXTURE] if said.mixture else [])), "build_corpus"
    asset, evaluation = (f"{group}/{said.checkpoint}" for group in ("checkpoints", "evaluations"))
    if asset not in trained or evaluation not in trained:
        known = [name.removeprefix("checkpoints/") for name in trained if name.startswith("checkpoints/")]
        raise DeploymentError(
            f"deployment: exports: unknown checkpoint {said.checkpoint[:80]!r}; {nearest(said.checkpoint, known)}"
        )
    # The card has the figures of the evaluation.
    return (asset, evaluation), trained[asset]
