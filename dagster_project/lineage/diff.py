"""What entered and left a corpus between two versions, and why: the outcome of each item in the version it isn't in.

Only files that differ are read: what two versions share cancels out by its sha256.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.lineage.corpus_versions import CorpusVersions, TracedItem
from dagster_project.lineage.item_outcomes import ItemOutcome, item_outcomes, native_keys
from dagster_project.lineage.manifests import Manifests, name_of
from dagster_project.lineage.rows import TableVersions, isin
from dagster_project.lineage.touched import HELDOUT, MIXTURE, SHARDS
from pipelines.raw.rawdata import native_listing
from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest, mainline_key
from schemas.ids import digest
from schemas.settings import differing
from trainer.stages.assets import SETTINGS

LEFT, ENTERED, CHANGED = "left", "entered", "changed"
WORDS = {
    "source_absent": ("source withdrawn", "new source"),
    "row_absent": ("native row gone", "new native row"),
    "quarantined": ("quarantined", "was quarantined"),
    "rejected": ("judged", "was judged"),
    "pending": ("waits for a verdict", "waited for a verdict"),
    "derived_otherwise": ("derived otherwise", "derived otherwise"),
    "renumbered": ("another step now", "was another step"),
    "not_gold": ("not gold", "wasn't gold"),
    "other_split": ("another split", "was in another split"),
    "contaminated": ("contaminated", "was contaminated"),
    "unsafe": ("unsafe", "was unsafe"),
    "refused": ("refused by people", "was refused by people"),
    "without_picture": ("picture missing", "picture was missing"),
    "held_out_picture": ("shows a held-out picture", "showed a held-out picture"),
    "duplicate": ("duplicate", "was a duplicate"),
    "not_drawn": ("not drawn", "wasn't drawn"),
    "not_packed": ("not packed", "wasn't packed"),
    "no_mixture": ("no mixture", "no mixture before"),
    "trained": ("moved", "moved"),
}
"""Kind of outcome → how it is said of what left, and of what entered."""
_CONTENT = {
    "steps": [
        "action_text",
        "instruction",
        "step_instruction",
        "split",
        "screenshot_sha256",
        "target_box",
        "thought",
        "conclusion",
    ],
    "samples": ["messages", "answer", "split", "images", "target_boxes", "objective"],
}


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item that left, entered or changed; `reason` is that of `WORDS`, `detail` the deciding stage's words."""

    id: str
    source: str
    direction: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Diff:
    """The answer of `vesper diff`. `before`, `after`: the versions compared; `inputs`: what lies above them and isn't
    the same, {asset: [version before or None, after or None]}."""

    before: list[str]
    after: list[str]
    shared_files: int
    changes: list[ItemChange]
    inputs: dict[str, list[str | None]] = field(default_factory=dict)
    code: dict[str, list[str]] = field(default_factory=dict)
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of two checkpoints, the settings of training that differ: {setting: (before, after)}, "" where not set."""

    def groups(self) -> list[dict[str, object]]:
        """Changes by direction, reason and source, with how many and a few ids; the largest first."""
        found: dict[tuple[str, str, str, str], list[ItemChange]] = {}
        for change in self.changes:
            # A duplicate's words name another item, so no two would share a group.
            word = brief(change.detail) if change.reason not in ("duplicate", "was a duplicate") else ""
            found.setdefault((change.direction, change.reason, word, change.source), []).append(change)
        return [
            {
                "direction": key[0],
                "reason": key[1],
                "words": key[2],
                "source": key[3],
                "items": len(changes),
                "examples": [change.id for change in changes[:3]],
                "detail": changes[0].detail,
            }
            # By direction, and the largest group first within it.
            for key, changes in sorted(found.items(), key=lambda pair: (pair[0][0], -len(pair[1]), pair[0]))
        ]

    def plain(self) -> dict[str, Any]:
        """As JSON, without the single items."""
        plain = asdict(self)
        del plain["changes"]
        totals = {word: sum(c.direction == word for c in self.changes) for word in (LEFT, ENTERED, CHANGED)}
        return {**plain, **totals, "groups": self.groups()}


def brief(detail: str) -> str:
    """The rule in a stage's words: `unrepaired: blank_box: the box ...` → `unrepaired: blank_box`. Ids, which differ
    from item to item, are left out."""
    parts = detail.split(": ")
    # A detail without a colon is a rule's own word, unless it looks like an id.
    if len(parts) == 1:
        return "" if any(char in detail for char in "/@:") or len(detail) > 40 else detail
    return ": ".join(parts[: 2 if len(parts) > 2 else 1])[:60]


@dataclass(frozen=True, slots=True)
class _DiffMember:
    """`content` says whether an item is the same; `name` is what it is called in its version."""

    source: str
    content: str
    name: str


def compare(manifests: Manifests, before: str, after: str) -> Diff:
    """Two versions of shards, a mixture, a gold, unified or raw asset, or two checkpoints (their mixtures, else their
    shards). Raises `ValueError` if one isn't there, or they can't be compared."""
    old, new = corpus(manifests, before), corpus(manifests, after)
    if old[0].asset != new[0].asset:
        raise ValueError(
            f"{before[:80]!r} is {old[0].asset}, {after[:80]!r} is {new[0].asset}: expected two versions of one asset, "
            "or two checkpoints"
        )
    asset = old[0].asset
    # Files of equal digests cancel out before anything is read, which is nearly all of most corpora.
    shared = {_mark(unit) for m in old for unit in _units(m)} & {_mark(unit) for m in new for unit in _units(m)}
    members = _reader(asset)
    there = _all(members(manifests, manifest, shared) for manifest in old)
    here = _all(members(manifests, manifest, shared) for manifest in new)
    left = {there[key].name: there[key] for key in sorted(there.keys() - here.keys())}
    entered = {here[key].name: here[key] for key in sorted(here.keys() - there.keys())}
    versions = CorpusVersions.of(manifests, *old), CorpusVersions.of(manifests, *new)
    changes = _explained(manifests, asset, versions, left, LEFT)
    changes += _explained(manifests, asset, (versions[1], versions[0]), entered, ENTERED)
    for key in sorted(there.keys() & here.keys()):
        # In both versions under the same key: the content, or the step's number, may still differ.
        changes += _changed(asset, there[key], here[key])
    before_after = [[name_of((manifest.asset, manifest.version)) for manifest in side] for side in (old, new)]
    named = (manifests.start(word).manifest for word in (before, after))
    made_with = (manifest.json_file(SETTINGS) if manifest is not None else {} for manifest in named)
    inputs, code = _above(*versions)
    return Diff(before_after[0], before_after[1], len(shared), changes, inputs, code, differing(*made_with))


def corpus(manifests: Manifests, word: str) -> list[Manifest]:
    """What `word` trains on: the asset itself, or a checkpoint's mixtures (else its shards)."""
    # A checkpoint is no corpus; what it was trained on is.
    start = manifests.start(word)
    if start.manifest is not None and not mainline_key(start.manifest.asset).startswith("checkpoints/"):
        _reader(start.manifest.asset)
        return [start.manifest]
    above = manifests.upstream(start.inputs.items(), past_agents=False)
    # The mixture says more than the shards, so it is asked first.
    for asset in (MIXTURE, SHARDS):
        found = [read for node, read in sorted(above.items()) if mainline_key(node[0]) == asset and read is not None]
        if found:
            return found
    raise ValueError(f"{word[:120]!r}: nothing that it was trained on is in this store")


