"""The task pool in the forms in which RL trainers load prompts: TRL, verl, and a dataset repository.

A prompt is what a policy is asked before its first action: the goal without a history, and the recording's first
screen where no world can show the task. Tasks of worlds begin from a state instead (`initial_state`), which a rollout
sets up: beside the rows lies what lets TRL and verl play them on a server of worlds.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from generators.tasks.task_pool import DYNAMIC
from pipelines.exports import trl, verl
from pipelines.exports.export import Export, ExportPiece, ExportPlan
from pipelines.exports.filters import Filters
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
FILTERS = ("source", "licence", "platform")
"""What tasks are chosen by."""
_EPISODE = re.compile(r"episode:([^/]+)/")
_FIRST = ["episode_id", "step_index", "screenshot_sha256"]
_FIELDS = [(field.name, field.type) for field in Tasks.schema]


@dataclass(frozen=True, slots=True)
class ChosenTask:
    """A task that is exported."""

    row: dict[str, Any]
    group: Group
    screen: str
    """sha256 of the recorded screen that it shows; "" for none."""


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


def pool_export(
    store: Store, pool: Manifest, form: str, filters: Filters | None = None
) -> Export[ChosenTask, PoolTask]:
    """The tasks that filters leave of a pool, in a form. Raises `ValueError` for filters that mean nothing to tasks or
    leave none."""
    kind, filters = POOL[form], filters or Filters()
    filters.require_only("pool", FILTERS)
    chosen = _choose(store, pool, filters)

    def whole() -> Iterator[ExportPiece[ChosenTask]]:
        yield ExportPiece("tasks", [[[one.row, one.group, one.screen] for one in chosen]], chosen)

    def card(groups: Mapping[Group, int]) -> Card:
        return Card(
            title=f"Tasks for GUI agents, for {kind.loader}",
            about=f"{sum(groups.values())} tasks, exported by `vesper export pool --to {form}`.\n\n"
            f"```{kind.language}\n{kind.loading}\n```\n\n{kind.notes}",
            groups=groups,
            data_files={"train": kind.files.format(split="train", part="*")},
            columns=Tasks.meanings,
            lineage={pool.asset: pool.version, **dict(sorted(pool.inputs.items()))},
        )

    settings = {"form": kind.version, "filters": filters.plain()}
    plan = ExportPlan("pool", form, pool.asset, pool.version, settings)
    return Export(plan, kind, chosen, partial(_tasks, store), whole, card, filters.shard_mb)


def _choose(store: Store, pool: Manifest, filters: Filters) -> list[ChosenTask]:
    # by id, so that a second call goes on where the first was stopped
    rows = pool.read("tasks", Tasks.schema).sort_by("task_id").to_pylist()
    found = [(row, _group(row)) for row in rows]
    taken = [(row, group) for row, group in found if filters.takes(group)]
    filters.require(pool.asset, {group for _, group in found}, len(taken))
    screens = _first_screens(store, pool, {group.source for _, group in taken})
    return [ChosenTask(row, group, _screen(row, screens)) for row, group in taken]


def _screen(row: Mapping[str, Any], screens: Mapping[str, str]) -> str:
    """sha256 of what a task shows first; "" where a world can be set up, whose own screen is the first."""
    shown = [screens[item] for item in row["parents"] if item in screens and row["initial_state"] == "{}"]
    return shown[0] if shown else ""


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


def _tasks(store: Store, chosen: Sequence[ChosenTask], taken: int) -> Iterator[PoolTask]:
    for index, one in enumerate(chosen[taken:], taken):
        path = store.screen_path(one.screen) if one.screen else None
        pictures = (Picture(path.read_bytes(), ext_of(path.name)),) if path else ()
        asked = messages("navigation", navigation_text(one.row["instruction"], (), thinking=True), len(pictures))
        # without the answer, which is the policy's to give
        yield PoolTask(one.row, one.group, trained_turns(asked, "")[:-1], pictures, index)
