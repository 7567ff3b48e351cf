"""The task pool in the forms in which RL trainers load prompts: TRL, verl, and a dataset repository.

A prompt is what a policy is asked before its first action: the goal without a history, and the recording's first
screen where no world can show the task. Tasks of worlds begin from a state instead (`initial_state`), which a rollout
sets up: beside the rows lies what lets TRL and verl play them on a server of worlds.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from generators.tasks.task_pool import DYNAMIC
from pipelines.exports import trl, verl
from pipelines.exports.filters import Filters, Refuses
from pipelines.exports.folder import ExportPlan, Report, export_folder, finish
from pipelines.exports.form import IMAGES, ExportForm, Rows, datasets_schema, images
from pipelines.exports.recipes import recipe
from pipelines.exports.records import Picture, ext_of
from pipelines.prompts import messages, navigation_text
from pipelines.store import Manifest, Store
from pipelines.training_data.chat_turns import Turn, trained_turns
from pipelines.training_data.dataset_card import Card, Group
from quality.refinement.gold import licence_of
from schemas.ids import GENERATED_SOURCE, item_episode
from schemas.tables import Steps, Tasks

OWN = "own"
"""Licence of tasks that Vesper's own worlds and rounds gave."""
# columns that tasks haven't
_NO_EFFECT = ("objective", "split", "score", "mixture")
_EPISODE = re.compile(r"episode:([^/]+)/")
_FIRST = ["episode_id", "step_index", "screenshot_sha256"]
_FIELDS = [(field.name, field.type) for field in Tasks.schema]


@dataclass(frozen=True, slots=True)
class PoolTask:
    """A task with its prompt."""

    row: dict[str, Any]
    group: Group
    turns: list[Turn]
    pictures: tuple[Picture, ...]
    index: int


def _trl(task: PoolTask) -> dict[str, object]:
    return {"prompt": trl.typed_turns(task.turns), "images": images(task.pictures), **task.row}


def _verl(task: PoolTask) -> dict[str, object]:
    extra = {**task.row, "index": task.index, "split": task.group.split}
    return verl.row(task.group.source, task.turns, task.pictures, "gui/navigation", str(task.row["evaluator"]), extra)


def _hub(task: PoolTask) -> dict[str, object]:
    return {**task.row, "images": images(task.pictures)}


def _environment(_: Rows) -> Mapping[str, str]:
    return {"environment.py": recipe("trl_environment.py")}


def _agent_loop(_: Rows) -> Mapping[str, str]:
    names = {"agent_loop.py": "verl_agent_loop.py", "agent_loop.yaml": "verl_agent_loop.yaml", "run.sh": "verl_pool.sh"}
    return {name: recipe(source) for name, source in names.items()}


_PARQUET = "data/{split}-{part}.parquet"
_LOAD = 'import datasets\ndata = datasets.load_dataset("THIS FOLDER", split="train")'
POOL: dict[str, ExportForm[PoolTask]] = {
    "trl": ExportForm(
        name="trl",
        loader="TRL (`GRPOTrainer`)",
        files=_PARQUET,
        row=_trl,
        schema=datasets_schema([("prompt", trl.TYPED_TURNS), ("images", IMAGES), *_FIELDS]),
        loading=f"{_LOAD}\nGRPOTrainer(model, reward_funcs=[reward], train_dataset=data)",
        notes="A reward function gets the columns by name: `evaluator` is the rule, `initial_state` the start. "
        "`environment.py` lets TRL play tasks that begin in a world, on a server of `vesper serve worlds`.",
        beside=_environment,
        version="2",
    ),
    "verl": ExportForm(
        name="verl",
        loader="verl (`RLHFDataset`)",
        files=_PARQUET,
        row=_verl,
        schema=verl.schema([("index", pa.int64()), ("split", pa.string()), *_FIELDS]),
        loading=verl.TRAIN,
        language="bash",
        notes="`reward_model.ground_truth` is the rule that decides the task (`evaluator`), as JSON. "
        "`MODEL=… bash run.sh` plays tasks that begin in a world by `agent_loop.py`, on a server of "
        "`vesper serve worlds`.",
        beside=_agent_loop,
        version="2",
    ),
    "hub": ExportForm(
        name="hub",
        loader="`datasets`, from this folder or from a hub",
        files=_PARQUET,
        row=_hub,
        schema=datasets_schema([*_FIELDS, ("images", IMAGES)]),
        loading=_LOAD,
    ),
}