def _changed(asset: str, before: _DiffMember, after: _DiffMember) -> list[ItemChange]:
    """How an item that both versions hold differs; nothing if it doesn't."""
    if before.content != after.content:
        repeats = f"{before.content} → {after.content}" if mainline_key(asset) == MIXTURE else ""
        word = "other repeats" if repeats else "other content"
        return [ItemChange(after.name, after.source, CHANGED, word, repeats)]
    if before.name != after.name:
        return [ItemChange(after.name, after.source, CHANGED, "another number", f"was {before.name}")]
    return []


_Read = Callable[[Manifests, Manifest, set[str]], dict[str, _DiffMember]]


def _reader(asset: str) -> _Read:
    group = asset.partition("/")[0]
    if asset in (SHARDS, HELDOUT):
        return _packed
    if mainline_key(asset) == MIXTURE:
        return _mixed
    if group in ("gold", "unified"):
        return _items
    if group == "raw":
        return _files
    raise ValueError(
        f"{asset}: expected shards, a mixture, a gold, unified or raw asset, or a checkpoint; its rows are no corpus"
    )


def _units(manifest: Manifest) -> list[FileEntry | dict[str, Any]]:
    """What two versions can share whole: files; of a mixture its shards with the rows taken of them."""
    if mainline_key(manifest.asset) == MIXTURE:
        return list(manifest.read("mixture", columns=["shard", "sha256", "rows", "repeats"]).to_pylist())
    if manifest.asset.startswith("raw/"):
        # A listing of native files is one file, and read whole.
        return []
    table = "index" if manifest.asset in (SHARDS, HELDOUT) else None
    return [e for e in manifest.files if e.table == table or (table is None and e.table in ("steps", "samples"))]


def _mark(unit: FileEntry | dict[str, object]) -> str:
    return unit.sha256 if isinstance(unit, FileEntry) else digest(unit)


def _all(parts: Iterable[dict[str, _DiffMember]]) -> dict[str, _DiffMember]:
    found: dict[str, _DiffMember] = {}
    for part in parts:
        found |= part
    return found


def _packed(manifests: Manifests, manifest: Manifest, shared: set[str]) -> dict[str, _DiffMember]:
    found = {}
    for entry in manifest.files:
        if entry.table == "index" and entry.sha256 not in shared:
            table = pq.read_table(manifest.root / entry.path, columns=["sample_id", "source"])
            for name, source in zip(table["sample_id"].to_pylist(), table["source"].to_pylist(), strict=True):
                found[name] = _DiffMember(source, "", name)
    return found


