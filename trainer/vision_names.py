"""The vision tower taught alone: each token of a picture says what it shows and where it stands.

The classes are the tokenizer's tokens, their weights the token embeddings as they are: what the tower makes of a
picture lies near the embeddings of the names of what is there, and the decoder, which learns afterwards, has only to
compare a name in the question with names in the picture. Screens are full of elements, nobody asks a question and the
decoder isn't run, so that a CPU second shows about ten times as many elements as lessons do. Elements stand on a coarse
grid at first: a patch then looks the same whenever its element does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from generators.perception.labels import VERSION as LABEL_VERSION
from generators.perception.labels import image_labels
from generators.perception.screens import SMALL_SIZES, fill
from generators.perception.sheets import TEXT_KINDS, VERSION, read_sheet
from schemas.ids import digest
from trainer.parallel import Ranks
from trainer.perception import Drawings, as_picture
from trainer.training_state import TrainingState

if TYPE_CHECKING:
    from trainer.image_labels import LabelledImages

KINDS: dict[str, float] = {"shape": 1.0, "icon": 3.0, "widget": 1.5, **dict.fromkeys(TEXT_KINDS, 0.8)}
"""How often each kind of element stands on a screen."""


@dataclass(frozen=True)
class VisionConfig:
    """What decides the tower's weights, beside the drawings and where it begins."""

    steps: int = 16_000
    batch_size: int = 32
    """Screens a step."""
    lr: float = 2e-3
    warmup: int = 50
    final_lr_share: float = 0.1
    scale: float = 12.0
    """A logit is so many times the cosine of a picture's token and a token's embedding."""
    background: float = 0.3
    """Weight of a token that shows nothing; of one that shows something it is 1."""
    place: float = 1.0
    """Weight of the squared error of a linear reading of the place (0..1), which isn't kept."""
    snaps: tuple[tuple[float, int], ...] = ((0.15, 16), (0.4, 4), (1.0, 1))
    """(up to this share of the steps, elements stand on a grid of so many pixels)."""
    kinds: Mapping[str, float] = field(default_factory=lambda: dict(KINDS))
    seed: int = 0
    threads: int = 2
    bf16: bool = True
    save_every: int = 200

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.save_every) < 1 or self.lr <= 0:
            raise ValueError(f"VisionConfig: expected steps, batch_size and save_every >= 1 and lr > 0, found {self}")
        if not self.snaps or self.snaps[-1][0] < 1:
            raise ValueError(f"VisionConfig: expected snaps up to a share of 1, found {self.snaps}")

    def snap_at(self, step: int) -> int:
        """Pixels of the grid at a step (from 0)."""
        return next(pixels for share, pixels in self.snaps if step < share * self.steps or share >= 1)

    def lr_at(self, step: int) -> float:
        """Linear warm-up, then linear down to the final share."""
        done = step / self.steps
        return self.lr * min(1.0, (step + 1) / max(1, self.warmup)) * (1 - (1 - self.final_lr_share) * done)


class ScreenBatch(NamedTuple):
    """`pixels` [patches, C·T·P·P], `grids` [screens, 3]; of each image token its label and place (x, y in 0..1)."""

    pixels: torch.Tensor
    grids: torch.Tensor
    labels: torch.Tensor
    places: torch.Tensor


class FilledScreens:
    """Batches of filled screens, each a pure function of (seed, number)."""

    def __init__(self, drawings: Drawings, processor: LabelledImages, kinds: Mapping[str, float], seed: str) -> None:
        self._drawings, self._processor, self._kinds, self._seed = drawings, processor, dict(kinds), seed
        self.end_id = processor.end_id
        self._sheets = [read_sheet(drawings.folder / "sheets", name) for name in drawings.sheets]

    def digest(self) -> str:
        """Of all that decides the batches."""
        return digest([VERSION, LABEL_VERSION, self._seed, self._drawings.sheets, self._kinds])

    def batch(self, number: int, size: int, snap: int = 1) -> ScreenBatch:
        """`size` screens of one size in pixels."""
        rng = Random(f"vision-{self._seed}-{number}")
        pixels = rng.choice(SMALL_SIZES)
        flat, grids, labels = [], [], []
        for _ in range(size):
            screen = fill(rng.choice(self._sheets), self._kinds, rng, pixels, snap)
            patches, grid = self._processor.patches(as_picture(screen, ""))
            flat.append(patches)
            grids.append(grid)
            labels += [self._processor.label_id(label) for label in image_labels(screen, rng, grounding=False)]
        merge = self._processor.images.merge_size
        rows, columns = grids[0][1] // merge, grids[0][2] // merge
        y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
        places = torch.stack([x, y], -1).reshape(-1, 2).repeat(size, 1)
        return ScreenBatch(torch.from_numpy(np.concatenate(flat)), torch.tensor(grids), torch.tensor(labels), places)


