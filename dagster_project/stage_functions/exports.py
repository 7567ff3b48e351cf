"""What the stages of `stages.exports` run."""

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.model_card import checkpoint_card
from dagster_project.settings.exports import ExportSettings
from dagster_project.stages.exports import KINDS
from dagster_project.stages.stage import StageWork
from generators.tasks.pool_export import pool_export
from pipelines.exports.asset import asset_of, build_asset
from pipelines.exports.corpus import corpus_export
from pipelines.store.manifest import Manifest
from pipelines.training_data import mixture
from trainer.exports import build_export


def exported(said: ExportSettings, work: StageWork) -> Manifest:
    """Write what of an export isn't there. Raises `ValueError` if filters leave nothing or the policy refuses a licence
    of what they leave; `StoreError` without what it is made of, or, of the corpus, while no scan has passed it."""
    store, asset, refuses = work.store, asset_of(said.asset_name), work.deployment.licences.refuses
    if said.kind == "checkpoint":
        checkpoint = store.require(f"checkpoints/{said.checkpoint}")
        card = checkpoint_card(Manifests(store), checkpoint, "THIS FOLDER", f"Retained as the asset `{asset}`.")
        return build_export(store, asset, checkpoint, card, refuses=refuses)
    manifest = store.require(KINDS[said.kind].asset)
    if said.kind == "pool":
        return build_asset(store, asset, pool_export(store, manifest, said.form, said.filters), refuses=refuses)
    # What the scan found must not leave the house either.
    mixture.require_scan(store, manifest)
    return build_asset(store, asset, corpus_export(store, manifest, said.form, said.filters), refuses=refuses)
