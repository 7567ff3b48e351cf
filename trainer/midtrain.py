"""Mid-training: supervised next-token loss on the answers of the mixture.

Loss of a batch = Σ w_t · ℓ_t / Σ w_t over answer tokens, w from `SpanWeights`. ℓ is cross entropy; for a coordinate
it is cross entropy against a Gaussian over the number tokens around the true one, whose width shrinks during
training from `sigma[0]` to `sigma[1]` units: coarse cells first, and 499 is no total miss of 500.

Deterministic on CPU for a fixed thread count: rows are a pure function of (source, position), weights of (rows,
config, start). Exactly resumable: model, optimiser and position are saved every `save_every` steps, whole or not at
all. Wall time reaches `on_event` only, never a file that is hashed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from trainer.batches import BadSample, Batch, Processor, Row, SpanWeights
from trainer.model import label_logits
from trainer.tokenizer import LAST_NUMBER

OnEvent = Callable[[dict[str, Any]], None]


class RowSource(Protocol):
    """Endless rows in an order that is a pure function of the position, and a name for that order."""

    def rows(self, start: int) -> Iterator[Row | None]:
        """Rows from global position `start` on, without end; None is a position that is passed over."""

    def digest(self) -> str:
        """Changes whenever the order or the content does."""


@dataclass(frozen=True, slots=True)
class MidtrainConfig:
    """All that decides the weights, beside data and starting point. `lr` peaks after `warmup` steps."""

    steps: int = 400
    batch_size: int = 32
    lr: float = 2e-3
    warmup: int = 20
    final_lr_share: float = 0.05
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    clip: float = 1.0
    sigma: tuple[float, float] = (60.0, 12.0)
    """Width of coordinate targets in units of 0..1000, first and last step; (0, 0) is plain cross entropy."""
    seed: int = 0
    threads: int = 2
    spans: SpanWeights = field(default_factory=SpanWeights)
    save_every: int = 50
    validate_every: int = 100
    """0 validates after the last step only."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_size < 1 or not 0 <= self.warmup <= self.steps:
            raise ValueError(f"MidtrainConfig: expected steps, batch_size >= 1 and 0 <= warmup <= steps, found "
                             f"{self.steps}, {self.batch_size}, {self.warmup}")  # fmt: skip
        if self.lr <= 0 or min(self.sigma) < 0 or self.save_every < 1:
            raise ValueError("MidtrainConfig: expected lr > 0, sigma >= 0 and save_every >= 1")


@dataclass
class Curve:
    """What training left to look at: a row per step, a row per validation, rows that could not be used."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)
    bad_rows: int = 0

    def plain(self) -> dict[str, Any]:
        """JSON-able, without wall time."""
        return {"steps": self.steps, "validation": self.validation, "bad_rows": self.bad_rows}


class ListSource:
    """Rows of a list, shuffled anew each epoch by (seed, epoch)."""

    def __init__(self, rows: Sequence[Row], seed: int = 0) -> None:
        if not rows:
            raise ValueError("ListSource: expected rows, found none")
        self._rows, self._seed = rows, seed

    def rows(self, start: int) -> Iterator[Row | None]:
        """See `RowSource`."""
        epoch, offset = divmod(start, len(self._rows))
        while True:
            source = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(len(self._rows), generator=source).tolist()
            yield from (self._rows[i] for i in order[offset:])
            epoch, offset = epoch + 1, 0

    def digest(self) -> str:
        """See `RowSource`."""
        from schemas.ids import digest

        return digest([self._seed, [str(row.get("sample_id", i)) for i, row in enumerate(self._rows)]])


def learning_rate(step: int, config: MidtrainConfig) -> float:
    """Linear warm-up, then a cosine to `final_lr_share` of the peak at the last step."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    progress = (step - config.warmup) / max(1, config.steps - 1 - config.warmup)
    low = config.final_lr_share
    return config.lr * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def sigma_at(step: int, config: MidtrainConfig) -> float:
    """Width of coordinate targets at a step: geometric from first to last."""
    first, last = config.sigma
    if first <= 0 or last <= 0:
        return 0.0
    return first * (last / first) ** (step / max(1, config.steps - 1))