def export_pool(
    store: Store,
    pool: Manifest,
    form: str,
    folder: Path,
    filters: Filters | None = None,
    report: Report = lambda line: None,
    *,
    refuses: Refuses,
) -> dict[Group, int]:
    """Export the tasks that filters leave → tasks by group. A second call goes on where the first was stopped.

    Raises `ValueError` for filters that mean nothing to tasks or leave none, and as `export_folder` does.
    """
    kind, filters = POOL[form], filters or Filters()
    if unfit := [name for name in _NO_EFFECT if getattr(filters, name)]:
        raise ValueError(f"--{unfit[0]}: expected source, licence or platform for a pool, found {unfit[0]}")
    chosen = _choose(pool, filters)
    settings = {"form": kind.version, "filters": filters.plain()}
    plan = ExportPlan("pool", form, pool.asset, pool.version, settings)
    screens = _first_screens(store, pool, {group.source for _, group in chosen})
    groups = export_folder(
        folder,
        kind,
        plan,
        {group for _, group in chosen},
        refuses,
        lambda taken: _tasks(store, chosen, screens, taken),
        filters.shard_mb,
        report,
    )
    card = Card(
        title=f"Tasks for GUI agents, for {kind.loader}",
        about=f"{sum(groups.values())} tasks, exported by `vesper export pool --to {form}`.\n\n"
        f"```{kind.language}\n{kind.loading}\n```\n\n{kind.notes}",
        groups=groups,
        data_files={"train": kind.files.format(split="train", part="*")},
        columns=Tasks.meanings,
        lineage={pool.asset: pool.version, **dict(sorted(pool.inputs.items()))},
    )
    finish(folder, card, kind.beside({"train": sum(groups.values())}))
    return groups


def _choose(pool: Manifest, filters: Filters) -> list[tuple[dict[str, Any], Group]]:
    chosen: list[tuple[dict[str, Any], Group]] = []
    seen: set[Group] = set()
    # by id, so that a second call goes on where the first was stopped
    for row in pool.read("tasks", Tasks.schema).sort_by("task_id").to_pylist():
        group = _group(row)
        seen.add(group)
        if filters.takes(group):
            chosen.append((row, group))
    filters.require(pool.asset, seen, len(chosen))
    return chosen


def _group(row: Mapping[str, Any]) -> Group:
    """A task inferred from a recording has its source and licence, wherever it begins; others are of their world."""
    source = next((episode[1] for item in row["parents"] if (episode := _EPISODE.match(item))), GENERATED_SOURCE)
    if source == GENERATED_SOURCE:
        return Group(row["target"].partition("/")[0], OWN, "", row["platform"], "train")
    return Group(source, licence_of(source), "", row["platform"], "train")


def _first_screens(store: Store, pool: Manifest, sources: Collection[str]) -> dict[str, str]:
    """Episode (as an item) → sha256 of its first screen, of the gold that the tasks were inferred from."""
    dynamic = pool.inputs.get(DYNAMIC)
    gold = store.version(DYNAMIC, dynamic).inputs if dynamic else {}
    found: dict[str, str] = {}
    for source in sorted(sources):
        if version := gold.get(f"gold/{source}"):
            steps = store.version(f"gold/{source}", version).read("steps", Steps.schema, _FIRST).to_pylist()
            first = {row["episode_id"]: row["screenshot_sha256"] for row in steps if row["step_index"] == 0}
            found |= {item_episode(source, episode): sha256 for episode, sha256 in first.items() if sha256}
    return found


def _tasks(
    store: Store, chosen: Sequence[tuple[dict[str, Any], Group]], screens: Mapping[str, str], taken: int
) -> Iterator[PoolTask]:
    for index, (row, group) in enumerate(chosen[taken:], taken):
        # Where a world can be set up, its own screen is the first, not the recorded device's.
        shown = [screens[item] for item in row["parents"] if item in screens and row["initial_state"] == "{}"]
        path = store.screen_path(shown[0]) if shown else None
        pictures = (Picture(path.read_bytes(), ext_of(path.name)),) if path else ()
        asked = messages("navigation", navigation_text(row["instruction"], (), thinking=True), len(pictures))
        # without the answer, which is the policy's to give
        yield PoolTask(row, group, trained_turns(asked, "")[:-1], pictures, index)
