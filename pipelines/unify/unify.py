"""raw → mapped → unified: a source's native files become its tables, with the checks that hold a version back.

An adapter maps the files part by part (`mapped`); the rows of all parts are then put into buckets (`regroup`).
"""

import json
from collections.abc import Mapping
from typing import Any

from pipelines import sources
from pipelines.engines.run_parts import Execution
from pipelines.mapping.adapter import Raw
from pipelines.mapping.layouts import why_none
from pipelines.store import Check, CheckSpec, Store
from pipelines.store.manifest import Manifest
from pipelines.unify import mapped as mapping
from pipelines.unify import regroup as regrouping
from pipelines.unify.changes import CHECKS as CHANGE_CHECKS
from pipelines.unify.changes import ChangeBands, change_checks, mapped_share
from pipelines.unify.counts import sum_counts
from pipelines.unify.mapped import map_source
from pipelines.unify.origin import NATIVE
from pipelines.unify.regroup import bucket_specs, regroup
from schemas.action_types import ACTION_SPACE, ActionSpace

CODE_VERSION = f"{mapping.CODE_VERSION}.{regrouping.CODE_VERSION}"
DAMAGES_SHOWN = 12
"""Damaged files that a check names."""
NOTHING_LOST = CheckSpec("nothing_lost", "Items in ≠ mapped + quarantined: the adapter dropped something silently")
FILES_READABLE = CheckSpec("files_readable", "A native file can't be read to its end, or none of its records can")
PICTURES_READABLE = CheckSpec(
    "pictures_readable", "Too many pictures can't be decoded; their rows stay without them", blocking=False
)
SOMETHING_MAPPED = CheckSpec("something_mapped", "Not one item was understood")
MOSTLY_MAPPED = CheckSpec("mostly_mapped", "More than half went to quarantine")
VOCABULARY_KNOWN = CheckSpec("vocabulary_known", "A column or action word that the adapter never saw", blocking=False)
CHECKS = (
    NOTHING_LOST,
    FILES_READABLE,
    PICTURES_READABLE,
    SOMETHING_MAPPED,
    MOSTLY_MAPPED,
    VOCABULARY_KNOWN,
    *CHANGE_CHECKS,
)


def unify_source(
    store: Store,
    source: str,
    raw: Raw,
    *,
    inputs: Mapping[str, str] | None = None,
    execution: Execution | None = None,
    bands: ChangeBands | None = None,
    origin: str = NATIVE,
    space: ActionSpace = ACTION_SPACE,
) -> Manifest:
    """Map a source's native files to `unified/<source>`: tables steps, samples, screens, quarantine.

    Adapters write `mapped/<source>`, in parts of native files (`pipelines.unify.parts_by_cost`); from there the rows go
    into buckets, which are the same however the files were cut (`pipelines.unify.regroup`).

    `raw` is the folder with its companions; `execution` says who runs the parts; `space` which actions the rows hold.
    Native units are counted, each exactly once: in = mapped + quarantined; the manifest's counts hold the report.
    A source with damaged files, or that fell behind its current version by more than `bands` allow, isn't made
    current; `origin` says where its data is from, as only versions of one origin are compared.
    Raises `ValueError` if the source is unknown or the folder has none of its files.
    """
    adapter = sources.get(source, space)
    groups = adapter.parts(raw)
    if not groups:
        raise ValueError(f"{source}: {why_none(adapter, raw)}; `vesper unify --layout {source}` shows what it reads")
    execution, bands, asset = execution or Execution(), bands or ChangeBands(), f"unified/{source}"
    mapped = map_source(store, adapter, raw, groups, inputs, execution)
    specs = bucket_specs(mapped)
    # An adapter whose version was raised maps its own source again, and no other one.
    code_version = f"{CODE_VERSION}.{adapter.mapping_version}"
    with store.build(asset, code_version=code_version, inputs=inputs, parts=specs) as build:
        for result in regroup(store, asset, build.version, mapped, specs, execution):
            build.add(result)
        # Counts of native units come from mapping, those of pictures from the buckets.
        counts = mapped.counts | sum_counts(build.results) | {"origin": origin}
        # Said only where it isn't the default, so that manifests from before there was a choice stay as they
        # are.
        counts |= {} if space == ACTION_SPACE else {"action_space": space}
        checks = [*_checks(counts, bands), *change_checks(counts, store.compared_with(asset), build.version, bands)]
        return build.commit(counts=counts, checks=checks)


def _damages(counts: dict[str, Any]) -> str:
    """`30 of 36 files are damaged: a.json: bad_json, …`"""
    number, named = counts["damaged_files"], sorted(counts["damages"])
    if not number:
        return f"{counts['files']} files read to their end"
    shown = "; ".join(named[:DAMAGES_SHOWN]) + ("; …" if number > DAMAGES_SHOWN else "")
    return f"{number} of {counts['files']} files damaged: {shown}"


def _checks(counts: dict[str, Any], bands: ChangeBands) -> list[Check]:
    # An item that failed for any other reason was understood; these are words nobody has mapped yet.
    lost = {name: number for name, number in counts["reasons"].items() if name.startswith("unknown_")}
    unseen = {name: number for name, number in lost.items() if name not in bands.words}
    items, records = (
        f"{counts[f'{unit}_in']} {unit} in, {counts[f'{unit}_mapped']} mapped + {counts[f'{unit}_quarantined']} "
        "quarantined"
        for unit in ("items", "records")
    )
    found, mapped, share = f"{items}; {records}", counts["items_mapped"], mapped_share(counts)
    broken = counts["images_broken"]
    pictures = counts.get("images", 0) + broken
    return [
        NOTHING_LOST.check(
            counts["items_in"] == counts["items_mapped"] + counts["items_quarantined"]
            and counts["records_in"] == counts["records_mapped"] + counts["records_quarantined"],
            found,
            "in = mapped + quarantined, of records and of items",
            counts["items_mapped"] + counts["items_quarantined"],
            counts["items_in"],
        ),
        FILES_READABLE.check(
            counts["damaged_files"] <= bands.damaged_files * counts["files"],
            _damages(counts),
            "every native file can be read to its end: bring the others again, or allow their share "
            "(sources.<source>.changes.damaged_files, --damaged-files)",
            counts["damaged_files"],
            bands.damaged_files * counts["files"],
        ),
        PICTURES_READABLE.check(
            broken <= bands.broken_pictures * pictures,
            f"{broken} of {pictures} pictures broken",
            "every picture can be decoded: bring the others again (rows of `quarantine` with unit image name file and "
            "reason), or allow their share (sources.<source>.changes.broken_pictures)",
            broken,
            bands.broken_pictures * pictures,
        ),
        SOMETHING_MAPPED.check(mapped > 0, f"{mapped} items", "at least one", mapped, 1),
        MOSTLY_MAPPED.check(share >= 0.5, found, "at least half of the records and of the items", share, 0.5),
        VOCABULARY_KNOWN.check(
            not unseen,
            json.dumps(unseen),
            "no column or action word that the adapter doesn't know: teach it the word, or accept its loss "
            "(sources.<source>.changes.words)",
            sum(unseen.values()),
            0,
        ),
    ]
