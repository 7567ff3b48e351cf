"""What a forward question is about: a dataset or other asset, a screen, a task, an item; and where it lies."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc

from dagster_project.lineage.manifests import Manifests, Node
from dagster_project.lineage.rows import TableVersions, with_rounds
from pipelines.store.manifest import Manifest

HEX64, HEX32 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
ITEM = re.compile(r"(episode|step|sample):(.+)", re.DOTALL)


@dataclass(frozen=True)
class LineageSubject:
    """`holders`: the versions that hold it. `samples` None: not known by single samples, but by whole `sources` (None
    of these either: by the graph alone)."""

    kind: str
    name: str
    holders: frozenset[Node]
    samples: frozenset[str] | None = None
    sources: frozenset[str] | None = None
    tasks: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=())


def find_subject(manifests: Manifests, word: str) -> LineageSubject:
    """`word`: an asset (`raw/aitw`, `aitw`, `gold/aitw@version`), a screen's sha256, `task:<id>` or a task's id, an
    item id or a sample's id. Raises `ValueError` if nothing of that name is in the store."""
    subject: LineageSubject | None = None
    # By its look: digests have lengths of their own, items and tasks a prefix.
    if HEX64.fullmatch(word):
        subject = _screen(manifests, word)
    elif word.startswith("task:"):
        subject = _task(manifests, word.removeprefix("task:"))
    elif HEX32.fullmatch(word):
        subject = _item(manifests, "sample", word) or _task(manifests, word)
    elif match := ITEM.fullmatch(word):
        subject = _item(manifests, match[1], match[2])
    else:
        subject = _asset(manifests, word)
    if subject is None:
        raise ValueError(
            f"{word[:120]!r}: nothing of that name in this store; expected an asset (raw/aitw), a screen's sha256, "
            "task:<id>, or an item (step:..., episode:..., sample:...)"
        )
    return subject


def versions(manifests: Manifests, *groups: str) -> list[Manifest]:
    """All committed versions of the assets of some groups (`gold/`)."""
    return [manifest for manifest in manifests.all if manifest.asset.startswith(groups)]


def _asset(manifests: Manifests, word: str) -> LineageSubject | None:
    asset, _, version = word.partition("@")
    named = None
    # As written, then as a dataset's or a checkpoint's short name.
    for key in dict.fromkeys((asset, f"raw/{asset}", f"checkpoints/{asset}")):
        there = [manifest for manifest in manifests.all if manifest.asset == key]
        if there:
            named = key
            break
    if named is None:
        return None
    if version:
        found = manifests.resolve(f"{named}@{version}")
        there = [manifest for manifest in there if found is not None and manifest.version == found.version]
    holders = frozenset((manifest.asset, manifest.version) for manifest in there)
    group, _, name = named.partition("/")
    kind = "dataset" if group == "raw" else "checkpoint" if group == "checkpoints" else "asset"
    sources: frozenset[str] | None = None
    if group == "raw":
        # A companion is read by several sources, which all hold it.
        readers = {reader for node in holders for reader in manifests.readers.get(node, ())}
        sources = frozenset(asset.removeprefix("unified/") for asset, _ in readers if asset.startswith("unified/"))
    elif group in ("unified", "verdicts", "gold"):
        sources = frozenset([name])
    return LineageSubject(kind, named, holders, sources=sources)


def _screen(manifests: Manifests, sha256: str) -> LineageSubject | None:
    here = versions(manifests, "unified/", "gold/")
    screens = TableVersions(here, "screens")
    paths = {path for path, _ in screens.where(["screenshot_sha256"], pc.field("screenshot_sha256") == sha256)}
    stems = {screens.stem(path) for path in paths} or None  # a picture without a row of its own: look everywhere
    samples = TableVersions(here, "samples")
    # Parts have one name in all assets, so only those that have the screen are searched.
    shown = samples.listing("images", [sha256], stems)
    steps = TableVersions(here, "steps")
    stepped = {path for path, _ in steps.where(["step_index"], pc.field("screenshot_sha256") == sha256, stems)}
    tasks = _tasks_of_screen(manifests, sha256)
    holders = screens.versions(paths) | samples.versions(shown.values()) | steps.versions(stepped)
    holders |= {node for nodes in tasks.values() for node in nodes}
    if not holders:
        return None
    return LineageSubject("screen", sha256, frozenset(holders), frozenset(shown), tasks=frozenset(tasks))


