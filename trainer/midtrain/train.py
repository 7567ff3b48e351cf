"""Mid-training: supervised next-token loss on the answers of the mixture.

Loss of a step = Σ w_t · ℓ_t / Σ w_t over the answer tokens of all micro-batches and all ranks, w from `SpanWeights`, ℓ
from `trainer.midtrain.loss`: the gradient is the same however a batch is split. The width of coordinate targets shrinks
during training from `sigma[0]` to `sigma[1]` units.

Deterministic on CPU for a fixed thread count: rows are a pure function of (source, position), weights of (rows,
config, start). Exactly resumable: model, optimiser, position and RNG are saved every `save_steps` steps, whole or not
at all. Wall time reaches `on_event` and the tracker only, never a file that is hashed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from schemas.ids import canonical_json
from trainer.data.image_labels import LabelledImages
from trainer.data.row_sources import RowSource
from trainer.midtrain.global_batch import GlobalBatches, StepBatches, StreamPosition, ahead
from trainer.midtrain.loss import validate
from trainer.midtrain.step import OptimiserSteps
from trainer.modeling.adapters import only_adapters
from trainer.modeling.batches import Row
from trainer.modeling.flops import utilisation
from trainer.modeling.kernels import Kernels
from trainer.modeling.model import freeze_vision, recompute
from trainer.modeling.processor import Processor
from trainer.modeling.sharding import gather_into, sharded
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import Ranks, following, ranks
from trainer.runtime.precision import in_bf16
from trainer.runtime.rates import adamw
from trainer.runtime.tracking import OnEvent, Tracker, step_bar
from trainer.runtime.training_state import TrainingState
from trainer.settings.supervised import MidtrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class Curve:
    """What training left to look at: a row per step, a row per validation, rows that could not be used."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)
    bad_rows: int = 0

    def plain(self) -> dict[str, Any]:
        """JSON-able, without wall time."""
        return {"steps": self.steps, "validation": self.validation, "bad_rows": self.bad_rows}


def train(
    model: Any,
    processor: Processor,
    source: RowSource,
    config: MidtrainConfig,
    *,
    state_dir: Path | None = None,
    validation: Sequence[Row] = (),
    on_event: OnEvent | None = None,
    progress: bool = True,
) -> Curve:
    """Train in place for `config.max_steps` steps; returns the curve.

    With `state_dir` training resumes from what lies there, if it is of the same model, config and data, and gives
    the same weights as an uninterrupted run; TensorBoard events go into its folder `runs`. Rows that can't become a
    sequence are counted and passed over; raises `BadSample` if a whole batch' worth in a row is bad. In a process
    group (`trainer.runtime.parallel`) every rank calls this with the same arguments; the first one's model gets the
    weights, and only it writes, reports and returns a whole curve.
    """
    group = ranks()
    # models of other ranks are hollow: only the first has weights to hash
    digest = run_digest(model, source, config) if group.first and state_dir is not None else ""
    digest, state_dir = following(group, (digest, state_dir))
    answers = processor  # validation is of answers alone, whatever image tokens are asked for
    processor = labelled(model, processor, config)
    plain, model = model, _readied(model, source, config, group)
    optimiser = adamw(
        model, config.learning_rate, config.learning_rate_scales, betas=config.betas, weight_decay=config.weight_decay
    )
    state = TrainingState(state_dir, digest, group, config.async_save)
    step, curve, place = _resumed(state.load(model, optimiser) or {})
    num_tokens = sum(row["tokens"] for row in curve.steps)
    run = OptimiserSteps(model, processor, optimiser, config, group, bad_before=curve.bad_rows)
    # the stream counts bad rows from here on; those before are in the curve
    stream = GlobalBatches(source, processor, config, group, place, plain.seen_pictures)
    with (
        deterministic(run.device, config.threads),
        Kernels(model, config.attention, config.compile, narrow=True).used(),
        step_bar("mid-training", config.max_steps, step, shown=progress and group.first) as bar,
        Tracker(state_dir if group.first else None, step) as tracker,
        state.saves,
    ):

        def validate_now() -> None:
            scores = validate(model, answers, validation, config.spans, group=group)
            curve.validation.append({"step": step, **scores})
            report({"kind": "validation", "step": step, "loss": scores}, group, tracker, on_event)

        if validation and step == 0:  # what training is held against
            validate_now()
        model.train()
        steps = _steps(stream, config.max_steps - step, run.device)
        while step < config.max_steps:
            began = time.perf_counter()
            given = next(steps)
            waited = time.perf_counter() - began
            figures = run.step(given, step)
            seconds = time.perf_counter() - began
            flops = figures.pop("flops")
            step += 1
            curve.steps.append(figures)
            curve.bad_rows = run.bad_rows(given)
            num_tokens += figures["tokens"]
            event = {"kind": "step", **figures, **speed(figures, seconds), "data_seconds": waited}
            event |= utilisation(flops, seconds, run.device, group.world)
            event |= {"steps": config.max_steps, "num_tokens": num_tokens, "bad_rows": curve.bad_rows}
            if config.packing:
                event["fill"] = stream.fill
            report(event, group, tracker, on_event)
            bar.update()
            bar.set_postfix_str(f"loss {figures['loss']:.3f}, {event['tokens_per_s']:,.0f} tokens/s")
            last = step == config.max_steps
            if validation and (last or (config.eval_steps and step % config.eval_steps == 0)):
                validate_now()
            if last or step % config.save_steps == 0:
                # where the stream stood after this step, not where the thread that reads ahead is
                state.save(model, optimiser, _progress(step, curve, given.after))
            state.saves.check()
    _put_back(plain, model, group)
    if on_event is not None:  # on every rank
        on_event({"kind": "trained", "step": step})
    return curve


