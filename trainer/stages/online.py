"""The stages of online RL: an offline specialist acts on the tasks of the store's pool."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from generators.execution.device_pool import DevicePool, LocalPool
from generators.execution.device_sources import DEVICES, LOCAL, DevicePlaces, open_pool
from generators.tasks.task_spec import TaskSpec, has_rule
from generators.tasks.world_interface import World
from generators.worlds.desktop.programs import called, missing_packages
from generators.worlds.desktop.session import find_base_missing
from generators.worlds.evaluators import RULES
from generators.worlds.registry import WORLDS, open_world
from pipelines.store.manifest import Check
from schemas.ids import digest
from schemas.tables import Tasks
from trainer.modeling.checkpoint import read_preset
from trainer.online.strata import edges_for
from trainer.online.success import judge_of
from trainer.online.train import train_online
from trainer.runtime.tracking import Watch
from trainer.settings.domains import platforms_of
from trainer.settings.online import OnlineConfig
from trainer.settings.stage_checks import DEVICES_HELD, GROUPS_COMPARE, SUCCESS_HELD
from trainer.settings.stages import TASKS
from trainer.stages.assets import worlds_of
from trainer.stages.checkpoints import ADAPTERS, MODEL
from trainer.stages.checks import did_not_fall, loads, moved_finitely
from trainer.stages.context import Context, StageResult

PICTURE = "rollout.png"
"""The screens of one rollout, beside the checkpoint's folder."""


COUNTED: tuple[str, ...] = ("updates", "groups", "groups_with_signal", "zero_variance_share", "rollouts")
COUNTED += ("lost_rollouts", "judged", "replayed", "weight_delta", "weight_delta_norm")
"""Of a run's metrics, what the asset counts."""


def online_config(context: Context) -> OnlineConfig:
    """Settings of the run. Strata edges that aren't given are those of the checkpoint's own preset, whatever preset the
    configuration names."""
    # The checkpoint decides: strata of another size would be wrong ones.
    edges = edges_for(read_preset(context.start))
    return context.settings.online.of_run(edges=edges)


def online(context: Context, folder: Path) -> StageResult:
    """Online RL of one domain, from its offline specialist, in worlds of this machine or on leased devices.

    Of the settings, `worlds` names those to use (None: `worlds_of` its domain), `world_options` what they are opened
    with here, `validation_share` the tasks that are kept for validation; the rest is `OnlineConfig`, among it the
    rollout engine. Where devices stand is no part of it: the environment says
    (`generators.execution.device_sources`). Raises `ValueError` if the pool holds no task of the domain that
    runs here, or one that no device of the environment's runs.
    """
    config, settings = online_config(context), context.settings.online
    worlds, options = worlds_of(context.domain, settings.worlds), settings.world_options
    platforms = platforms_of(context.domain, context.settings.domains)
    rows = context.inputs[TASKS].read("tasks", Tasks.schema).to_pylist()
    # Counted by reason: why a pool trains nothing has to be seen.
    usable, left_out = runnable_tasks(rows, platforms, worlds, judged=bool(config.success_judge))
    train, validation = split_tasks(usable, settings.validation_share, config.seed)
    if not train:
        raise ValueError(
            f"{context.stage}: no task of {TASKS} can be trained on: of {len(rows)}, {len(usable)} run "
            f"here, others {dict(left_out)}; build more tasks, or name more worlds"
        )
    places = DevicePlaces.of()
    _require_desktop(context.stage, usable, places)

    def local() -> LocalPool:
        return LocalPool({name: _opener(name, options.get(name, {})) for name in worlds})

    with (
        open_pool(places, worlds, local) as pool,
        Watch(context.state_dir, context.on_event, progress=context.progress, label=context.stage) as watch,
    ):
        _require_devices(context.stage, pool, usable, places)
        result = train_online(
            context.start,
            train,
            folder / MODEL,
            config,
            pool=pool,
            validation=validation,
            state_dir=context.state_dir,
            parents=context.parents,
            stage=context.stage,
            on_event=watch,
            adapters=folder / ADAPTERS,
            judge_of=partial(judge_of, cache=context.store.home / "cache" / "judge", options=context.judge),
            device=context.device,
        )
    if result.picture:
        (folder / PICTURE).write_bytes(result.picture)
    counts = {"tasks": len(train), "validation_tasks": len(validation), "left_out": dict(left_out)}
    return StageResult(folder, counts | _figures(result.metrics), _checks(result.metrics, folder / MODEL))


