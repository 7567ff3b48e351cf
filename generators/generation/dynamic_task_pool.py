"""`task_pool/dynamic`: tasks inferred from gold episodes, in worlds that show the app they were recorded in.

A new task q' is kept iff max similarity of q' to the pool is below epsilon (UI-Venus-1.5, section 2.3): greedy in a
total order, so a pure function of the set. Where it starts, the worlds say (`generators.worlds.registry.starts_of`). No
state of theirs is that of the recording, so what a task names may lie elsewhere there, or not at all, and a judge of
the last screen decides it. A task whose app no world shows stays in the pool, without a start, for worlds to come; a
limit says from how many on a check warns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from generators.tasks.task_pool import DYNAMIC, STATIC, PoolConfig, pool_row, tasks_table
from generators.tasks.task_spec import FINAL_KEYFRAME
from generators.worlds.registry import starts_of
from pipelines.store import Build, CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.training_data.removed import Removed, removed_items
from quality.duplicates.same_text import VERSION as MEANING_VERSION
from quality.duplicates.same_text import DistinctTexts
from quality.evidence.embedding import Embedder
from schemas.actions import Launch, parse
from schemas.ids import digest, item_episode
from schemas.tables import Steps, Tasks

CODE_VERSION = f"4.{MEANING_VERSION}"
MOST_UNOPENED = 0.9
"""Many recordings don't say which app they show: AITZ and AgentNet never do."""
SEEDS = 1_000_000
"""Snapshots that tasks start from, in worlds that have as many."""
NO_APP, NO_WORLD = "no app named", "no world shows the app"
ALL_NEW = CheckSpec("every kept task is new", "A kept task is as similar to another as a duplicate")
OPENABLE = CheckSpec("dynamic tasks open", "Too many name no app, or one that no world shows", blocking=False)
CHECKS = (ALL_NEW, OPENABLE)
_COLUMNS = [
    "episode_id",
    "step_index",
    "split",
    "platform",
    "app",
    "instruction",
    "screenshot_sha256",
    "action_type",
    "action_text",
    "episode_outcome",
    "provenance",
]


@dataclass(frozen=True, slots=True)
class RecordedPath:
    """A whole, successful gold episode of the training split, as far as it suggests tasks."""

    source: str
    episode_id: str
    platform: str
    instruction: str
    apps: tuple[str, ...]
    """What it says it shows, the surest name first: its app, then what it launches."""
    actions: tuple[str, ...]
    """Types of its actions, without the closing Finished."""
    screens: tuple[str, ...]
    """sha256 of its pictures, the first and the last of which it has."""

    @property
    def item(self) -> str:
        """Its item id."""
        return item_episode(self.source, self.episode_id)


@dataclass(frozen=True, slots=True)
class ProposedTask:
    """A task that a screen of an episode affords; `screen` is the sha256 of the picture it was inferred from,
    `reference` that of one that shows it done, if there is any."""

    instruction: str
    expected_steps: int
    screen: str
    reference: str = ""


Proposer = Callable[[RecordedPath], Iterable[ProposedTask]]


def own_instruction(episode: RecordedPath) -> list[ProposedTask]:
    """The proposer that needs no model: an episode proves that its own instruction can be done where it was recorded.

    It can't read the picture, so it never suggests what else a screen affords; a model's can
    (`generators.generation.proposing.screen_tasks`).
    """
    return [ProposedTask(episode.instruction, len(episode.actions), episode.screens[0], episode.screens[-1])]


