"""Metrics of a run as TensorBoard events, by the names of TRL and the Transformers Trainer.

    tensorboard --logdir <state_dir>/runs

Events hold wall time, so they lie beside the resumable state and are never part of an asset. A resumed run goes on
where it was; steps that are done again replace what was written of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

FOLDER = "runs"
NAMES = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "lr": "train/learning_rate",
    "num_tokens": "train/num_tokens",
    "tokens_per_s": "train/tokens_per_second",
    "samples_per_s": "train/samples_per_second",
    "fill": "train/packing_fill",
    "bad_rows": "train/bad_rows",
}
"""Key of a step's event → tag."""


class Tracker:
    """Writes the events of a run that resumes at `step` into `<state_dir>/runs`.

    Without a folder, or where the package `tensorboard` is not installed, nothing is written.
    """

    def __init__(self, state_dir: Path | None, step: int = 0) -> None:
        self._writer: Any = None
        if state_dir is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(state_dir / FOLDER), purge_step=step + 1 if step else None)

    def event(self, event: Mapping[str, Any]) -> None:
        """A `step` or `validation` event, as `on_event` gets it; others are passed over."""
        if self._writer is None:
            return
        if event["kind"] == "step":
            for key, tag in NAMES.items():
                if key in event:
                    self._writer.add_scalar(tag, event[key], event["step"])
        elif event["kind"] == "validation":
            for objective, loss in event["loss"].items():
                self._writer.add_scalar(f"eval/{objective}_loss", loss, event["step"])
            self._writer.flush()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
