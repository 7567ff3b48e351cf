"""Mid-training by TRL's `SFTTrainer`: the same micro-batches and the same loss, run by accelerate.

What comes with it: FSDP2 by accelerate's own configuration (`accelerate launch -m dagster_project.cli
train …`), a fused head that never holds all logits, kernels and trackers of the Hugging Face stack. Rows, their order,
bad rows, packing, loss weights, schedule and validation are those of our own loop (`trainer.midtrain.train`), which
stays the reference: on one process both give the same losses (docs/decisions/engines.md).
"""

import copy
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils import parse_flag_from_env
from datasets import Dataset
from safetensors.torch import load_file, save_file
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import DataLoader, IterableDataset
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl import SFTConfig, SFTTrainer

from pipelines.whole_files import whole_file
from trainer.data.row_sources import RowSource
from trainer.midtrain.global_batch import GlobalBatches, StepBatches, StreamPosition
from trainer.midtrain.loss import validate
from trainer.midtrain.schedule import learning_rate
from trainer.midtrain.train import Curve, labelled, report, run_digest, speed
from trainer.modeling.adapters import only_adapters
from trainer.modeling.batches import Batch, Row
from trainer.modeling.flops import batch_flops, utilisation
from trainer.modeling.kernels import Kernels
from trainer.modeling.model import freeze_vision, recompute
from trainer.modeling.processor import Processor
from trainer.modeling.quantised import quantised
from trainer.modeling.sharding import gather_for_labels
from trainer.runtime.deterministic import deterministic
from trainer.runtime.parallel import Ranks, following, ranks
from trainer.runtime.precision import in_bf16
from trainer.runtime.tracking import OnEvent, Tracker
from trainer.settings.rate_scales import one_rate
from trainer.settings.supervised import MidtrainConfig

STREAM = "stream.json"
"""In a saved state: which rows come next."""
Inputs = dict[str, torch.Tensor]
"""What the model takes, `labels`, and beside them `weights` [B, S] and `tokens` (tokens, samples)."""
ADAPTERS = "adapters.safetensors"
"""In a saved state above 4 bits, whose base stays as it was: what learns."""
FSDP, DEEPSPEED = "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"
"""What accelerate's launcher says to its processes."""
RUN = "run.json"
"""Beside the saved states: the digest of the run that they are of."""


def train(
    model: PreTrainedModel,
    processor: Processor,
    source: RowSource,
    config: MidtrainConfig,
    *,
    state_dir: Path | None = None,
    validation: Sequence[Row] = (),
    on_event: OnEvent | None = None,
    progress: bool = True,
) -> Curve:
    """As `trainer.midtrain.train.train`. Raises `ValueError` for what TRL's loss can't do: coordinates as Gaussians
    (`sigma`), image labels before the last block, and experts balanced over a whole step (`router_aux_loss_coef`; its
    own balances each micro-batch), and weights by perplexity."""
    wanted = {"sigma": (0.0, 0.0), "image_blocks": 0, "router_aux_loss_coef": 0.0}
    if any(getattr(config, name) != value for name, value in wanted.items()):
        found = ", ".join(f"{name} {getattr(config, name)}" for name in wanted)
        raise ValueError(
            f"engine trl: expected sigma [0, 0], image_blocks 0 and router_aux_loss_coef 0, found {found}: its loss is "
            "plain cross entropy after the last block (engine own has all three)"
        )
    one_rate(config.learning_rate_scales)
    if config.perplexity.power:
        raise ValueError(
            f"engine trl: expected perplexity.power 0, found {config.perplexity.power}: what TRL divides a loss by is "
            "known before the losses are (engine own has it)"
        )
    group = ranks()
    digest = run_digest(model, source, config) if group.first else ""
    digest, state_dir = following(group, (digest, state_dir))
    if not group.first:  # a model without weights: DDP sends the first rank's
        model.to_empty(device="cpu").tie_weights()
    if group.world > 1:  # what no checkpoint holds, such as rotary tables; FSDP leaves them as they are
        buffers = group.broadcast({name: one.cpu() for name, one in model.named_buffers()} if group.first else None)
        for name, one in model.named_buffers():
            one.copy_(buffers[name])
    device = torch.device(group.device) if group.world > 1 else next(model.parameters()).device
    folder = state_dir / "trl" if state_dir is not None else None
    freeze_vision(model, config.freeze_vision, keep=False)
    only_adapters(model)
    arguments = _arguments(config, device, folder, progress)
    given, in_parts = model, group.world > 1 and bool(arguments.fsdp or parse_flag_from_env(FSDP))
    # FSDP and DeepSpeed take a model apart in place: the first rank keeps the one that was given, for what was learned
    if (in_parts or (group.world > 1 and arguments.deepspeed_plugin)) and group.first:
        model = copy.deepcopy(given)
    begin = _saved(folder, digest, in_parts)
    with deterministic(device, config.threads), Tracker(state_dir if group.first else None, begin.step) as tracker:
        run = _Follow(model, processor, config, validation, begin, tracker, on_event)
        trainer = StreamTrainer(
            model=model,
            args=arguments,
            processing_class=processor.tokenizer,
            # SFTTrainer wants a dataset: step numbers stand for the rows, which come from our own stream
            train_dataset=Dataset.from_dict({"step": list(range(config.max_steps))}),
            callbacks=[run],
        )
        # it prints each step's figures; the bar and the tracker show them already
        trainer.remove_callback(PrinterCallback)
        trainer.follow(run, source, labelled(model, processor, config))
        if folder is not None and trainer.is_world_process_zero():
            folder.mkdir(parents=True, exist_ok=True)
            # before the first state: one without a digest beside it is never gone on from
            (folder / RUN).write_text(json.dumps(digest), encoding="utf-8")
        with Kernels(model, config.attention).used():
            trainer.train(resume_from_checkpoint=str(begin.folder) if begin.folder else None)
    _put_back(trainer, given)
    if on_event is not None:  # on every rank
        on_event({"kind": "trained", "step": len(run.curve.steps)})
    return run.curve


