"""What a checkpoint or asset was built from: raw datasets with revision, licence and rows; judges; code versions."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.lineage.manifests import Manifests, Node, Start, name_of
from pipelines import sources, suites
from pipelines.store.code_revision import code_revision
from pipelines.store.manifest import Manifest, mainline_key
from schemas.ids import GENERATED_SOURCE

CONTRACT = (
    "stage",
    "preset",
    "action_space",
    "prompt_version",
    "prompt_digest",
    "code_version",
    "code_revision",
    "seeds",
)
"""What of a checkpoint's `lineage.json` says how it was made."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A raw dataset in a lineage. `role`: `data` (its rows can train), `companion` (pictures for others' records),
    `evaluation` (only held against the corpus), `history` (only agents that played rounds of the generation loop
    learned from this version). Rows that nobody counted are None."""

    name: str
    version: str
    data_version: str
    role: str
    revision: str
    licence: str
    files: int
    bytes: int
    current: bool
    rows: dict[str, int | None] = field(default_factory=dict)
    """records, items, quarantined (native units); gold (items), samples; packed (training rows in shards); trained
    (rows that the mixture chose)."""


@dataclass(frozen=True, slots=True)
class Generated:
    """Trajectories of the generation loop that the lineage holds: no raw dataset, the worlds are Vesper's own."""

    asset: str
    version: str
    rounds: int
    trajectories: int
    verified: int
    samples: int
    trained: int | None


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """A judge under one rubric, and how many verdicts of it the lineage holds."""

    judge: str
    model: str
    rubric_version: str
    verdicts: int
    assets: tuple[str, ...]


@dataclass(frozen=True)
class Origins:
    """The answer of `vesper lineage`; `missing`: ancestors that this store no longer holds, and why."""

    asset: str
    inputs: dict[str, str]
    ancestors: dict[str, Any]
    datasets: list[Dataset]
    generated: list[Generated]
    judges: list[JudgeUse]
    annotators: dict[str, int]
    code: dict[str, Any]
    missing: dict[str, str]

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def origins(manifests: Manifests, start: Start) -> Origins:
    """Everything upstream of `start`, summed up. Reads manifests, and of tables single columns only.

    Rows, judges and votes are those of its own corpus: what the agents that played the loop's rounds had learned from
    is among the ancestors and datasets (`history`), and isn't counted again.
    """
    above = manifests.upstream(start.inputs.items())
    whole = dict(above)
    if start.manifest is not None:
        whole[(start.manifest.asset, start.manifest.version)] = start.manifest
    there = {node: manifest for node, manifest in whole.items() if manifest is not None}
    itself = None if start.manifest is None else [(start.manifest.asset, start.manifest.version)]
    # Counted is what this corpus was made of; agents that played rounds learned from other versions.
    nearer = manifests.upstream(itself or start.inputs.items(), past_agents=False)
    own = {node: manifest for node, manifest in there.items() if node in nearer}
    packed, trained = _packed(own.values()), _trained(own.values())
    evaluation = _evaluation_only(manifests, start, there)
    datasets = []
    for node, manifest in sorted(there.items()):
        if not node[0].startswith("raw/"):
            continue
        if node in own:
            role = "evaluation" if node in evaluation else "data"
            datasets.append(_dataset(manifests, manifest, own, packed, trained, role))
        else:
            # An older agent's dataset: named, and its rows aren't added to this one's.
            datasets.append(_dataset(manifests, manifest, there, None, None, "history"))
    return Origins(
        asset=start.name,
        inputs=dict(start.inputs),
        ancestors={name_of(node): manifest and _brief(manifest) for node, manifest in sorted(above.items())},
        datasets=datasets,
        generated=[_generated(m, trained) for node, m in sorted(own.items()) if node[0] == "gold/generated"],
        judges=judges(m for node, m in sorted(own.items()) if node[0].startswith(("verdicts/", "gold/"))),
        annotators=annotators(m for node, m in own.items() if node[0].startswith("generation/verified/")),
        code=_code(start, there.values()),
        missing={name_of(n): manifests.gone(n) for n, manifest in sorted(above.items()) if manifest is None},
    )