def build_dynamic(
    store: Store,
    sources: Sequence[str],
    *,
    config: PoolConfig | None = None,
    proposer: Proposer = own_instruction,
    most_unopened: float = MOST_UNOPENED,
) -> Manifest:
    """Gold episodes of the training split → `task_pool/dynamic` (tables `tasks` and `similarity`).

    The pool is `task_pool/static` (if it is there) plus what was kept so far, in the order of (place of the source,
    episode id). Expected steps are the actions of the recorded path without the closing Finished; episodes that
    failed, lack a picture or hold a gap prove nothing and are passed over, and so is what `hygiene/contamination`
    removed. A check warns if a larger share than `most_unopened` can't be opened. Raises `StoreError` without gold.
    """
    config = config or PoolConfig()
    manifests = {source: store.require(f"gold/{source}") for source in sources}
    static = store.current(STATIC)
    known = [m for m in (*manifests.values(), static) if m is not None]
    removed = removed_items(store)
    embedder = Embedder(config.model, cache=store.home / "cache" / "embeddings")
    plain = {
        **asdict(config),
        "model": embedder.identity,
        "sources": list(sources),
        "proposer": _proposer_name(proposer),
        "most_unopened": most_unopened,
    }
    data = {m.asset: m.data_version for m in known}
    # by what the inputs hold, and by what was removed since
    spec = PartSpec("all", digest([CODE_VERSION, plain, data, sorted(removed.episodes)]))

    def make(out: PartWriter) -> dict[str, Any]:
        pool = static.read("tasks", Tasks.schema)["instruction"].to_pylist() if static is not None else []
        episodes = [e for source, manifest in manifests.items() for e in _episodes(source, manifest, removed)]
        proposed = [(e, task) for e in episodes for task in proposer(e) if task.instruction.strip()]
        # against the pool, and against those of this list that were kept before
        nearest = novelty([task.instruction.strip() for _, task in proposed], pool, embedder, config.epsilon)
        new = [place for place, value in enumerate(nearest) if value < config.epsilon]
        return _write(out, [proposed[n] for n in new], [nearest[n] for n in new], config) | {
            "proposed": len(proposed),
            "episodes": len(episodes),
        }

    inputs = {m.asset: m.version for m in known} | removed.inputs
    with store.build(DYNAMIC, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        return _commit(build, build.run_part(spec, make).counts, config.epsilon, most_unopened)


def _write(
    out: PartWriter, kept: Sequence[tuple[RecordedPath, ProposedTask]], nearest: Sequence[float], config: PoolConfig
) -> dict[str, Any]:
    home = _homes([episode for episode, _ in kept])
    unopened = Counter[str]()
    tasks = []
    for episode, proposal in kept:
        start, missing = _start(episode, proposal, home)
        unopened.update([missing] if missing else [])
        tasks.append(pool_row(_dynamic(episode, proposal, start), "dynamic", config))
    out.table("tasks", tasks_table(tasks))
    names = pa.array([task["task_id"] for task in tasks], pa.string())
    out.table("similarity", pa.table({"task_id": names, "nearest": pa.array(nearest, pa.float64())}))
    return {
        **Counter(task["stratum"] for task in tasks),
        "tasks": len(tasks),
        "nearest_kept": max(nearest, default=0.0),
        "unopened": dict(sorted(unopened.items())),
    }


def _commit(build: Build, counts: Mapping[str, Any], epsilon: float, most: float) -> Manifest:
    new, nearest = counts["nearest_kept"] < epsilon, counts["nearest_kept"]
    share = sum(counts["unopened"].values()) / max(1, counts["tasks"])
    why = "".join(f"; {reason}: {count}" for reason, count in counts["unopened"].items())
    checks = [
        ALL_NEW.check(new, f"{nearest:.4f}", f"< {epsilon}", nearest, epsilon),
        OPENABLE.check(share <= most, f"{share:.0%} don't open{why}", f"at most {most:.0%}", share, most),
    ]
    return build.commit(counts=dict(counts), checks=checks)


def _proposer_name(proposer: Proposer) -> str:
    """What the configuration of `task_pool/dynamic` calls a proposer; the name is in its hash, so it outlives moves."""
    if proposer is own_instruction:
        # the module's path when the name was given: it is in hashes, and a move mustn't change them
        return "generators.task_pool.own_instruction"
    return str(getattr(proposer, "identity", f"{proposer.__module__}.{getattr(proposer, '__name__', '')}"))


def novelty(texts: Sequence[str], pool: Sequence[str], embedder: Embedder, epsilon: float) -> list[float]:
    """Per text, its largest similarity to the pool and to the texts before it that were kept (< epsilon)."""
    # rounded, since embedders differ in their last places from machine to machine
    return [round(value, 9) for _, value, _ in DistinctTexts(embedder, epsilon, pool).admit_all(texts)]


def _episodes(source: str, manifest: Manifest, removed: Removed) -> Iterator[RecordedPath]:
    steps = manifest.read("steps", Steps.schema, _COLUMNS).filter(pa.compute.field("split") == "train")
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in steps.sort_by([("episode_id", "ascending"), ("step_index", "ascending")]).to_pylist():
        grouped.setdefault(row["episode_id"], []).append(row)
    for name, rows in grouped.items():
        first, actions = rows[0], [row["action_type"] for row in rows if row["action_type"] not in (None, "Finished")]
        whole = [row["step_index"] for row in rows] == list(range(len(rows)))
        # a gap may have held what made the task possible
        sound = whole and not any('"gap_at":' in row["provenance"] for row in rows)
        sound = sound and item_episode(source, name) not in removed.episodes
        # an outcome that nobody recorded is no failure
        if not (actions and sound and first["screenshot_sha256"]) or first["episode_outcome"] not in (None, "success"):
            continue
        screens = tuple(row["screenshot_sha256"] for row in rows if row["screenshot_sha256"])
        yield RecordedPath(source, name, first["platform"], first["instruction"], _apps(rows), tuple(actions), screens)


def _apps(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    named = [row["app"] for row in rows if row["app"]]
    launched = [parse(row["action_text"]) for row in rows if row["action_type"] == "Launch"]
    named += [action.app for action in launched if isinstance(action, Launch) and action.app]
    # each once, the surest first
    return tuple(dict.fromkeys(named))


Homes = Mapping[tuple[str, str], tuple[str, ...]]
"""(source, platform) → worlds that show its apps, the one with most of them first."""


def _homes(episodes: Sequence[RecordedPath]) -> Homes:
    """A source was recorded on one kind of device: of two worlds that have an app of a name, the one that knows more of
    the source's apps is nearer to it."""
    apps: dict[tuple[str, str], set[str]] = {}
    for episode in episodes:
        apps.setdefault((episode.source, episode.platform), set()).update(episode.apps)
    counts = {key: Counter(w for app in found for w in starts_of(app, key[1], 0)) for key, found in apps.items()}
    return {key: tuple(sorted(count, key=lambda world: (-count[world], world))) for key, count in counts.items()}


def _start(episode: RecordedPath, proposal: ProposedTask, homes: Homes) -> tuple[dict[str, object], str]:
    """(start in a world that shows an app of the episode, ""), or ({}, why there is none)."""
    seed = int(digest([episode.item, proposal.instruction])[:8], 16) % SEEDS
    for app in episode.apps:
        found = starts_of(app, episode.platform, seed)
        for world in homes[episode.source, episode.platform]:
            if world in found:
                return found[world], ""
    return {}, NO_WORLD if episode.apps else NO_APP


def _dynamic(episode: RecordedPath, proposal: ProposedTask, start: Mapping[str, object]) -> dict[str, Any]:
    """A row of `Tasks`. The start is what `World.reset` takes and nothing else; where a task comes from, its evaluator
    and its parents say."""
    evaluator = {"rule": FINAL_KEYFRAME, "screenshot_sha256": proposal.screen}
    if proposal.reference:
        evaluator["reference_sha256"] = proposal.reference
    return {
        "instruction": proposal.instruction.strip(),
        "platform": episode.platform,
        "target": episode.apps[0] if episode.apps else episode.source,
        "capabilities": sorted(set(episode.actions)),
        "initial_state": dict(start),
        "evaluator": evaluator,
        "expected_steps": proposal.expected_steps,
        "parents": [episode.item],
    }