def _put_back(trainer: "StreamTrainer", model: PreTrainedModel) -> None:
    """The trained weights in the model that was given, which is as it was otherwise, and in eval mode."""
    if trainer.accelerator.num_processes > 1:
        state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        if trainer.is_world_process_zero():
            model.load_state_dict(state)
    vars(model).pop("forward", None)  # that of the fused head
    recompute(model, False)
    freeze_vision(model, False)
    model.eval()


def _arguments(config: MidtrainConfig, device: torch.device, folder: Path | None, progress: bool) -> SFTConfig:
    """TRL's arguments. Raises `ValueError` for unknown ones, or ours to set, `ImportError` without DeepSpeed."""
    ours: dict[str, Any] = {
        "output_dir": str(folder or tempfile.gettempdir()),  # without a folder nothing is saved
        "max_steps": config.max_steps,
        "per_device_train_batch_size": 1,  # of micro-batches that are made already
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        "learning_rate": config.learning_rate,
        "adam_beta1": config.betas[0],
        "adam_beta2": config.betas[1],
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "bf16": in_bf16(config.bf16, device.type),
        "gradient_checkpointing": config.gradient_checkpointing,
        "torch_compile": config.compile,
        "router_aux_loss_coef": 0.0,  # else that of the model's configuration
        "use_cpu": device.type == "cpu",
        "seed": config.seed,
        "logging_steps": 1,
        "save_strategy": "no" if folder is None else "steps",
        "save_steps": config.save_steps,
        "save_total_limit": 1,
        "ignore_data_skip": True,  # the stream begins at the saved place
        "report_to": [],  # `Tracker` follows every engine alike
        "disable_tqdm": not progress,
        # sequences are cut and packed already
        "max_length": None,
        "dataset_kwargs": {"skip_prepare_dataset": True},
    }
    if (config.trl.get("deepspeed") or parse_flag_from_env(DEEPSPEED)) and find_spec("deepspeed") is None:
        raise ImportError("midtrain.trl: deepspeed: expected the package, found none here; pip install deepspeed")
    try:
        return SFTConfig(**ours, **config.trl)
    except TypeError as error:
        raise ValueError(f"midtrain.trl: {str(error).rpartition('.')[2]}; other settings say it") from error


