"""Trackers of others that follow a run: MLflow and Weights & Biases, each imported where `report_to` names it.

They get what TensorBoard gets (`tracking.scalars_of`), by the events of the run. Both keep what they hear in files,
under `$VESPER_HOME/tracking`, unless their own variables ($MLFLOW_TRACKING_URI, $WANDB_MODE) name a server: nothing
leaves this machine before somebody says so.
"""

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from trainer.runtime.tracking import OnEvent, scalars_of

PACKAGES = {"mlflow": "mlflow-skinny", "wandb": "wandb"}
"""Tracker → the package that brings it."""
PROJECT = "vesper"


class RunTracker(Protocol):
    """What a tracker of others does for a run."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Tag → number at a step."""


def require(report_to: Iterable[str]) -> None:
    """Raises `ValueError` with the line to type, if a tracker that is named isn't installed."""
    for name in report_to:
        if name in PACKAGES and importlib.util.find_spec(name) is None:
            raise ValueError(f"report_to: {name} isn't installed here; pip install {PACKAGES[name]}, or leave it out")


@contextmanager
def reporting(
    report_to: Iterable[str], home: Path, asset: str, version: str, settings: Mapping[str, object], on_event: OnEvent
) -> Iterator[OnEvent]:
    """An `on_event` that passes every event on and tells the trackers what it measures. A run of the same version goes
    on in the trackers' run of before. Raises as `require`."""
    require(report_to)
    folder, last = home / "tracking", 0
    with ExitStack() as stack:
        opened = [
            stack.enter_context(OPENERS[name](folder, asset, version, settings))
            for name in report_to
            if name in OPENERS
        ]

        def event(found: dict[str, Any]) -> None:
            nonlocal last
            # events without a step of their own are of the last one
            last = int(found.get("step", found.get("update", last)))
            values = scalars_of(found) if opened else {}
            for tracker in opened if values else ():
                tracker.log(values, last)
            on_event(found)

        yield event


class _Mlflow:
    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    def log(self, values: Mapping[str, float], step: int) -> None:
        for tag, value in values.items():
            self._client.log_metric(self._run_id, tag, float(value), step=step)


@contextmanager
def _mlflow(folder: Path, asset: str, version: str, settings: Mapping[str, object]) -> Iterator[RunTracker]:
    from mlflow.tracking import MlflowClient

    folder.mkdir(parents=True, exist_ok=True)
    if not os.environ.get("MLFLOW_TRACKING_URI"):
        # MLflow keeps its file store for those who ask; a database would be a second thing to look after
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlruns").as_uri())
    known = client.get_experiment_by_name(PROJECT)
    experiment = known.experiment_id if known is not None else client.create_experiment(PROJECT)
    # by the version, which a run that is resumed has as before
    before = client.search_runs([experiment], f"tags.`vesper.version` = '{version}'", max_results=1)
    if before:
        run_id = before[0].info.run_id
        client.update_run(run_id, status="RUNNING")
    else:
        tags = {"vesper.asset": asset, "vesper.version": version}
        run_id = client.create_run(experiment, run_name=f"{asset}@{version[:8]}", tags=tags).info.run_id
        for name, value in settings.items():
            client.log_param(run_id, name, str(value)[:500])
    ended = "FAILED"
    try:
        yield _Mlflow(client, run_id)
        ended = "FINISHED"
    finally:
        client.set_terminated(run_id, ended)


class _Wandb:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)


@contextmanager
def _wandb(folder: Path, asset: str, version: str, settings: Mapping[str, object]) -> Iterator[RunTracker]:
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=PROJECT,
        name=f"{asset}@{version[:8]}",
        # W&B's own way to go on with a run of that id
        id=version,
        resume="allow",
        dir=str(folder),
        mode=os.environ.get("WANDB_MODE", "offline"),
        config=dict(settings),
    )
    ended = 1
    try:
        yield _Wandb(run)
        ended = 0
    finally:
        run.finish(exit_code=ended)


OPENERS = {"mlflow": _mlflow, "wandb": _wandb}