def _figures(found: Mapping[str, Any]) -> dict[str, object]:
    """What a run counted and reached."""
    gain = found["validation_gain"]
    # None where nothing was validated.
    looks = [look["success"] for look in found["validation"]] or [None]
    return {
        **{word: found[word] for word in COUNTED},
        "success_before": looks[0],
        "success_after": looks[-1],
        "success_gain": gain["mean"],
        "success_gain_low": gain["low"],
        "success_gain_high": gain["high"],
        "reference_steps": len(found["reference_steps"]),
    }


def _checks(found: Mapping[str, Any], model: Path) -> list[Check]:
    gain = found["validation_gain"]
    # Of all that were begun, lost ones included.
    lost = found["lost_rollouts"] / max(1, found["rollouts"] + found["lost_rollouts"])
    return [
        loads(model),
        moved_finitely(found),
        SUCCESS_HELD.check(*did_not_fall(gain, str(gain["mean"]))),
        DEVICES_HELD.check(lost <= 0.5, f"{lost:.0%} of the rollouts lost", "at most half", lost, 0.5),
        GROUPS_COMPARE.check(found["groups_with_signal"] > 0, found["groups_with_signal"], "at least 1", limit=1),
    ]


def runnable_tasks(
    rows: Sequence[Mapping[str, object]], platforms: Sequence[str], worlds: Sequence[str], *, judged: bool = False
) -> tuple[list[TaskSpec], Counter[str]]:
    """Rows of a `Tasks` table → the tasks of these platforms that a world here can run and a rule can decide (or, with
    `judged`, a judge), and why the others can't be used, counted."""
    usable, left_out = [], Counter[str]()
    for row in rows:
        contract = TaskSpec.from_row(row)
        if contract.platform not in platforms:
            left_out["other platform"] += 1
        elif contract.initial_state.get("world") not in worlds:
            left_out["no such world here"] += 1
        # A rule that is known, or a judge where there is no rule at all.
        elif contract.evaluator.get("rule") not in RULES and (has_rule(contract.evaluator) or not judged):
            left_out["no rule decides it"] += 1
        else:
            usable.append(contract)
    # By id: the order of a pool's files must not change the run.
    return sorted(usable, key=lambda contract: contract.task_id), left_out


def split_tasks(tasks: Sequence[TaskSpec], share: float, seed: int) -> tuple[list[TaskSpec], list[TaskSpec]]:
    """(training, validation): a share of the tasks by hash, at least one of each as far as they go."""
    order = sorted(tasks, key=lambda task: digest(["online-validation", seed, task.task_id]))
    # At least one on either side, as far as there are two.
    count = min(max(1, round(share * len(order))), len(order) - 1) if share > 0 and len(order) > 1 else 0
    return order[count:], order[:count]


def _require_devices(stage: str, pool: DevicePool, tasks: Sequence[TaskSpec], places: DevicePlaces) -> None:
    """Raises `ValueError` for a world of the tasks that no device shows: which tasks a run learns from is its settings'
    business, never that of where devices stand."""
    for task in tasks:
        try:
            pool.kind(task)
        except ValueError as error:
            named = ", ".join(places.devices)[:200]
            raise ValueError(
                f"{stage}: {error}; ${DEVICES} is {named}: add {LOCAL} or another gateway to it, or name "
                "the worlds to use (online.worlds)"
            ) from None


def _require_desktop(stage: str, tasks: Sequence[TaskSpec], places: DevicePlaces) -> None:
    """Raises `ValueError` for tasks on the desktop of a machine that lacks its packages, or those of their programs."""
    programs = [called(str(task.initial_state.get("program"))) for task in tasks if task.world == "desktop"]
    # Leased desktops have their packages where they stand.
    if not programs or places.devices != (LOCAL,):
        return
    if lacking := find_base_missing() + missing_packages(program for program in programs if program is not None):
        raise ValueError(
            f"{stage}: tasks on the desktop need packages that are missing here: {' '.join(lacking)}; install them, "
            "or name the worlds to use (online.worlds)"
        )


def _opener(name: str, options: Mapping[str, object]) -> Callable[[], AbstractContextManager[World]]:
    if name not in WORLDS:
        raise ValueError(f"online RL: unknown world {name!r:.60}; known are {', '.join(WORLDS)}")
    return lambda: open_world(name, **options)
