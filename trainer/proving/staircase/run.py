"""The staircase of one training seed, from tasks to report; every part is a file, so a run that was killed goes on.

`vesper staircase` calls it. In its folder lie `tasks-<platform>/` and `episodes-<platform>/`, which all seeds share,
and `<platform>-seed-<n>/` with the stages' checkpoints, the evaluations and `report.json`, `report.md`, `report.svg`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.whole_files import put_json
from trainer.proving.staircase.choice import ChosenTasks, choose_tasks
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.episodes import counts, make_episodes, read_rows
from trainer.proving.staircase.evaluation import Evaluation
from trainer.proving.staircase.figures import joined
from trainer.proving.staircase.random_policy import random_policy
from trainer.proving.staircase.report import RECORDS, write_report
from trainer.proving.staircase.training import Trainings
from trainer.runtime.tracking import OnEvent


def seed_folder(out: str | Path, config: StaircaseConfig) -> Path:
    """Where a seed's stages and report lie."""
    return Path(out) / f"{config.platform}-seed-{config.seed}"


def prepare(out: str | Path, config: StaircaseConfig, on_event: OnEvent | None = None) -> tuple[ChosenTasks, list[Any]]:
    """Tasks and sample rows of a platform, made where they aren't there yet."""
    tasks = choose_tasks(Path(out) / f"tasks-{config.platform}", config.choice, on_event)
    folder = Path(out) / f"episodes-{config.platform}"
    make_episodes(folder, tasks, config.episodes, *config.worlds, on_event=on_event)
    return tasks, read_rows(folder, tasks, config.episodes, *config.worlds)


def run_staircase(out: str | Path, config: StaircaseConfig, on_event: OnEvent | None = None) -> dict[str, Any]:
    """All rows of one seed → its report, which also lies in the seed's folder."""
    import torch

    torch.set_num_threads(config.threads)
    tasks, rows = prepare(out, config, on_event)
    folder = seed_folder(out, config)
    train = Trainings(folder / "stages", config, tasks, rows, on_event)
    evaluation = Evaluation(folder / "evaluations", config, tasks, rows, on_event)

    base = train.base()
    mid = train.mid(base)
    offline = train.offline(mid, config.platform)
    # A specialist that points, from the same mid-trained weights: merging needs a common ancestor.
    pointing = train.offline(mid, "grounding")
    online = train.online(offline)
    stages = {"base": base, "mid": mid, "offline": offline, "online": online}
    # Without a base these would be the base.
    if config.base and config.controls:
        stages["random_weights"] = train.random_weights()
    experts = [pointing, online]
    if config.controls:
        stages["linear"] = train.merged("linear", mid, experts)
    merges = [train.merged("ties", mid, experts, density=density, lam=lam) for density, lam in config.ties]
    stages["ties"] = max(merges, key=evaluation.score) if len(merges) > 1 else merges[0]
    looks = offline.facts["looks"]
    if config.controls:
        # As long as online RL took, so that more time isn't what made the difference.
        stages["more_supervised"] = train.more_supervised(offline, online.seconds)
        stages["more_offline"] = more = train.offline(offline, config.platform, online.seconds)
        looks = joined(looks, more.facts["looks"])

    records = {"random": evaluation.row("random", random_policy())}
    records |= {name: evaluation.row(name, stage) for name, stage in stages.items()}
    # They are written with the records, from which reports of several seeds are made.
    records["online"] = {**records["online"], "reference_steps": online.facts["metrics"]["reference_steps"]}
    put_json(folder / RECORDS, records)
    facts = {
        name: {"seconds": round(stage.seconds, 1), **_brief(stage.facts)}
        for name, stage in {**stages, pointing.name: pointing}.items()
    }
    settings = {
        **config.plain(),
        "base": base.facts.get("weights", "") if config.base else "",
    }  # no folder of a machine
    head = {
        "platform": config.platform,
        "seed": config.seed,
        "config": settings,
        "tasks_digest": tasks.digest,
        "measured": list(tasks.measured),
        "data": counts(rows),
        "stages": facts,
    }
    return write_report(folder, head, {config.seed: records}, looks)


def _brief(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's facts without its curves, which stay in its folder; mid-training's looks are why it stopped."""
    metrics = facts.get("metrics", {})
    own = ("metrics", "timing") if "kept_step" in facts else ("metrics", "timing", "looks")
    plain = {name: value for name, value in facts.items() if name not in own}
    kept = {name: value for name, value in metrics.items() if isinstance(value, int | float | str | None)}
    return {**plain, **({"metrics": kept} if kept else {})}
