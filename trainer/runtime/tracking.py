"""Metrics of a run as TensorBoard events, by the names of TRL and the Transformers Trainer.

    tensorboard --logdir <state_dir>/runs

Events hold wall time, so they lie beside the resumable state and enter no hash; a stage that ends well keeps them as
side files of its asset (`kept`). A resumed run goes on where it was; steps that are done again replace what was
written of them. Mid-training writes through a `Tracker` of its own; for RL a `Watch` reads the events of its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

FOLDER = "runs"
NAMES = {
    "loss": "train/loss",
    "aux_loss": "train/aux_loss",
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/learning_rate",
    "num_tokens": "train/num_tokens",
    "tokens_per_s": "train/tokens_per_second",
    "samples_per_s": "train/samples_per_second",
    "tflops": "train/tflops_per_second",
    "mfu": "train/mfu",
    "fill": "train/packing_fill",
    "bad_rows": "train/bad_rows",
}
"""Key of a step's event → tag."""
RL_NAMES = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/learning_rate",
    "reward": "train/reward",
    "reward_std": "train/reward_std",
    "success": "train/success",
    "kl": "train/kl",
    "entropy": "train/entropy",
    "clip_low": "train/clip_ratio/low_mean",
    "clip_high": "train/clip_ratio/high_mean",
    "reply_tokens": "train/completions/mean_length",
    "unfinished": "train/completions/clipped_ratio",
    "unparsable": "train/completions/unparsable_ratio",
    "unreadable_share": "train/completions/unreadable_share",
    "steps": "train/episode_steps",
    "rollouts": "train/rollouts",
    "lost": "train/lost_rollouts",
    "replayed": "train/replayed_rollouts",
    "judged": "train/judged_rollouts",
    "staleness": "train/staleness",
    "sampling_logp_difference_mean": "train/sampling/sampling_logp_difference/mean",
    "sampling_logp_difference_max": "train/sampling/sampling_logp_difference/max",
}
"""Key of an update's event → tag; TRL's where it has one. Terms of the reward (`rewards/…`) keep their key."""
LOOKS = ("look", "validation")
"""Kinds of events that measure on what is kept for it."""
OF_A_LOOK = ("reward", "greedy_reward", "success", "step_success", "trace_success", "sop", "unreadable_share")
SHOWN = ("reward", "success", "loss", "kl")
"""What a bar of RL shows of the last update."""

OnEvent = Callable[[dict[str, Any]], None]
"""Gets what happens in a run: a plain dict with its `kind`."""


class Tracker:
    """Writes the events of a run that resumes at `step` (−1: from before step 0) into `<state_dir>/runs`.

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
        # also of a run that begins: one that was killed before its first save may have left events
        self._writer = SummaryWriter(str(state_dir / FOLDER), purge_step=step + 1)

    def event(self, event: Mapping[str, Any]) -> None:
        """A `step` or `validation` event, as `on_event` gets it; others are passed over."""
        if event["kind"] in ("step", "validation"):
            self.scalars(scalars_of(event), event["step"], flush=event["kind"] == "validation")

    def scalars(self, values: Mapping[str, float], step: int, *, flush: bool = False) -> None:
        """Tag → number at a step. With `flush` they are on the disk when this returns."""
        if self._writer is None:
            return
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, step)
        if flush:
            self._writer.flush()

    def close(self) -> None:
        """All is on the disk when this returns."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Watch:
    """An `on_event` for a loop of RL, offline or online: passes every event on to the one given, and makes of them
    scalars in `<state_dir>/runs` and, with `progress`, a bar named `label` on stderr. Use it with `with`."""

    def __init__(self, state_dir: Path | None, on_event: OnEvent, *, progress: bool = False, label: str = "RL") -> None:
        self._state_dir, self._on_event, self._progress, self._label = state_dir, on_event, progress, label
        self._tracker: Tracker | None = None
        self._bar: Any = None
        self._update = 0
        self._resumed = False
        self._before: Mapping[str, Any] | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        self._show(event)
        self._track(event)
        self._on_event(event)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in (self._tracker, self._bar):
            if opened is not None:
                opened.close()

    def _track(self, event: Mapping[str, Any]) -> None:
        kind = event["kind"]
        if kind == "resumed":
            # opened later, so that events behind the resumed step are purged
            self._resumed, self._update = True, event["update"]
        elif kind == "held_out" and event["when"] == "before":
            self._before = event  # whether the run goes on from an update is only known after this
        elif kind == "held_out":
            self._writer().scalars(scalars_of(event), self._update, flush=True)
        elif kind in LOOKS:
            self._writer().scalars(scalars_of(event), event["update"], flush=True)
        elif kind == "update":
            self._writer().scalars(scalars_of(event), event["update"])
            self._update = event["update"]

    def _writer(self) -> Tracker:
        """Opened by the first scalar, when it is known where the run begins."""
        if self._tracker is None:
            self._tracker = Tracker(self._state_dir, self._update if self._resumed else -1)
            if self._before is not None and not self._resumed:
                self._tracker.scalars(scalars_of(self._before), 0)
        return self._tracker

    def _show(self, event: Mapping[str, object]) -> None:
        kind = event["kind"]
        if kind == "start" and self._progress:
            from tqdm import tqdm

            self._bar = tqdm(total=event["updates"], desc=self._label, unit="update", mininterval=2)
        elif self._bar is not None and kind in ("resumed", "update"):
            # a run that resumes begins where it was, not at 0
            self._bar.update(event["update"] - self._bar.n)
            self._bar.set_postfix_str(", ".join(f"{key} {event[key]:.3f}" for key in SHOWN if key in event))


def step_bar(label: str, steps: int, done: int, shown: bool) -> tqdm[Any]:
    """The progress bar of a training loop that may go on from a step that is done; moves at most every two seconds."""
    from tqdm import tqdm

    return tqdm(total=steps, initial=done, desc=label, unit="step", mininterval=2, disable=not shown)


def kept(state_dir: Path) -> list[Path]:
    """The event files of a run that has ended, of all its attempts, sorted."""
    return sorted(path for path in (state_dir / FOLDER).glob("events.*") if path.is_file())


def scalars_of(event: Mapping[str, Any]) -> dict[str, float]:
    """What an event measures: tag → number, of a step, an update or a look; {} of any other. None is left out."""
    kind, found = event.get("kind"), dict[str, Any]()
    if kind == "step":
        found = {tag: event.get(key) for key, tag in NAMES.items()}
    elif kind == "update":
        found = {tag: event.get(key) for key, tag in RL_NAMES.items()}
        found |= {f"train/{key}": value for key, value in event.items() if key.startswith("rewards/")}
        if event.get("groups"):
            found["train/frac_reward_zero_std"] = event["zero_variance"] / event["groups"]
    elif kind in (*LOOKS, "held_out"):
        place = "eval" if kind in LOOKS else "held_out"
        found = {f"{place}/{key}": event.get(key) for key in OF_A_LOOK}
        found |= {f"eval/{objective}_loss": loss for objective, loss in event.get("loss", {}).items()}
    return {tag: value for tag, value in found.items() if value is not None}