def _brief(manifest: Manifest) -> dict[str, Any]:
    return {"data_version": manifest.data_version, "code_version": manifest.code_version, "inputs": manifest.inputs}


def _evaluation_only(manifests: Manifests, start: Start, there: Mapping[Node, Manifest]) -> set[Node]:
    """Raw datasets that are reached through fingerprints of evaluation data alone."""
    reached: set[Node] = set()
    # From the asset itself, ignoring fingerprints: what is reached only by them trained nobody.
    waiting = [*start.inputs.items(), *([(start.manifest.asset, start.manifest.version)] if start.manifest else [])]
    while waiting:
        node = waiting.pop()
        if node not in reached and not node[0].startswith("fingerprints/"):
            reached.add(node)
            found = manifests.find(node)
            waiting += found.inputs.items() if found else ()
    return {node for node in there if node[0].startswith("raw/")} - reached


def _dataset(
    manifests: Manifests,
    raw: Manifest,
    there: Mapping[Node, Manifest],
    packed: Counter[str] | None,
    trained: Counter[str] | None,
    role: str,
) -> Dataset:
    name = raw.asset.removeprefix("raw/")
    unified = _made_from(there, raw, f"unified/{name}")
    gold = _made_from(there, unified, f"gold/{name}") if unified else None
    rows: dict[str, int | None] = {
        "records": _count(unified, "records_in"),
        "items": _count(unified, "items_in"),
        "quarantined": _count(unified, "items_quarantined"),
        "gold": _count(gold, "gold"),
        "samples": _count(gold, "samples"),
        "packed": _of(packed, name),
        "trained": _of(trained, name),
    }
    # Pictures for others' records: nothing was ever mapped of it by itself.
    if role == "data" and unified is None:
        role = "companion"
    return Dataset(
        name=name,
        version=raw.version,
        data_version=raw.data_version,
        role=role,
        revision=revision_of(raw),
        licence=dataset_licence(name),
        files=int(raw.counts.get("files", 0)),
        bytes=int(raw.counts.get("bytes", 0)),
        current=manifests.is_current((raw.asset, raw.version)),
        rows=rows,
    )


def _made_from(there: Mapping[Node, Manifest], parent: Manifest, asset: str) -> Manifest | None:
    """The version of `asset` in a lineage that was built from exactly `parent`."""
    # Exactly that version: another one of the same name may stand in the lineage, too.
    built = [
        m for node, m in sorted(there.items()) if node[0] == asset and m.inputs.get(parent.asset) == parent.version
    ]
    return built[-1] if built else None


def _count(manifest: Manifest | None, name: str) -> int | None:
    found = None if manifest is None else manifest.counts.get(name)
    return found if isinstance(found, int) else None


def revision_of(raw: Manifest) -> str:
    """The upstream revision that was pinned; else what else tells these files from others."""
    counts = raw.counts
    if counts.get("revision"):
        return str(counts["revision"])
    if "seed" in counts and "size" in counts:
        return f"embedded {counts['size']}, seed {counts['seed']}"
    return f"not pinned (files {raw.data_version[:12]})"


def dataset_licence(name: str) -> str:
    """Under which licence any raw dataset stands: a source's as `quality.refinement.gold.licence_of` has it, a suite's
    by its card; "own" for what the generation loop made; a companion has no descriptor that could say."""
    if name == GENERATED_SOURCE:
        return "own"
    adapter = sources.registry().get(name)
    if adapter is not None:
        return adapter.descriptor.licence
    if name in suites.registry():
        return suites.registry()[name].card.licence
    # A companion's licence is that of its publisher, which no card of ours states.
    companion = any(name in one.descriptor.companions for one in sources.registry().values())
    return "its publisher's (a companion has no descriptor)" if companion else "unknown"


