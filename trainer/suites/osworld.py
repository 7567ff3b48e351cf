"""The suite `osworld`: task files in OSWorld's form, out of a folder, played on sealed desktops of this machine.

`success` counts the episodes whose score is whole, `score` is the mean of the scores, which OSWorld itself reports.
Tasks that can't be played here are in neither: `not_played` counts them by reason, so that both figures are read as
those of the tasks that were.
"""

from functools import partial
from pathlib import Path
from typing import Any

from generators.execution.device_pool import LocalPool
from generators.worlds.osworld.osworld_tasks import read_folder
from generators.worlds.registry import open_world
from schemas.ids import digest
from trainer.runtime.tracking import OnEvent
from trainer.statistics import crossed_interval
from trainer.suites.options import SuiteOptions
from trainer.suites.worlds import world_success


def osworld_success(
    policy: Any, options: SuiteOptions, folder: Path | None, on_event: OnEvent | None = None
) -> dict[str, Any]:
    """Play the tasks of `options.raw` → a suite's report. `folder` keeps what has ended, so that a run goes on.

    Raises `ValueError` without a folder of task files, or where none of its tasks can be played here.
    """
    if options.raw is None or not options.raw.is_dir():
        raise ValueError(
            "suite osworld: expected a folder of task files in OSWorld's form (--raw: its evaluation_examples, with "
            f"the files that tasks name below file_cache), found {options.raw or 'none'}"
        )
    found = read_folder(options.raw, options.only)
    left_out = found.report()
    if not found.playable:
        reasons = ", ".join(f"{kind} {count}" for kind, count in found.by_kind().items())
        raise ValueError(f"suite osworld: none of {len(found.unplayed)} tasks can be played here ({reasons})")
    # some of them are a mixture of all domains, whichever way the folder lists them
    chosen = sorted(found.playable, key=lambda contract: digest(contract.task_id))[: options.limit]
    report = world_success(
        policy,
        chosen,
        LocalPool({"osworld": partial(open_world, "osworld", folder=options.raw)}, options.workers),
        seeds=(options.seed,),
        attempts=options.attempts,
        temperature=options.temperature,
        workers=options.workers,
        folder=folder,
        max_new_tokens=options.max_new_tokens,
        batched=False,  # an episode's end state, which holds its score, is in no batched one's record
        on_event=on_event,
    )
    records, summary = report["records"], report["summary"]
    counted = [record for record in records if record["success"] is not None]
    values, clusters = [record["score"] for record in counted], [record["cluster"] for record in counted]
    score = crossed_interval(values, clusters, [str(record["run"]) for record in counted]).plain()
    figures = {"headline": summary["success"], "headline_of": "success", "score": score}
    return {**report, "policy": records[0]["policy"], "summary": {**figures, **summary, "not_played": left_out}}