class _Begin:
    """Where a run begins: at a saved state, or at the start."""

    def __init__(self, folder: Path | None = None) -> None:
        plain = json.loads((folder / STREAM).read_text(encoding="utf-8")) if folder else {}
        self.folder = folder
        self.place = StreamPosition(plain.get("position", 0), plain.get("taken", 0))
        self.curve = Curve(**plain.get("curve", {}))

    @property
    def step(self) -> int:
        """Steps that are done."""
        return len(self.curve.steps)


def _saved(folder: Path | None, digest: str, in_parts: bool) -> _Begin:
    """The last whole state of this very run. Raises `ValueError` where FSDP saved it and isn't used, or vice versa."""
    kept = folder / RUN if folder is not None else None
    if kept is None or not kept.is_file() or json.loads(kept.read_text(encoding="utf-8")) != digest:
        return _Begin()
    # `on_save` writes the stream's place last, so a state without it was killed half-way
    states = [path.parent for path in kept.parent.glob(f"checkpoint-*/{STREAM}")]
    last = max(states, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
    # transformers tells the one case without a remedy, and fails in the other with a missing file
    if last is not None and (last / "pytorch_model_fsdp_0").is_dir() != in_parts:
        saved, now = ("by FSDP", "without") if not in_parts else ("without FSDP", "by it")
        raise ValueError(
            f"engine trl: the state {last} was saved {saved}, and this run trains {now}: go on as it began, or remove "
            f"{folder} to begin anew"
        )
    return _Begin(last)


class _Follow(TrainerCallback):  # type: ignore[misc]  # which has no types
    """Keeps the curve, tells of each step, validates, and notes with every saved state which rows come next."""

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Processor,
        config: MidtrainConfig,
        validation: Sequence[Row],
        begin: _Begin,
        tracker: Tracker,
        on_event: OnEvent | None,
    ) -> None:
        self.config, self.begin, self.curve = config, begin, begin.curve
        self._model, self._processor, self._validation = model, processor, validation
        self._tracker, self._on_event = tracker, on_event
        self._bad_before, self._torn = begin.curve.bad_rows, 0
        self._tokens = sum(step["tokens"] for step in begin.curve.steps)
        self._sums, self._place, self._began = [0.0] * 5, begin.place, 0.0

    def reads(self, step: StepBatches) -> None:
        """A step's rows were read."""
        frozen = self.config.freeze_vision
        flops = sum(batch_flops(self._model.config, one, frozen_tower=frozen) for one in step.batches if one.samples)
        self._place, self._sums, self._began = step.after, [0, 0, 0, step.torn, flops], time.perf_counter()

    def add(self, loss: torch.Tensor, counts: torch.Tensor) -> None:
        """A micro-batch's part of the loss, and its tokens and samples."""
        for place, value in enumerate((loss.item(), *counts.tolist())):
            self._sums[place] += value

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: object
    ) -> None:
        """What training is held against."""
        if isinstance(self._model, FSDPModule):
            gather_for_labels(self._model)
        if self._validation and not self.curve.steps:
            self._validate(args, 0)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **given: object,
    ) -> None:
        """A step is done."""
        # the trainer logs other things by this hook, too
        if logs is None or "loss" not in logs:
            return
        loss, tokens, samples, torn, flops = _ranks(args).sums(self._sums)
        self._torn += int(torn)
        row = {
            "step": state.global_step,
            "loss": loss,
            # the schedule counts from 0, the trainer steps that are done
            "learning_rate": learning_rate(state.global_step - 1, self.config),
            "tokens": int(tokens),
            "samples": int(samples),
            "grad_norm": float(logs["grad_norm"]),
        }
        self.curve.steps.append(row)
        self.curve.bad_rows = self._bad_before + self._place.bad + self._torn
        seconds = time.perf_counter() - self._began
        self._tokens += int(tokens)
        done = {"num_tokens": self._tokens, "bad_rows": self.curve.bad_rows, "steps": self.config.max_steps}
        pace = speed(row, seconds) | utilisation(flops, seconds, args.device, _ranks(args).world)
        self._report(args, {"kind": "step", **row, **pace, **done})
        every = self.config.eval_steps
        if self._validation and (row["step"] == self.config.max_steps or (every and row["step"] % every == 0)):
            self._validate(args, state.global_step)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """A saved state is whole."""
        if args.process_index:
            return
        plain = {"position": self._place.position, "taken": self._place.taken, "curve": self.curve.plain()}
        with whole_file(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / STREAM) as part:
            part.write_text(json.dumps(plain), encoding="utf-8")

    def _validate(self, args: TrainingArguments, step: int) -> None:
        scores = validate(self._model, self._processor, self._validation, self.config.spans, group=_ranks(args))
        self.curve.validation.append({"step": step, **scores})
        self._report(args, {"kind": "validation", "step": step, "loss": scores})

    def _report(self, args: TrainingArguments, event: dict[str, Any]) -> None:
        report(event, _ranks(args), self._tracker, self._on_event)