def _mixed(manifests: Manifests, mixture: Manifest, shared: set[str]) -> dict[str, _DiffMember]:
    """Samples that the mixture takes, with how often; of shards that both mixtures take alike nothing is read."""
    shards = manifests.find((SHARDS, mixture.inputs.get(SHARDS, "")))
    if shards is None:
        raise ValueError(f"{name_of((mixture.asset, mixture.version))}: its shards aren't in this store any more")
    taken = {row["shard"]: row for row in _units(mixture) if isinstance(row, dict) and _mark(row) not in shared}
    columns = ["sample_id", "source", "shard", "row"]
    rows = TableVersions([shards], "index").where(columns, isin("shard", sorted(taken))) if taken else []
    # Repeats of each chosen row, by its number within the shard.
    repeats = {shard: dict(zip(row["rows"], row["repeats"], strict=True)) for shard, row in taken.items()}
    return {
        row["sample_id"]: _DiffMember(row["source"], str(repeats[row["shard"]][row["row"]]), row["sample_id"])
        for _, row in rows
        if row["row"] in repeats[row["shard"]]
    }


def _items(manifests: Manifests, manifest: Manifest, shared: set[str]) -> dict[str, _DiffMember]:
    """Samples by id; steps by the native action that they are, so that a new number makes no new step."""
    source = manifest.asset.partition("/")[2]
    found = {}
    for entry in manifest.files:
        if entry.table not in _CONTENT or entry.sha256 in shared:
            continue
        content = _CONTENT[entry.table]
        ids = ["sample_id"] if entry.table == "samples" else ["episode_id", "step_index", "provenance"]
        table = pq.read_table(manifest.root / entry.path, columns=[*ids, *content])
        if entry.table == "steps":
            rows = table.filter(pc.is_valid(table["action_text"])).to_pylist()
            # By native action, or one quarantined action would make every later step of its episode a new
            # one.
            keys = native_keys(rows)
            for row in rows:
                step = (row["episode_id"], row["step_index"])
                name = f"step:{source}/{step[0]}/{step[1]}"
                found[str(keys[step])] = _DiffMember(source, digest({key: row[key] for key in content}), name)
        else:
            for row in table.to_pylist():
                found[row["sample_id"]] = _DiffMember(
                    source, digest({key: row[key] for key in content}), row["sample_id"]
                )
    return found


def _files(manifests: Manifests, manifest: Manifest, shared: set[str]) -> dict[str, _DiffMember]:
    source = manifest.asset.partition("/")[2]
    return {str(e["path"]): _DiffMember(source, str(e["sha256"]), str(e["path"])) for e in native_listing(manifest)}


def _explained(
    manifests: Manifests,
    asset: str,
    versions: tuple[CorpusVersions, CorpusVersions],
    members: Mapping[str, _DiffMember],
    direction: str,
) -> list[ItemChange]:
    """Why items of the first corpus (by name) aren't in the second."""
    side = 0 if direction == LEFT else 1
    names = sorted(members)
    if asset.startswith("raw/"):
        word = ("file gone", "new file")[side]
        return [ItemChange(name, members[name].source, direction, word, "") for name in names]
    own, other = versions
    found = item_outcomes(manifests, other, own, _described(own, names, members), _stop(asset))
    return [
        ItemChange(name, members[name].source, direction, WORDS[outcome.kind][side], outcome.detail)
        for name in names
        if (outcome := found.get(name, ItemOutcome("not_gold")))
    ]


def _stop(asset: str) -> str:
    # Held-out shards are packed as the training ones are, and no mixture follows.
    return SHARDS if asset == HELDOUT else asset


def _described(own: CorpusVersions, names: Sequence[str], members: Mapping[str, _DiffMember]) -> list[TracedItem]:
    """The items with their parents and pictures, as the corpus that holds them says."""
    items = {name: TracedItem(name, members[name].source) for name in names}
    by_source: dict[str, list[str]] = {}
    for name in names:
        if not items[name].is_step:
            by_source.setdefault(members[name].source, []).append(name)
    for source, ids in by_source.items():
        # Gold where there is any: it names parents, which unified rows don't have.
        asset = f"gold/{source}" if own.get(f"gold/{source}") else f"unified/{source}"
        items |= {item.id: item for item in own.samples(asset, ids)}
    return list(items.values())


def _above(old: CorpusVersions, new: CorpusVersions) -> tuple[dict[str, list[str | None]], dict[str, list[str]]]:
    """Versions that differ above two corpora, and code versions that differ."""
    inputs: dict[str, list[str | None]] = {}
    code: dict[str, list[str]] = {}
    for asset in sorted(old.manifests.keys() | new.manifests.keys()):
        one, other = old.get(asset), new.get(asset)
        # Missing on one side counts as changed: it explains most of what entered or left.
        if one is None or other is None or one.version != other.version:
            inputs[asset] = [one.version if one else None, other.version if other else None]
        if one and other and one.code_version != other.code_version:
            code[asset] = [one.code_version, other.code_version]
    return inputs, code
