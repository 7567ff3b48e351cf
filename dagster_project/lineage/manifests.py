"""Every committed version in a store as one graph: who was built from whom, read from the manifests."""

import functools
import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.store import TOMBSTONE, Store, StoreError
from pipelines.store.aliases import AGENT, ALIASES
from pipelines.store.choose_version import named_version
from pipelines.store.current_version import read_pointer
from pipelines.store.manifest import Manifest, mainline_key
from trainer.modeling.tensors import REMAINDER

Node = tuple[str, str]
"""(asset, version)."""
GENERATION = "generation/"
AGENTS = ("checkpoints/", "evaluations/", "suites/", "leaderboard/")
"""Who plays a round of the generation loop, and what steers it."""


def name_of(node: Node) -> str:
    """`asset@version`."""
    return f"{node[0]}@{node[1]}"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins: what it is called, what it was built from, and its manifest or its `lineage.json`."""

    name: str
    inputs: dict[str, str]
    manifest: Manifest | None = None
    told: dict[str, object] | None = None


class Manifests:
    """The committed versions of a store; each manifest is read once, when it is requested."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[Node, Manifest | None] = {}

    def find(self, node: Node) -> Manifest | None:
        """A version's manifest; None if it isn't in this store (collected since, or named by its weights only).
        Raises `ValueError` for one that is there and can't be read."""
        if node not in self._read:
            self._read[node] = self._load(node)
        return self._read[node]

    def _load(self, node: Node) -> Manifest | None:
        try:
            path = self.store.root(node[0]) / node[1] / "manifest.json"
        except ValueError:  # no asset key, e.g. the digest of a merge's weights
            # A merge outside the store names parents by the digest of their weights.
            return None
        if not path.is_file():
            return None
        try:
            return self.store.version(*node)
        except StoreError as error:
            raise ValueError(f"{name_of(node)}: expected a manifest, found one that can't be read ({error})") from error

    def current(self, asset: str) -> Manifest | None:
        """The last good version of an asset; None if there is none."""
        version = self.pointers.get(asset)
        return None if version is None else self.find((asset, version))

    @functools.cached_property
    def pointers(self) -> dict[str, str]:
        """Asset → its current version."""
        root = self.store.home / "assets"
        pointers = {asset: read_pointer(root / asset) for asset in self._listing[1]}
        return {asset: str(pointer["version"]) for asset, pointer in pointers.items() if pointer}

    @functools.cached_property
    def all(self) -> list[Manifest]:
        """All committed versions, sorted by asset and version; those that failed their checks too."""
        found = [self.find(node) for node in self._listing[0]]
        return [manifest for manifest in found if manifest is not None]

    @functools.cached_property
    def _listing(self) -> tuple[list[Node], list[str]]:
        """(committed versions, assets with a pointer), sorted; what lies inside a version isn't looked at."""
        root = self.store.home / "assets"
        nodes, assets = [], []
        for folder, folders, files in os.walk(root):
            asset = os.path.relpath(folder, root).replace(os.sep, "/")
            if "current.json" in files:
                assets.append(asset)
            if "manifest.json" in files:
                nodes.append((asset.rpartition("/")[0], asset.rpartition("/")[2]))
                # What lies within a version is files, maybe millions of them, and no further versions.
                folders.clear()
            folders[:] = [name for name in folders if name != "parts"]
        return sorted(nodes), sorted(assets)

    def gone(self, node: Node) -> str:
        """Why a version that others name isn't here."""
        try:
            stated = json.loads((self.store.root(node[0]) / node[1] / TOMBSTONE).read_text(encoding="utf-8"))
            return f"records of it were taken down, {stated['replaced_by']} took its place"
        except (OSError, ValueError, KeyError, TypeError):
            return "not in this store"

    @functools.cached_property
    def readers(self) -> dict[Node, list[Node]]:
        """Version → the versions that name it among their inputs."""
        # The inverse of all inputs, built once: going down asks for it at every version.
        found: dict[Node, list[Node]] = {}
        for manifest in self.all:
            for parent in manifest.inputs.items():
                found.setdefault(parent, []).append((manifest.asset, manifest.version))
        return found

    def is_current(self, node: Node) -> bool:
        """Whether a version is the one that consumers read now."""
        return self.pointers.get(node[0]) == node[1]

    def upstream(self, inputs: Iterable[Node], *, past_agents: bool = True) -> dict[Node, Manifest | None]:
        """All that lies above, `inputs` with it, the nearest first; None for what isn't in this store.

        `past_agents` False: not past the agent that played a round of the generation loop, nor past its evaluation that
        steered it. What an older agent was trained on is in the history of what came after, not in its corpus.
        """
        found: dict[Node, Manifest | None] = {}
        waiting = deque(inputs)
        while waiting:
            node = waiting.popleft()
            if node in found:
                continue
            found[node] = manifest = self.find(node)
            # An older agent played the round: what it had learned from is history, no part of this corpus.
            played = not past_agents and node[0].startswith(GENERATION)
            for parent in manifest.inputs.items() if manifest is not None else ():
                if not (played and mainline_key(parent[0]).startswith(AGENTS)):
                    waiting.append(parent)
        return found

    def downstream(self, nodes: Iterable[Node]) -> set[Node]:
        """All versions built from any of `nodes`, however far away; not `nodes` themselves unless one is below another.
        Memory and time: one visit a version."""
        found: set[Node] = set()
        waiting = [reader for node in nodes for reader in self.readers.get(node, ())]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += self.readers.get(node, ())
        return found

    def resolve(self, word: str) -> Manifest | None:
        """`asset`, `asset@version`, `asset@alias`, or a checkpoint's or dataset's bare name → its manifest; None if
        there is none. A bare alias is that of the unified agent.

        Raises `ValueError` for a version that isn't there though its asset is, naming those that are.
        """
        asset, _, version = (f"{AGENT}@{word}" if word in ALIASES else word).partition("@")
        # As written, then as a checkpoint's or a dataset's short name.
        for key in (asset, f"checkpoints/{asset}", f"raw/{asset}"):
            try:
                there = sorted(path.parent.name for path in self.store.root(key).glob("*/manifest.json"))
            except ValueError:
                continue
            if there and version:
                return self._version(key, version, there)
            if (manifest := self.current(key)) is not None:
                return manifest
        return None

    def _version(self, asset: str, version: str, there: list[str]) -> Manifest:
        if version in ALIASES:
            return named_version(self.store, f"{asset}@{version}")
        chosen = [name for name in there if name.startswith(version)]
        if len(chosen) != 1:
            kind = "no version" if not chosen else "several versions"
            raise ValueError(f"{asset}: {kind} that begin with {version[:40]!r}; there are {', '.join(there[-8:])}")
        manifest = self.find((asset, chosen[0]))
        if manifest is None:
            raise ValueError(f"{asset}@{chosen[0]}: its manifest can't be read")
        return manifest

    def start(self, word: str) -> Start:
        """A checkpoint's name or folder, or an asset key with or without `@version`. Raises `ValueError` if it isn't
        there."""
        stated = read_lineage(Path(word))
        if stated is not None:
            stage = stated.get("stage", stated.get("method", "checkpoint"))
            said = stated.get("parents")
            parents = said if isinstance(said, dict) else {}
            named = {str(asset): str(version) for asset, version in parents.items()}
            return Start(f"{word} ({stage})", self._by_weights(named), None, stated)
        manifest = self.resolve(word)
        if manifest is None:
            raise ValueError(
                f"{word[:120]!r}: expected a checkpoint folder with lineage.json or a committed asset, found none; "
                f"{self.store.nothing_of(word.partition('@')[0][:120])}"
            )
        return Start(f"{manifest.asset} {manifest.version}", manifest.inputs, manifest, _lineage_file(manifest))

    def _by_weights(self, parents: dict[str, str]) -> dict[str, str]:
        """Parents that a merge outside the store names by the digest of their weights → the store's names for them."""
        unknown = {digest for node in parents.items() if self.find(node) is None for digest in node[1:]}
        # Digests of weights are 64 hex digits; names of versions are shorter.
        if not any(len(digest) == 64 for digest in unknown):
            return parents
        known = {
            weights_digest(m): (m.asset, m.version)
            for m in self.all
            if mainline_key(m.asset).startswith("checkpoints/")
        }
        found: dict[str, str] = {}
        for asset, version in parents.items():
            node = known.get(version, (asset, version)) if version in unknown else (asset, version)
            # Two parents may be versions of one asset, and a dict has room for one of them under that name.
            found[node[0] if found.get(node[0], node[1]) == node[1] else asset] = node[1]
        return found


def weights_digest(manifest: Manifest) -> str:
    """What `vesper merge` calls a checkpoint: sha256 (hex) over the sha256 of its weight files in order of names."""
    weights = sorted(
        (e.path, e.sha256) for e in manifest.files if e.path.endswith(".safetensors") and REMAINDER not in e.path
    )
    return hashlib.sha256(b"".join(bytes.fromhex(sha256) for _, sha256 in weights)).hexdigest()


def _lineage_file(manifest: Manifest) -> dict[str, object] | None:
    """What a checkpoint's own `lineage.json` says."""
    if not mainline_key(manifest.asset).startswith("checkpoints/"):
        return None
    for entry in manifest.files:
        if entry.path.endswith("/lineage.json"):
            return read_lineage((manifest.root / entry.path).parent)
    return None


def read_lineage(folder: Path) -> dict[str, object] | None:
    """A folder's `lineage.json`; None if it has none. Raises `ValueError` if it can't be read as one."""
    path = folder / "lineage.json"
    if not path.is_file():
        return None
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, found something else ({error})") from error
    if not isinstance(plain, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(plain).__name__}")
    return plain
