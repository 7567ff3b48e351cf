"""Forward: which checkpoints something touches, followed through shards, mixtures and the task pool row by row."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.lineage.manifests import Manifests, Node, name_of
from dagster_project.lineage.rows import TableVersions, isin
from dagster_project.lineage.subjects import LineageSubject
from pipelines.store.manifest import Manifest, mainline_key

SHARDS, HELDOUT, MIXTURE, POOL = (
    "mid_training/shards",
    "evaluations/heldout",
    "mid_training/mixture",
    "task_pool/shards",
)
CARRIERS = {MIXTURE: "mixture", SHARDS: "shards", POOL: "tasks", HELDOUT: "held_out"}
"""What a checkpoint reads, and what it is called in an answer."""
EVALUATED = ("episodes/", "evaluations/", "suites/")
"""Groups of what is measured of a checkpoint."""


@dataclass(frozen=True, slots=True)
class ShardRow:
    """A row of a shard that holds a sample; `split` of the shards it lies in."""

    sample_id: str
    shards: Node
    shard: str
    row: int


@dataclass(frozen=True, slots=True)
class Touch:
    """A checkpoint (or evaluation) that something reaches. `rows`: of the mixture, the shards, the task pool or the
    held-out shards that it reads itself, how many rows are the subject's (None: rows aren't known). `parents`: touched
    versions that it was built from. Held-out rows are measured on, never learned from, so they go no further."""

    asset: str
    version: str
    current: bool
    rows: dict[str, int | None]
    parents: tuple[str, ...]

    @property
    def learned(self) -> bool:
        """Whether weights can hang on the subject."""
        return bool(self.parents or set(self.rows) - {CARRIERS[HELDOUT]})


@dataclass(frozen=True)
class Forward:
    """The answer of `vesper lineage --forward`."""

    kind: str
    name: str
    holders: list[str]
    descendants: list[str]
    samples: int | None
    tasks: list[str]
    checkpoints: list[Touch]
    evaluations: list[Touch]
    validated: list[Touch]
    """Checkpoints that were only validated on it."""
    without_rows: list[str]
    """Checkpoints below it in the graph that no row of it reached."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def places(
    manifests: Manifests, samples: frozenset[str], assets: tuple[str, ...] = (SHARDS, HELDOUT)
) -> list[ShardRow]:
    """Where samples lie in shards, over all versions of these."""
    tables = TableVersions((m for m in manifests.all if m.asset in assets), "index")
    found = tables.with_ids(["sample_id", "shard", "row"], "sample_id", samples)
    return [
        ShardRow(row["sample_id"], node, row["shard"], row["row"])
        for path, row in found
        for node in sorted(tables.versions([path]))
    ]


def chosen(mixture: Manifest, here: list[ShardRow]) -> Counter[str]:
    """How often a mixture takes each sample in one epoch; samples that it doesn't take are left out."""
    wanted: dict[str, dict[int, str]] = {}
    for place in here:
        # Row numbers mean nothing in shards of another version.
        if mixture.inputs.get(place.shards[0]) == place.shards[1]:
            wanted.setdefault(place.shard, {})[place.row] = place.sample_id
    if not wanted:
        return Counter()
    found: Counter[str] = Counter()
    tables = TableVersions([mixture], "mixture")
    for _, row in tables.where(["shard", "rows", "repeats"], isin("shard", sorted(wanted))):
        numbers = pa.array(row["rows"], pa.int64())
        # Rows of the mixture are many: found in Arrow, and only those that match come to Python.
        for position in pc.indices_nonzero(pc.is_in(numbers, pa.array(sorted(wanted[row["shard"]])))).to_pylist():
            found[wanted[row["shard"]][row["rows"][position]]] += row["repeats"][position]
    return found


