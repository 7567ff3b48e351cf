"""`worth/sources`, `worth/rules`, `worth/mixture`: what data is worth to the agent, measured by probes, as assets.

Each version holds the table `worth`; what wall time and judges cost stands beside, with a page and a table to read, in
files that enter no version. Probes are kept in `cache/worth`, so what has not changed is not trained again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.store import PartSpec, PartWriter, Store, StoreError
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY
from schemas.ids import canonical_json, digest
from trainer.data.rows import light_rows, with_pictures
from trainer.evaluation.evaluate import choose
from trainer.modeling.tensors import WeightFiles
from trainer.runtime.tracking import OnEvent
from trainer.settings.stages import HELDOUT
from trainer.settings.worth import WorthSettings
from trainer.stages.settings import stage_settings, weights_folder
from trainer.worth import page, studies, tables
from trainer.worth.pools import RowPools
from trainer.worth.probe import ProbeRunner, eval_config

MOVED = 1 / 3
"""Share of the sources that may have changed before all are measured beside the newest versions again."""
TITLES = {
    tables.SOURCES: "What sources are worth",
    tables.RULES: "What rules are worth",
    tables.MIXTURE: "The mixture by measured transfer",
}


@dataclass(frozen=True)
class Deployed:
    """What the deployment says: its sources, the mixture's token shares, and derivers beside Vesper's."""

    sources: Sequence[str]
    shares: Mapping[str, float]
    derivers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    """The versions that a study reads. `company`: those of the sources beside which a source is measured."""

    golds: Mapping[str, Manifest]
    company: Mapping[str, Manifest]
    heldout: Manifest
    others: Mapping[str, Manifest]


def build_worth(
    store: Store,
    asset: str,
    deployed: Deployed,
    config: Mapping[str, object] | None = None,
    on_event: OnEvent | None = None,
    *,
    progress: bool = False,
) -> Manifest:
    """Make one of `worth/*`, unless equal inputs made it before; probes that were run are read. `config`: the trainer's
    whole configuration.

    Raises `StoreError` if no source has gold or nothing is held out, `ValueError` for a setting.
    """
    settings = stage_settings(asset, config or {}).worth
    read, base = _versions(store, asset, deployed, settings), Path(weights_folder(settings.base))
    plain = {
        **settings.version_part(),
        "base": WeightFiles(base).digest(),
        "shares": dict(deployed.shares),
        "derivers": list(deployed.derivers),
    }
    made_of = {**{f"gold/{name}": one for name, one in read.golds.items()}, HELDOUT: read.heldout, **read.others}
    # By data versions, so that rebuilding the same rows measures nothing again.
    data = {name: manifest.data_version for name, manifest in sorted(made_of.items())}
    beside = {name: manifest.data_version for name, manifest in sorted(read.company.items())}
    spec = PartSpec("worth", digest([asset, tables.CODE_VERSION, plain, data, beside]))
    versions = {name: manifest.version for name, manifest in made_of.items()}
    with store.build(asset, code_version=tables.CODE_VERSION, config=plain, inputs=versions, parts=[spec]) as build:

        def study(out: PartWriter) -> dict[str, Any]:
            questions = with_pictures(read.heldout, choose(light_rows(read.heldout, ("test",)), eval_config(settings)))
            if not questions:
                raise StoreError(f"{HELDOUT} {read.heldout.version}: expected held-out samples to ask, found none")
            runner = ProbeRunner(store, base, questions, settings, on_event=on_event, progress=progress)
            pools = RowPools(store, read.golds, settings.parts, deployed.derivers)
            return _write(out, asset, _study(asset, runner, pools, read, deployed.shares), read)

        counts = build.run_part(spec, study).counts
        found = counts["comparisons"]
        return build.commit(counts=counts, checks=[tables.COMPARED.check(found > 0, found, "at least 1", found, 1)])


def _versions(store: Store, asset: str, deployed: Deployed, settings: WorthSettings) -> _Read:
    current = {name: store.current(f"gold/{name}") for name in deployed.sources}
    golds = {name: manifest for name, manifest in current.items() if manifest is not None}
    if not golds:
        # Probes compare gold; without any there is nothing to leave out.
        raise StoreError(f"{asset}: expected sources with gold, found none; run refresh_sources first")
    wanted = [CONTAMINATION, SAFETY, PEOPLE]
    if asset != tables.SOURCES:
        wanted.append(DUPLICATES)
    if asset == tables.RULES:
        # Rules drop items of these tables, so their versions count.
        wanted += [f"{stage}/{name}" for name in golds for stage in ("unified", "verdicts")]
        wanted.append(studies.NANO_JUDGE)
    others = {name: manifest for name in wanted if (manifest := store.current(name)) is not None}
    heldout = store.require(HELDOUT)
    if asset == tables.SOURCES and settings.company == "kept" and (kept := _kept(store, golds)) is not None:
        return _Read(golds, kept[0], kept[1], others)
    return _Read(golds, golds, heldout, others)


def _kept(store: Store, golds: Mapping[str, Manifest]) -> tuple[dict[str, Manifest], Manifest] | None:
    """The company and the questions of the last measurement; None if there was none, a version of it is gone, or too
    many sources came, went or changed."""
    last = store.current(tables.SOURCES)
    if last is None:
        return None
    named: dict[str, str] = last.counts["company"]
    try:
        company = {name: store.version(f"gold/{name}", version) for name, version in named.items()}
        heldout = store.version(HELDOUT, last.inputs[HELDOUT])
        for manifest in (*company.values(), heldout):
            # Touching it fetches the files, or says that they are gone.
            _ = manifest.root  # whose files may have been collected
    except (StoreError, OSError):
        return None
    moved = [
        name
        for name in {*golds, *company}
        if name not in golds or name not in company or golds[name].data_version != company[name].data_version
    ]
    # More moved: the old company no longer stands for the corpus.
    return (company, heldout) if len(moved) <= MOVED * len(golds) else None


def _study(asset: str, runner: ProbeRunner, pools: RowPools, read: _Read, shares: Mapping[str, float]) -> studies.Study:
    if asset == tables.SOURCES:
        company = {name: pools.gold(name, manifest) for name, manifest in read.company.items()}
        return studies.sources(runner, pools, company, shares)
    return (studies.rules if asset == tables.RULES else studies.mixture)(runner, pools, shares)


def _write(out: PartWriter, asset: str, study: studies.Study, read: _Read) -> dict[str, Any]:
    """The version's files; what holds time or money isn't hashed."""
    out.table("worth", tables.Worth.table(study.rows))
    out.table("costs", tables.WorthCosts.table(study.costs), hashed=False)
    both = [{**row, **cost} for row, cost in zip(study.rows, study.costs, strict=True)]
    out.bytes(tables.PAGE, page.page(TITLES[asset], both, study.proposal).encode(), hashed=False)
    out.bytes(tables.MARKDOWN, page.markdown(both, study.proposal).encode(), hashed=False)
    counts: dict[str, Any] = {"comparisons": len(study.rows)}
    counts |= {
        word: sum(row["says"] == word for row in study.rows)
        for word in (tables.HELPS, tables.HARMS, tables.SAYS_NOTHING)
    }
    if asset == tables.SOURCES:
        counts["company"] = {name: manifest.version for name, manifest in read.company.items()}
    if study.proposal is not None:
        out.bytes(tables.PROPOSAL, f"{canonical_json(study.proposal)}\n".encode())
        counts["shares"] = study.proposal["shares"]
    return counts