def _packed(manifests: Iterable[Manifest]) -> Counter[str] | None:
    """Training rows in the shards of a lineage, by source; of several versions the one with the most. None: it holds
    no shards."""
    found: Counter[str] | None = None
    for manifest in manifests:
        if manifest.asset == "mid_training/shards":
            found = found or Counter()
            counted: Counter[str] = Counter()
            for path in manifest.paths("index"):
                for entry in pc.value_counts(pq.read_table(path, columns=["source"])["source"]).to_pylist():
                    counted[entry["values"]] += entry["counts"]
            # Union of counts: the most of each source, as versions overlap.
            found |= counted
    return found


def _trained(manifests: Iterable[Manifest]) -> Counter[str] | None:
    """Rows that the mixtures of a lineage chose, by source; of several versions the one with the most. None: it holds
    no mixture."""
    found: Counter[str] | None = None
    for manifest in manifests:
        if mainline_key(manifest.asset) == "mid_training/mixture":
            found = found or Counter()
            shares = manifest.read("shares", columns=["group", "name", "chosen_rows"])
            chosen = shares.filter(pc.equal(shares["group"], "source"))
            found |= Counter(dict(zip(chosen["name"].to_pylist(), chosen["chosen_rows"].to_pylist(), strict=True)))
    return found


def _of(counted: Counter[str] | None, name: str) -> int | None:
    return None if counted is None else counted[name]


def _generated(gold: Manifest, trained: Counter[str] | None) -> Generated:
    counts = gold.counts
    return Generated(
        gold.asset,
        gold.version,
        int(counts.get("rounds", 0)),
        int(counts.get("trajectories", 0)),
        int(counts.get("verified", 0)),
        int(counts.get("samples", 0)),
        _of(trained, GENERATED_SOURCE),
    )


def judges(manifests: Iterable[Manifest]) -> list[JudgeUse]:
    """Judges, models and rubric versions over the verdict tables, the most used first."""
    columns = ["judge", "model", "rubric_version"]
    counted: Counter[tuple[str, str, str]] = Counter()
    assets: dict[tuple[str, str, str], set[str]] = {}
    for manifest in manifests:
        tables = [pq.read_table(path, columns=columns) for path in manifest.paths("verdicts")]
        if not tables:
            continue
        for row in pa.concat_tables(tables).group_by(columns).aggregate([([], "count_all")]).to_pylist():
            key = (str(row["judge"]), str(row["model"]), str(row["rubric_version"]))
            counted[key] += row["count_all"]
            assets.setdefault(key, set()).add(manifest.asset)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return [JudgeUse(*key, number, tuple(sorted(assets[key]))) for key, number in ordered]


def annotators(manifests: Iterable[Manifest]) -> dict[str, int]:
    """Annotator → votes on trajectories of the generation loop."""
    counted: Counter[str] = Counter()
    for manifest in manifests:
        for path in manifest.paths("trajectories"):
            for votes in pq.read_table(path, columns=["votes"])["votes"].to_pylist():
                counted.update(str(vote[0]) for vote in json.loads(votes))
    return dict(sorted(counted.items()))


def _code(start: Start, manifests: Iterable[Manifest]) -> dict[str, Any]:
    """Code versions as the manifests record them, by group of assets, and the contract that a checkpoint names."""
    groups: dict[str, set[str]] = {}
    revisions: set[str] = set()
    for manifest in manifests:
        groups.setdefault(_stage(manifest.asset), set()).add(manifest.code_version)
        if manifest.code_revision:
            revisions.add(manifest.code_revision)
    stated = start.told or {}
    return {
        "versions": {group: sorted(found) for group, found in sorted(groups.items())},
        "recorded_revisions": sorted(revisions),
        "revision_here": code_revision(),
        "checkpoint": {name: stated[name] for name in CONTRACT if name in stated},
    }


def _stage(asset: str) -> str:
    """The family of assets that one piece of code makes: `unified/aitw` → `unified`."""
    group, _, rest = asset.partition("/")
    return (
        group
        if group in ("raw", "unified", "verdicts", "gold", "cards", "fingerprints")
        else (f"{group}/{rest.partition('/')[0]}" if group == "generation" else asset)
    )