def token_losses(
    model: Any, processor: Processor, batch: Batch, sigma: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss, weight, row) of each labelled token, in order; see the module docstring for coordinates."""
    found = label_logits(model, batch)
    log_p = torch.log_softmax(found.logits.float(), dim=-1)
    losses = -log_p.gather(1, found.labels[:, None])[:, 0]
    if sigma > 0 and processor.numbers is not None:
        places = batch.coordinate[found.rows, found.columns].nonzero(as_tuple=True)[0]
        if len(places):
            first = processor.numbers.first
            truth = (found.labels[places] - first).float()
            units = torch.arange(LAST_NUMBER + 1, device=truth.device, dtype=truth.dtype)
            target = torch.softmax(-((units[None] - truth[:, None]) ** 2) / (2 * sigma**2), dim=-1)
            soft = -(target * log_p[places, first : first + LAST_NUMBER + 1]).sum(-1)
            losses = losses.index_copy(0, places, soft)
    return losses, batch.weights[found.rows, found.columns], found.rows


def batch_loss(model: Any, processor: Processor, batch: Batch, sigma: float = 0.0) -> torch.Tensor:
    """Weighted mean loss of a batch (nats)."""
    losses, weights, _ = token_losses(model, processor, batch, sigma)
    return (losses * weights).sum() / weights.sum()


@torch.no_grad()
def validate(
    model: Any, processor: Processor, rows: Sequence[Row], spans: SpanWeights | None = None, batch_size: int = 64
) -> dict[str, float]:
    """Plain weighted cross entropy (no Gaussian) by objective, and `all`; objectives without rows are left out."""
    was_training = model.training
    model.eval()
    sums: dict[str, list[float]] = {}
    device = next(model.parameters()).device
    for start in range(0, len(rows), batch_size):
        some = rows[start : start + batch_size]
        losses, weights, owners = token_losses(model, processor, processor.training_batch(some, spans).to(device))
        for index, row in enumerate(some):
            mine = owners == index
            for key in (str(row.get("objective", "?")), "all"):
                total = sums.setdefault(key, [0.0, 0.0])
                total[0] += float((losses[mine] * weights[mine]).sum())
                total[1] += float(weights[mine].sum())
    model.train(was_training)
    return {key: total / weight for key, (total, weight) in sorted(sums.items()) if weight > 0}


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
    """Train in place for `config.steps` steps; returns the curve.

    With `state_dir` training resumes from what lies there, if it is of the same model, config and data, and gives
    the same weights as an uninterrupted run. Rows that can't become a sequence are counted and passed over; raises
    `BadSample` if a whole batch' worth in a row is bad.
    """
    from tqdm import tqdm

    torch.set_num_threads(config.threads)
    emit = on_event or (lambda event: None)
    optimiser = torch.optim.AdamW(model.parameters(), config.lr, config.betas, weight_decay=config.weight_decay)
    state = _State(state_dir, _run_digest(model, source, config))
    step, position, curve = state.load(model, optimiser)
    stream = _Counted(source, position, limit=max(64, config.batch_size))
    device = next(model.parameters()).device
    with _deterministic(device), tqdm(total=config.steps, initial=step, desc="mid-training", unit="step",
                                      disable=not progress, mininterval=2) as bar:  # fmt: skip
        model.train()
        while step < config.steps:
            began = time.perf_counter()
            batch = stream.batch(processor, config).to(device)
            loss, norm = _step(model, processor, batch, optimiser, config, step)
            seconds = time.perf_counter() - began
            step += 1
            made = {"step": step, "loss": loss, "lr": learning_rate(step - 1, config), "tokens": batch.tokens,
                    "grad_norm": norm}  # fmt: skip
            curve.steps.append(made)
            curve.bad_rows = stream.bad + state.bad
            emit({"kind": "step", **made, "steps": config.steps, "seconds": seconds,
                  "tokens_per_s": batch.tokens / seconds, "samples_per_s": config.batch_size / seconds})  # fmt: skip
            bar.update()
            bar.set_postfix_str(f"loss {loss:.3f}, {batch.tokens / seconds:,.0f} tokens/s")
            last = step == config.steps
            if validation and (last or (config.validate_every and step % config.validate_every == 0)):
                scores = validate(model, processor, validation, config.spans)
                curve.validation.append({"step": step, **scores})
                emit({"kind": "validation", "step": step, "loss": scores})
            if last or step % config.save_every == 0:
                state.save(model, optimiser, step, stream.position, curve)
    model.eval()
    return curve


def _step(
    model: Any, processor: Processor, batch: Batch, optimiser: Any, config: MidtrainConfig, step: int
) -> tuple[float, float]:
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(step, config)
    on_gpu = batch.input_ids.is_cuda
    with torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16, enabled=on_gpu):
        loss = batch_loss(model, processor, batch, sigma_at(step, config))
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    if not torch.isfinite(norm):
        raise FloatingPointError(f"mid-training: loss {loss.item()} has a gradient that is not finite at step {step}; "
                                 f"lower lr ({config.lr})")  # fmt: skip
    optimiser.step()
    return loss.item(), norm.item()


class _Counted:
    """Batches from a source, counting the position; bad rows are skipped, `limit` of them in a row are an error."""

    def __init__(self, source: RowSource, position: int, limit: int) -> None:
        self._rows = source.rows(position)
        self.position, self.bad, self._limit = position, 0, limit

    def batch(self, processor: Processor, config: MidtrainConfig) -> Batch:
        good: list[Row] = []
        bad_run = 0
        while len(good) < config.batch_size:
            row = next(self._rows)
            self.position += 1
            if row is None:
                continue
            try:
                processor.prompt(row)
            except BadSample:
                self.bad, bad_run = self.bad + 1, bad_run + 1
                if bad_run >= self._limit:
                    raise
                continue
            good.append(row)
            bad_run = 0
        return processor.training_batch(good, config.spans)


def _run_digest(model: Any, source: RowSource, config: MidtrainConfig) -> str:
    """Of the starting weights, the data order and the config: what a saved state must agree with."""
    import hashlib
    from dataclasses import asdict

    from schemas.ids import canonical_json

    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        weights.update(name.encode())
        weights.update(tensor.detach().float().cpu().numpy().tobytes())
    rest = {key: value for key, value in asdict(config).items() if key not in ("save_every",)}
    weights.update(canonical_json([source.digest(), rest]).encode())
    return weights.hexdigest()


class _State:
    """The resumable state in a folder: one file, replaced whole."""

    def __init__(self, folder: Path | None, digest: str) -> None:
        self._path = folder / "state.pt" if folder else None
        self._digest = digest
        self.bad = 0

    def load(self, model: Any, optimiser: Any) -> tuple[int, int, Curve]:
        """(steps done, position, curve); zeros if there is nothing that fits."""
        if self._path is None or not self._path.exists():
            return 0, 0, Curve()
        saved = torch.load(self._path, weights_only=True, map_location="cpu")
        if saved["digest"] != self._digest:
            return 0, 0, Curve()
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["rng"])
        self.bad = saved["curve"]["bad_rows"]
        return saved["step"], saved["position"], Curve(**saved["curve"])

    def save(self, model: Any, optimiser: Any, step: int, position: int, curve: Curve) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f".state-{os.getpid()}")
        with temporary.open("wb") as stream:
            torch.save(
                {"digest": self._digest, "model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step,
                 "position": position, "rng": torch.get_rng_state(), "curve": curve.plain()}, stream,
            )  # fmt: skip
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, self._path)


@contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Deterministic kernels on CPU while training (a few have none on GPU: there it stays as it is)."""
    was = torch.are_deterministic_algorithms_enabled()
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was)


def config_from(plain: Mapping[str, Any]) -> MidtrainConfig:
    """From JSON; without `warmup` it is a tenth of the steps, at most 20. Raises `ValueError` naming an unknown key."""
    known = MidtrainConfig.__dataclass_fields__
    if unknown := set(plain) - set(known):
        raise ValueError(f"midtrain config: unknown {sorted(unknown)}; known are {sorted(known)}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    if isinstance(values.get("spans"), Mapping):
        values["spans"] = SpanWeights(**values["spans"])
    if "warmup" not in values:
        values["warmup"] = min(known["warmup"].default, values.get("steps", known["steps"].default) // 10)
    return MidtrainConfig(**values)
