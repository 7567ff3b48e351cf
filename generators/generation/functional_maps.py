"""What the worlds can do, by app and page, and the tasks that a scripted oracle really completed there.

A static task is only as good as its proof: each one below was carried out in the browser, its success was read from
the page's own state, and its expected steps are the length of that recorded path.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from generators.devices.browser import keep_browser
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.oracles import ORACLES, perform
from generators.worlds.miniwob.recorded import open_miniwob
from generators.worlds.pages.own_pages import open_pages
from generators.worlds.pages.page_task import evaluator
from generators.worlds.pages.page_tasks import FAMILIES, app_of
from generators.worlds.pages.recording import OracleError, RecordingPlan, record_one
from schemas.tables import Tasks

PLATFORM_OF = {"phone": "mobile", "desktop": "desktop", "web": "web"}
SEED = 7_000_000
"""Far from the seeds of the embedded data, so that pool tasks don't show its screens."""


@dataclass(frozen=True, slots=True)
class MapConfig:
    """How many tasks to try; each family (pages) or task (MiniWoB++) gets that many seeds."""

    seed: int = SEED
    page_seeds: int = 1
    page_platforms: tuple[str, ...] = ("phone", "desktop")
    miniwob_seeds: int = 2
    desktop_programs: tuple[str, ...] = ()
    """Programs of a desktop: of each family in them a task is tried, which takes seconds, if they are installed."""
    families: tuple[str, ...] = ()
    """Families and MiniWoB++ tasks to use; empty means all."""

    def plain(self) -> dict[str, object]:
        """As it enters the version of a pool; what came later only where it is used."""
        # left out where it isn't used, so that pools of before keep their version
        late = () if self.desktop_programs else ("desktop_programs",)
        return {name: value for name, value in asdict(self).items() if name not in late}


@dataclass
class Attempts:
    """What was tried; `failed` says why an oracle's path proves nothing, so that task isn't in the pool."""

    tried: int = 0
    failed: list[str] = field(default_factory=list)


def functional_map() -> dict[str, tuple[str, ...]]:
    """Target → functions: `pages/<app>` by task family, `miniwob/<task>` as one function each."""
    targets: dict[str, tuple[str, ...]] = {}
    for family in FAMILIES:
        target = f"pages/{app_of(family)}"
        targets[target] = (*targets.get(target, ()), family)
    return {**targets, **{f"miniwob/{task}": (task,) for task in ORACLES}}


def proven_tasks(config: MapConfig, attempts: Attempts) -> Iterator[dict[str, object]]:
    """Task rows (no id, stratum or origin yet) of `schemas.tables.Tasks`, each proven by a recorded path."""
    # pages and MiniWoB++ one after another in one Chromium
    with keep_browser():
        yield from _page_tasks(config, attempts)
        yield from _miniwob_tasks(config, attempts)
    if config.desktop_programs:
        yield from _desktop_tasks(config, attempts)


def _page_tasks(config: MapConfig, attempts: Attempts) -> Iterator[dict[str, Any]]:
    families = [f for f in FAMILIES if not config.families or f in config.families]
    if not families or not config.page_seeds:
        return
    for platform in config.page_platforms:
        with open_pages(platform) as world:
            plan = RecordingPlan(platform, tuple(families), config.page_seeds, config.seed)
            for place, family in enumerate(families):
                for number in range(config.page_seeds):
                    # a family's seeds stay its own, whichever other families are tried
                    seed = config.seed + 1000 * place + number
                    attempts.tried += 1
                    try:
                        episode = record_one(world, family, seed, plan, pictures=False)  # a pool keeps none
                    except OracleError as error:
                        attempts.failed.append(str(error))
                        continue
                    task = episode.task
                    state = {"world": f"pages/{platform}", **world.started}
                    yield {
                        "instruction": episode.goal,
                        "platform": PLATFORM_OF[platform],
                        "target": f"pages/{task.app}",
                        "capabilities": sorted({family, *(step.act.kind for step in episode.steps)}),
                        "initial_state": state,
                        "evaluator": evaluator(task.checks),
                        # at least 1: the closing Finished is no step
                        "expected_steps": max(len(episode.steps) - 1, 1),
                        "parents": [],
                    }


def _miniwob_tasks(config: MapConfig, attempts: Attempts) -> Iterator[dict[str, Any]]:
    names = [name for name in ORACLES if not config.families or name in config.families]
    if not names or not config.miniwob_seeds:
        return
    with open_miniwob() as world:
        for name in names:
            for number in range(config.miniwob_seeds):
                seed = config.seed + number
                attempts.tried += 1
                try:
                    data, acts, reward = perform(world, name, seed)
                except OracleMiss as error:
                    attempts.failed.append(str(error))
                    continue
                # a page's reward below 0 or at it means that the oracle's own path failed
                if reward <= 0:
                    attempts.failed.append(f"{name}: seed {seed}: the page's reward is {reward}")
                    continue
                yield {
                    "instruction": str(data["utterance"]),
                    "platform": "web",
                    "target": f"miniwob/{name}",
                    "capabilities": sorted({name, *(act["kind"] for act in acts)}),
                    "initial_state": {"world": "miniwob", "task": name, "seed": seed},
                    "evaluator": {"rule": "miniwob_raw_reward", "at_least": 1},
                    "expected_steps": max(len(acts), 1),
                    "parents": [],
                }


def _desktop_tasks(config: MapConfig, attempts: Attempts) -> Iterator[dict[str, Any]]:
    # with the SSH driver, which the graph loads without
    from generators.generation.desktop_map import tried_tasks

    for task, undone in tried_tasks(config.desktop_programs, config.families):
        attempts.tried += 1
        if undone:
            attempts.failed.append(f"{task.name}: {undone}")
            continue
        spec = task.contract()
        yield {
            "instruction": spec.instruction,
            "platform": spec.platform,
            "target": spec.target,
            "capabilities": list(spec.capabilities),
            "initial_state": spec.initial_state,
            "evaluator": spec.evaluator,
            "expected_steps": spec.expected_steps,
            "parents": [],
        }


assert {"instruction", "evaluator", "expected_steps"} <= set(Tasks.schema.names)
