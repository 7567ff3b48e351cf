"""`exports/<form>`: the corpus in the forms that the deployment names, kept beside its shards."""

from collections.abc import Iterator

from dagster_project.settings.deployment import Deployment, DeploymentError, ExportSettings
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.exports import corpus
from pipelines.exports.filters import Filters
from pipelines.exports.forms import CORPUS
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture import ASSET as MIXTURE
from pipelines.training_data.mixture import SCAN
from pipelines.training_data.shards import ASSET as SHARDS
from schemas.settings import nearest


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """A stage an export, after the scan of the shards: what it found never leaves. Raises `DeploymentError` for a form
    that there isn't."""
    for said in deployment.exports:
        if said.form not in CORPUS:
            raise DeploymentError(f"deployment: exports: unknown form {said.form[:80]!r}; {nearest(said.form, CORPUS)}")
        yield GraphStage(
            key=corpus.asset_of(said.form),
            # After the scan, whose findings never leave; the mixture only where the export is one of it.
            deps=(SHARDS, SCAN, *([MIXTURE] if said.mixture else [])),
            job="build_corpus",
            run=_Export(said),
            kinds=("huggingface",) if CORPUS[said.form].schema is not None else ("file",),
            code_version=corpus.CODE_VERSION,
            checks=(corpus.ALL_EXPORTED,),
            owners=deployment.owners,
            description=f"The corpus for {CORPUS[said.form].loader}, with its card and licences.",
        )


class _Export:
    """The function of an export's stage."""

    def __init__(self, said: ExportSettings) -> None:
        self._form = said.form
        # The rest of the settings are the filters' own names.
        self._filters = Filters(**{name: value for name, value in said.given().items() if name != "form"})

    def __call__(self, work: StageWork) -> Manifest:
        """Write what of the export isn't there."""
        return corpus.build_export(work.store, self._form, self._filters, refuses=work.deployment.licences.refuses)