def _tasks_of_screen(manifests: Manifests, sha256: str) -> dict[str, set[Node]]:
    """Tasks that begin on a screen, or whose evaluator compares with it."""
    tables = TableVersions(versions(manifests, "task_pool/"), "tasks")
    shown = pc.match_substring(pc.field("initial_state"), sha256) | pc.match_substring(pc.field("evaluator"), sha256)
    return _held(tables, tables.where(["task_id"], shown))


def _held(tables: TableVersions, rows: list[tuple[Path, dict[str, str]]]) -> dict[str, set[Node]]:
    found: dict[str, set[Node]] = {}
    for path, row in rows:
        found.setdefault(row["task_id"], set()).update(tables.versions([path]))
    return found


def _task(manifests: Manifests, task: str) -> LineageSubject | None:
    """A task, the trajectories that executed it, and the samples that came of these."""
    tables = TableVersions(versions(manifests, "task_pool/", "generation/task_bank/"), "tasks")
    holders = {
        node
        for nodes in _held(tables, tables.where(["task_id"], pc.field("task_id") == task)).values()
        for node in nodes
    }
    ran = TableVersions(versions(manifests, "generation/verified/"), "trajectories")
    # Trajectories of the task became episodes, whose samples hang on the task as well.
    runs = ran.where(["trajectory_id"], pc.field("task_id") == task)
    holders |= ran.versions({path for path, _ in runs})
    samples: set[str] = set()
    for _, row in runs:
        found = _item(manifests, "episode", f"generated/{row['trajectory_id']}")
        if found is not None:
            samples |= found.samples or frozenset()
            holders |= found.holders
    if not holders:
        return None
    return LineageSubject("task", task, frozenset(holders), frozenset(samples), tasks=frozenset([task]))


def _item(manifests: Manifests, kind: str, name: str) -> LineageSubject | None:
    """An episode, a step or a sample; what was derived from it goes with it."""
    if kind == "sample":
        tables = TableVersions(versions(manifests, "gold/", "unified/"), "samples")
        paths = {path for path, _ in tables.with_ids(["sample_id"], "sample_id", [name])}
        if not paths:
            return None
        # What was derived from it, in whatever round of refinement: it lies in the same part of the same source, and
        # other sources have parts of that name, too.
        holders, stems = tables.versions(paths), {tables.stem(path) for path in paths}
        own = {asset.partition("/")[2] for asset, _ in holders}
        same = [m for m in versions(manifests, "gold/", "unified/") if m.asset.partition("/")[2] in own]
        tables = TableVersions(same, "samples")
        derived = tables.listing("parents", with_rounds([f"sample:{name}"]), stems)
        holders |= tables.versions(derived.values())
        return LineageSubject("sample", f"sample:{name}", frozenset(holders), frozenset([name, *derived]))
    source, _, rest = name.partition("/")
    here = [m for m in versions(manifests, "gold/", "unified/") if m.asset.partition("/")[2] == source]
    episode, where, item = _rows_of(kind, source, rest)
    steps = TableVersions(here, "steps")
    paths = {path for path, _ in steps.with_ids(["step_index"], "episode_id", [episode], where)}
    if not paths:
        return None
    stems = {steps.stem(path) for path in paths}
    samples = TableVersions([m for m in here if m.asset.startswith("gold/")], "samples")
    whole = kind == "episode"
    # All steps of an episode begin with its id; a step has its own id and those of its repairs.
    parents = [f"step:{source}/{rest}/"] if whole else with_rounds([item])
    derived = samples.listing("parents", parents, stems, prefix=whole)
    tasks = TableVersions(versions(manifests, "task_pool/"), "tasks")
    built = tasks.listing("parents", [item], key="task_id")
    holders = steps.versions(paths) | samples.versions(derived.values()) | tasks.versions(built.values())
    return LineageSubject(kind, item, frozenset(holders), frozenset(derived), tasks=frozenset(built))


def _rows_of(kind: str, source: str, rest: str) -> tuple[str, pc.Expression | None, str]:
    """(episode, which of its steps, the item's id)."""
    if kind == "episode":
        return rest, None, f"episode:{source}/{rest}"
    episode, _, index = rest.rpartition("/")
    if not episode or not index.isdecimal():
        raise ValueError(f"step:{source}/{rest[:100]}: expected step:<source>/<episode>/<number>, found no number last")
    return episode, pc.field("step_index") == int(index), f"step:{source}/{rest}"