def train_vision(
    model: Any, screens: FilledScreens, config: VisionConfig, *, start: str = "",
    state_dir: Path | None = None, on_event: Callable[[dict[str, Any]], None] | None = None, progress: bool = True,
) -> list[dict[str, float]]:  # fmt: skip
    """Train the vision tower of `model` in place; → a row per step (loss, place, right).

    `right` is the share of tokens that show something whose label is the likeliest (of a name of two words it can't be
    far above half). At the end the tower's output is scaled to the size of token embeddings, which changes no class.
    With `state_dir` it resumes, to the same weights, what was begun from the same weights (`start`: their digest).
    Raises `FloatingPointError` for a gradient that isn't finite.
    """
    from tqdm import tqdm

    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    tower = model.model.visual
    embeddings = model.get_input_embeddings().weight.detach()
    parts = torch.nn.ModuleDict({"tower": tower, "place": torch.nn.Linear(embeddings.shape[1], 2)})
    optimiser = torch.optim.AdamW(parts.parameters(), config.lr, (0.9, 0.95), weight_decay=0.0)
    state = TrainingState(state_dir, digest([screens.digest(), asdict(config), start]), Ranks())
    saved = state.load(parts, optimiser) or {}
    step, curve = int(saved.get("step", 0)), list(saved.get("curve", []))
    classes = functional.normalize(embeddings, dim=-1)
    tower.train()
    with tqdm(total=config.steps, initial=step, desc="vision", unit="step", mininterval=2, disable=not progress) as bar:
        while step < config.steps:
            for group in optimiser.param_groups:
                group["lr"] = config.lr_at(step)
            batch = screens.batch(step, config.batch_size, config.snap_at(step))
            with torch.autocast("cpu", torch.bfloat16, enabled=config.bf16):
                features = _features(tower, batch)
            made = _losses(features.float(), batch, classes, parts["place"], screens.end_id, config)
            optimiser.zero_grad(set_to_none=True)
            (made[0] + config.place * made[1]).backward()
            if not torch.isfinite(torch.nn.utils.clip_grad_norm_(parts.parameters(), 1.0)):
                raise FloatingPointError(f"vision: a gradient isn't finite at step {step}; lower lr ({config.lr})")
            optimiser.step()
            step += 1
            named = zip(("loss", "place", "right"), (one.item() for one in made), strict=True)
            curve.append({name: round(value, 5) for name, value in named})
            bar.update()
            bar.set_postfix_str(f"loss {curve[-1]['loss']:.3f}, right {curve[-1]['right']:.2f}")
            if on_event is not None:
                on_event({"kind": "step", "step": step, "steps": config.steps, **curve[-1]})
            if step == config.steps or step % config.save_every == 0:
                state.save(parts, optimiser, {"step": step, "curve": curve})
    _match_size(tower, embeddings, screens.batch(config.steps, config.batch_size))
    tower.eval()
    return curve


def _features(tower: Any, batch: ScreenBatch) -> torch.Tensor:
    """[image tokens, hidden]: what the decoder gets."""
    found: torch.Tensor = tower(batch.pixels, grid_thw=batch.grids).pooler_output
    return found


def _losses(
    features: torch.Tensor, batch: ScreenBatch, classes: torch.Tensor, place: Any, end_id: int, config: VisionConfig
) -> Sequence[torch.Tensor]:
    """(cross entropy, squared error of the place, share of right labels among tokens that show something)."""
    unit = functional.normalize(features, dim=-1)
    logits = config.scale * unit @ classes.T
    shows = batch.labels != end_id
    weights = torch.where(shows, 1.0, config.background)
    losses = functional.cross_entropy(logits, batch.labels, reduction="none")
    error = ((place(unit) - batch.places) ** 2).mean()
    right = (logits.detach().argmax(-1) == batch.labels)[shows].float().mean()
    return (losses * weights).sum() / weights.sum(), error, right


@torch.no_grad()
def _match_size(tower: Any, embeddings: torch.Tensor, batch: ScreenBatch) -> None:
    """Scale the merger's last layer so that image tokens are as long as text tokens: the decoder adds to both alike."""
    last = tower.merger.linear_fc2
    factor = float(embeddings.norm(dim=-1).mean() / _features(tower, batch).norm(dim=-1).mean())
    for parameter in last.parameters():
        parameter.mul_(factor)