def forward(manifests: Manifests, subject: LineageSubject) -> Forward:
    """Follow a subject to the checkpoints and evaluations that it reaches."""
    below = manifests.downstream(subject.holders)
    carriers = _carriers(manifests, subject, below | subject.holders)
    reached: dict[Node, Touch] = {}
    waiting = sorted(node for node in below if _is_agent(node[0]) or _is_measured(node[0]))
    changed = True
    while changed:  # a checkpoint may come before its parent by name
        changed = False
        for node in waiting:
            touch = _touch(manifests, node, carriers, reached, subject)
            if touch is not None and reached.get(node) != touch:
                reached[node] = touch
                changed = True
    ordered = [reached[node] for node in sorted(reached)]
    return Forward(
        kind=subject.kind,
        name=subject.name,
        holders=[name_of(node) for node in sorted(subject.holders)],
        descendants=[name_of(node) for node in sorted(below)],
        samples=None if subject.samples is None else len(subject.samples),
        tasks=sorted(subject.tasks),
        checkpoints=[touch for touch in ordered if _is_agent(touch.asset) and touch.learned],
        evaluations=[touch for touch in ordered if _is_measured(touch.asset)],
        validated=[t for t in ordered if _is_agent(t.asset) and not t.learned],
        without_rows=[name_of(n) for n in waiting if n not in reached and _is_agent(n[0])],
    )


def _is_agent(asset: str) -> bool:
    return mainline_key(asset).startswith("checkpoints/")


def _is_measured(asset: str) -> bool:
    # Held-out shards are an evaluation by name, and a carrier here.
    return mainline_key(asset).startswith(EVALUATED) and asset != HELDOUT


def _carriers(manifests: Manifests, subject: LineageSubject, nodes: set[Node] | frozenset[Node]) -> dict[Node, int]:
    """Mixtures, shards and task pools that hold some of the subject → how many rows (or tasks)."""
    found: dict[Node, int] = {}
    here = places(manifests, subject.samples) if subject.samples else []
    for node in sorted(nodes):
        manifest = manifests.find(node)
        if manifest is None or mainline_key(node[0]) not in CARRIERS:
            continue
        if node[0] == POOL:
            number = _tasks(manifest, subject)
        elif subject.samples is None:
            # Known by whole sources, or not by rows at all: then one is as good as any number.
            number = _of_sources(manifest, subject.sources) if subject.sources is not None else 1
        elif mainline_key(node[0]) == MIXTURE:
            number = len(chosen(manifest, here))
        else:
            number = len({place.sample_id for place in here if place.shards == node})
        if number:
            found[node] = number
    return found


def _of_sources(manifest: Manifest, sources: frozenset[str]) -> int:
    """Rows of whole sources in shards, or that a mixture chose."""
    if mainline_key(manifest.asset) == MIXTURE:
        shares = manifest.read("shares", columns=["group", "name", "chosen_rows"])
        mine = pc.and_(pc.equal(shares["group"], "source"), pc.is_in(shares["name"], pa.array(sorted(sources))))
        return int(pc.sum(shares.filter(mine)["chosen_rows"]).as_py() or 0)
    names = pa.array(sorted(sources), pa.string())
    counted = (pc.sum(pc.is_in(_column(path, "source"), value_set=names)).as_py() for path in manifest.paths("index"))
    return sum(number or 0 for number in counted)


def _column(path: Path, name: str) -> pa.ChunkedArray:
    return pq.read_table(path, columns=[name])[name]


def _tasks(pool: Manifest, subject: LineageSubject) -> int:
    """Tasks of the pool that are the subject's, or were inferred from episodes of its sources."""
    tables = TableVersions([pool], "tasks")
    if subject.tasks:
        return len(tables.where(["task_id"], isin("task_id", sorted(subject.tasks))))
    if subject.sources:
        return len(tables.listing("parents", [f"episode:{s}/" for s in subject.sources], key="task_id", prefix=True))
    return 0 if subject.samples is not None or subject.sources is not None else 1


def _touch(
    manifests: Manifests, node: Node, carriers: dict[Node, int], reached: dict[Node, Touch], subject: LineageSubject
) -> Touch | None:
    manifest = manifests.find(node)
    if manifest is None:
        return None
    known = subject.samples is not None or subject.sources is not None
    rows: dict[str, int | None] = {}
    parents = []
    for parent in sorted(manifest.inputs.items()):
        # A carrier of its rows, or a parent that learned from them: held-out rows are only measured on.
        if parent in carriers:
            rows[CARRIERS[mainline_key(parent[0])]] = carriers[parent] if known else None
        elif parent in reached and reached[parent].learned or parent in subject.holders and not known:
            parents.append(name_of(parent))
    if not rows and not parents:
        return None
    return Touch(node[0], node[1], manifests.is_current(node), rows, tuple(parents))
