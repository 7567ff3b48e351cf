"""What a withdrawn dataset (or any asset, screen, task or item) makes stale, and in which order to build again.

Stale is what the manifests say: every current version built from the withdrawn one, however far away, and nothing else.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dagster_project.lineage.manifests import Manifests, Node
from dagster_project.lineage.subjects import LineageSubject
from dagster_project.stages.stage import GraphStage


@dataclass(frozen=True, slots=True)
class RebuildStep:
    """An asset to build again: its Dagster asset (without the round of the generation loop), the job that makes it,
    and the stale assets that it reads. `job` is empty where the graph as deployed has no such asset."""

    number: int
    asset: str
    version: str
    stage: str
    job: str
    external: bool
    because: tuple[str, ...]


@dataclass(frozen=True)
class RebuildPlan:
    """The answer of `vesper lineage --withdrawn`. `gone`: nothing is left to make them from; `steps`: to build again,
    in order; `fresh`: current assets that stay as they are; `old`: stale versions that are current no more."""

    withdrawn: str
    gone: list[str]
    steps: list[RebuildStep]
    fresh: list[str]
    old: list[str]
    notes: list[str]

    @property
    def stale(self) -> list[str]:
        """All current assets that don't hold any more, sorted."""
        return sorted([*self.gone, *(step.asset for step in self.steps)])

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "stale": self.stale}


def plan(manifests: Manifests, subject: LineageSubject, stages: Mapping[str, GraphStage]) -> RebuildPlan:
    """Stale assets of a withdrawal. A whole dataset goes with all that was built from it alone; of a screen, task or
    item the assets that hold it are built again too. `stages` (the graph as deployed) adds jobs and breaks ties of
    order."""
    # From the manifests alone: what the graph would make now isn't what was made.
    below = manifests.downstream(subject.holders)
    whole = subject.kind == "dataset"
    stale = {node[0]: node for node in below if manifests.is_current(node)}
    held = {node[0]: node for node in subject.holders if manifests.is_current(node)}
    # Only a dataset can leave something without anything to be made from.
    gone = _gone(manifests, stale, held) if whole else set()
    rest = {asset: node for asset, node in stale.items() if asset not in gone}
    # What holds a screen or an item stays, and is built again without it.
    if not whole:
        rest |= held
    fresh = sorted(set(manifests.pointers) - set(stale) - set(held))
    old = below | set(subject.holders)
    return RebuildPlan(
        withdrawn=subject.name,
        gone=sorted(gone),
        steps=_steps(manifests, rest, stages),
        fresh=fresh,
        old=sorted(f"{asset}@{version}" for asset, version in old if not manifests.is_current((asset, version))),
        notes=_notes(manifests, subject, rest, gone),
    )


def _gone(manifests: Manifests, stale: Mapping[str, Node], held: Mapping[str, Node]) -> set[str]:
    """What was built from the withdrawn dataset alone: all its inputs are gone, pictures of companions not counted."""
    gone = set(held)
    changed = True
    while changed:
        changed = False
        for asset, node in stale.items():
            manifest = manifests.find(node)
            if asset in gone or manifest is None:
                continue
            own = asset.partition("/")[2]
            # Companions give pictures; a source without any rows left is what counts.
            rows = [dep for dep in manifest.inputs if not dep.startswith("raw/") or dep == f"raw/{own}"]
            if rows and all(dep in gone for dep in rows):
                gone.add(asset)
                changed = True
    return gone


def _steps(manifests: Manifests, stale: Mapping[str, Node], stages: Mapping[str, GraphStage]) -> list[RebuildStep]:
    """The stale assets, each after the stale ones that it reads; among those that are ready, in the graph's order."""
    order = {key: number for number, key in enumerate(stages)}
    reads = {asset: _reads(manifests, node, stale, stages) for asset, node in stale.items()}
    left = {asset: set(deps) for asset, deps in reads.items()}
    # Ready ones in the graph's order, so that two plans of the same store are equal.
    ready = [(order.get(stage_of(asset, stages), len(order)), asset) for asset, deps in left.items() if not deps]
    heapq.heapify(ready)
    steps: list[RebuildStep] = []
    while ready:
        _, asset = heapq.heappop(ready)
        # A round's asset is made by the stage without the round.
        key = stage_of(asset, stages)
        stage = stages.get(key)
        steps.append(
            RebuildStep(
                len(steps) + 1,
                asset,
                stale[asset][1],
                key,
                stage.job if stage else "",
                bool(stage and stage.external),
                tuple(sorted(reads[asset])),
            )
        )
        for other, deps in left.items():
            if asset in deps:
                deps.remove(asset)
                if not deps:
                    heapq.heappush(ready, (order.get(stage_of(other, stages), len(order)), other))
    # Something was never ready: a circle, which no order can serve.
    if len(steps) != len(stale):
        raise ValueError(
            f"the manifests name one another in a circle: {sorted(set(stale) - {s.asset for s in steps})[:3]}"
        )
    return steps


def _reads(manifests: Manifests, node: Node, stale: Mapping[str, Node], stages: Mapping[str, GraphStage]) -> set[str]:
    """The stale assets that one must wait for: its inputs as recorded, and as the graph has them now. An older version
    of a stale asset, as that of the agent that played a round, is none that is rebuilt."""
    manifest = manifests.find(node)
    recorded = manifest.inputs if manifest else {}
    deps = {asset for asset, version in recorded.items() if asset in stale and stale[asset][1] == version}
    stage = stages.get(node[0])
    # The graph may read more by now than it did when this version was made.
    if stage is not None and not stage.by_round:
        deps |= set(stage.deps)
    return {dep for dep in deps if dep in stale and dep != node[0]}


def stage_of(asset: str, stages: Mapping[str, GraphStage]) -> str:
    """The Dagster asset that makes an asset: `generation/verified` makes `generation/verified/round_001`."""
    parent = asset.rpartition("/")[0]
    return parent if asset not in stages and parent in stages and stages[parent].by_round else asset


def _notes(manifests: Manifests, subject: LineageSubject, rest: Mapping[str, Node], gone: Iterable[str]) -> list[str]:
    if subject.kind != "dataset":
        return []
    name = subject.name.removeprefix("raw/")
    users = sorted(
        asset
        for asset, node in rest.items()
        if asset.startswith("unified/") and (found := manifests.find(node)) and subject.name in found.inputs
    )
    notes = []
    if users:
        notes.append(
            f"{name} is a companion: {', '.join(users)} need its files to be built again; withdraw these sources too, "
            "or give them the pictures elsewhere (deployment.yaml: companions)"
        )
    if f"unified/{name}" in set(gone):
        notes.append(f"first switch {name} off in deployment.yaml (sources: {{{name}: {{enabled: false}}}})")
    return notes
