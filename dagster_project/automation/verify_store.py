"""The job `verify_store`: looks through the whole store for files that aren't what was written.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from functools import partial
from itertools import chain

import dagster as dg

from dagster_project.assets.resources import StoreResource
from dagster_project.settings import deployment
from dagster_project.settings.raw_folders import raw_folder
from pipelines.raw.rawdata import damaged_raw
from pipelines.store.verify_store import damages

SHOWN = 50
"""Damaged files that the failure lists."""


@dg.op(
    description="Holds every file of the current versions to its manifest, pictures to their names, native files to "
    "what raw/<source> lists."
)
def verify_files(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Raises `Failure` with the damaged files as metadata."""
    opened = store.open()
    native = damaged_raw(opened, partial(raw_folder, deployment.load(), opened.home))
    found = [str(damage) for damage in chain(damages(opened), native)]
    if found:
        listed = "\n".join(f"- {line}" for line in found[:SHOWN])
        raise dg.Failure(
            f"{len(found)} files are damaged; the first: {found[0]}",
            metadata={"damaged": len(found), "files": dg.MetadataValue.md(listed)},
            allow_retries=False,
        )
    context.log.info("every file is what was written")


@dg.job(description="Looks for bit rot: every file of the store against its manifest. Changes nothing.")
def verify_store() -> None:
    """One op."""
    verify_files()