def _ranks(args: TrainingArguments) -> Ranks:
    return Ranks(args.process_index, args.world_size, str(args.device))


class StreamTrainer(SFTTrainer):  # type: ignore[misc]  # as above
    """TRL's trainer on the micro-batches of `GlobalBatches`, its loss weighted by token."""

    def follow(self, run: _Follow, source: RowSource, processor: Processor) -> None:
        """What it trains on, and who hears of it."""
        self._run, self._source, self._rows_as = run, source, processor
        self.model_accepts_loss_kwargs = True  # the loss is a part of the step's already: it isn't averaged once more

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        if not quantised(self.model):
            return super()._save(output_dir, state_dict)  # type: ignore[no-any-return]
        trained = cast(torch.nn.Module, self.model)
        learned = {name: part.data for name, part in trained.named_parameters() if part.requires_grad}
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(learned, folder / ADAPTERS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        if not quantised(self.model):
            return super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[no-any-return]
        learned = load_file(Path(resume_from_checkpoint) / ADAPTERS)
        cast(torch.nn.Module, self.model).load_state_dict(learned, strict=False)

    def get_train_dataloader(self) -> DataLoader[Inputs]:
        """The micro-batches of this process, in order; every rank takes its share of each global batch."""
        place = self._run.begin.place
        stream = GlobalBatches(self._source, self._rows_as, self._run.config, _ranks(self.args), place)
        return DataLoader(_MicroBatches(stream, self._run), batch_size=None)

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Our schedule, whatever the name of theirs."""
        config = self._run.config
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            cast(torch.optim.Optimizer, optimizer or self.optimizer),
            # LambdaLR asks for a factor of the base rate
            lambda step: learning_rate(step, config) / config.learning_rate,
        )
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def get_batch_samples(
        self, epoch_iterator: Iterator[Inputs], num_batches: int, device: torch.device
    ) -> tuple[list[Inputs], torch.Tensor]:
        """A step's micro-batches, and the weight of all of its tokens on all ranks, by which the loss is divided."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        weight = sum(batch["weights"].sum(dtype=torch.float64) for batch in batches)
        # over all ranks before any loss is taken: the loss of a step is one mean
        whole = self.accelerator.gather(torch.as_tensor(weight, device=device).float()).sum()
        if not whole > 0:
            raise ValueError("mid-training: a batch has no answer token with a weight above 0")
        return batches, whole

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Inputs,
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Σ w · ℓ / Σ w over the whole step; of this micro-batch its part."""
        weights, tokens = inputs.pop("weights"), inputs.pop("tokens")
        found = model(**inputs, use_cache=False, fused_lm_head=True)
        loss = -(found.log_probs.float() * weights[:, 1:]).sum() / num_items_in_batch
        self._run.add(loss, tokens)
        return loss * self.accelerator.num_processes  # whose mean DDP takes


class _MicroBatches(IterableDataset[Inputs]):
    """Micro-batches without end, as the trainer's inputs."""

    def __init__(self, stream: GlobalBatches, run: _Follow) -> None:
        self._stream, self._run = stream, run

    def __iter__(self) -> Iterator[Inputs]:
        while True:
            step = self._stream.next()
            self._run.reads(step)
            for batch in step.batches:
                yield _inputs(batch)


def _inputs(batch: Batch) -> Inputs:
    tokens = torch.tensor([batch.tokens, batch.samples], dtype=torch.float64)
    return {**batch.model_inputs(), "labels": batch.labels, "weights": batch.weights, "tokens": tokens}