def _progress(step: int, curve: Curve, place: StreamPosition) -> dict[str, Any]:
    """What is saved beside model and optimiser; `_resumed` reads it."""
    return {"step": step, "position": place.position, "taken": place.taken, "curve": curve.plain()}


def _resumed(saved: Mapping[str, Any]) -> tuple[int, Curve, StreamPosition]:
    """Where a run stands; at its start where nothing was saved."""
    place = StreamPosition(saved.get("position", 0), saved.get("taken", 0))
    return int(saved.get("step", 0)), Curve(**saved.get("curve", {})), place


def _readied(model: Any, source: RowSource, config: MidtrainConfig, group: Ranks) -> Any:
    """The model as it trains: its tower frozen if it is to be, in parts on several ranks."""
    # features of pictures that never come twice aren't worth their memory
    again = getattr(source, "pictures_come_again", True)
    device = next(model.parameters()).device.type
    freeze_vision(model, config.freeze_vision, keep=again and group.world == 1, bf16=in_bf16(config.bf16, device))
    only_adapters(model)
    trained = sharded(model, group, config.bf16) if group.world > 1 else model
    recompute(trained, config.gradient_checkpointing)
    return trained


def _put_back(plain: Any, trained: Any, group: Ranks) -> None:
    """The trained weights in the plain model of the first rank, which is as it was otherwise, and in eval mode."""
    recompute(trained, False)
    freeze_vision(plain, False)
    if group.world > 1:
        gather_into(plain, trained, group)
    plain.eval()


def labelled(model: PreTrainedModel, processor: Processor, config: MidtrainConfig) -> Processor:
    """The processor of training rows: with labels of image tokens, if they are asked for. Raises `ValueError` where
    model or preset can't do what the config asks."""
    if not 0 <= config.image_blocks <= len(model.model.language_model.layers):
        raise ValueError(
            f"mid-training: image_blocks: expected 0 to {len(model.model.language_model.layers)}, the "
            f"decoder's blocks, found {config.image_blocks}"
        )
    if not config.image_labels:
        return processor
    return LabelledImages.of(processor, targets=True)


def speed(figures: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Seconds of a step of the curve, and its tokens and samples a second."""
    return {
        "seconds": seconds,
        "tokens_per_s": figures["tokens"] / seconds,
        "samples_per_s": figures["samples"] / seconds,
    }


def report(event: dict[str, object], group: Ranks, tracker: Tracker, on_event: OnEvent | None) -> None:
    if group.first:
        tracker.event(event)
        if on_event is not None:
            on_event(event)


def _steps(stream: GlobalBatches, count: int, device: torch.device) -> Iterator[StepBatches]:
    """A GPU's batches are figures by a thread while it computes; a CPU has no core to spare for one."""
    if device.type != "cpu":
        yield from ahead(stream, count, device)
        return
    for _ in range(count):
        yield stream.next()


def run_digest(model: PreTrainedModel, source: RowSource, config: MidtrainConfig) -> str:
    """Of the starting weights, the data order and the config: what a saved state must agree with."""
    import hashlib

    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        weights.update(name.encode())
        # as float32: numpy has no bf16, and that holds its every value
        weights.update(tensor.detach().float().cpu().numpy().tobytes())
    # how often a state is saved changes nothing that is learned
    rest = {name: value for name, value in config.run_part().items() if name != "save_steps"}
    weights.update(canonical_json([source.digest(), rest]).encode())
    return weights.hexdigest()
