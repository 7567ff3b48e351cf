"""The vision tower taught alone: each token of a picture says what it shows and where it stands.

The classes are the tokenizer's tokens, their weights the token embeddings as they are: what the tower makes of a
picture lies near the embeddings of the names of what is there, and the decoder, which learns afterwards, has only to
compare a name in the question with names in the picture. Screens are full of elements, nobody asks a question and the
decoder isn't run, so that a CPU second shows about ten times as many elements as lessons do.

Whole words are too many to be learned as pictures, so the tower spells first: a linear reading of its early patches,
which isn't kept, says which letters stand in them. From letters a later block makes words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from generators.proving.kit_pages.app_pages import VERSION as APP_VERSION
from generators.proving.perception.labels import LETTERS, PARTS, UNDECIDED, image_labels, letter_labels
from generators.proving.perception.labels import VERSION as LABEL_VERSION
from generators.proving.perception.questions import APPS, KITS, WORLDS
from generators.proving.perception.screens import SIZES, SMALL_SIZES, fill
from generators.proving.perception.sheets import TEXT_KINDS, VERSION, read_sheet
from schemas.ids import digest
from schemas.settings import Flag, Number, Settings, Whole, setting
from trainer.proving.nano_base.source import Drawings, PerceptionSource, as_picture, kits_identity
from trainer.proving.nano_base.world_pages import VERSION as PAGE_VERSION
from trainer.runtime.parallel import Ranks
from trainer.runtime.precision import native_bf16
from trainer.runtime.tracking import OnEvent, step_bar
from trainer.runtime.training_state import TrainingState

if TYPE_CHECKING:
    from trainer.data.image_labels import LabelledImages

AHEAD = 4
"""Batches that a process has made before they are needed."""
KINDS: dict[str, float] = {"shape": 1.0, "icon": 1.5, "widget": 0.8, **dict.fromkeys(TEXT_KINDS, 1.0)}
"""How often each kind of element stands on a screen."""


class VisionConfig(Settings):
    """What decides the tower's weights, beside the drawings and where it begins."""

    max_steps: Whole = setting(6_000, "Optimiser steps.", ge=1)
    batch_size: Whole = setting(
        32, "Small screens a step; of screens of full size so many fewer that a step shows as much.", ge=1
    )
    full_size: Number = setting(0.25, "Share of steps on screens of full size.")
    worlds: Number = setting(0.0, "Share of steps on screens of the worlds (they are of full size).")
    kits: Number = setting(
        0.0, "Share of steps on windows of pages in real fonts (they are of full size).", neutral=True
    )
    apps: Number = setting(
        0.0, "Share of steps on windows of our own apps' screens (they are of full size).", neutral=True
    )
    heads_first: Whole = setting(
        0,
        "Steps at the beginning in which the readings that aren't part of the model learn alone: a tower that was "
        "taught before isn't turned to suit readings that begin at random.",
    )
    learning_rate: Number = setting(1.5e-3, "The peak of the rate.", gt=0)
    warmup_steps: Whole = setting(50, "Steps in which the rate rises.")
    final_lr_share: Number = setting(0.1, "What is left of the peak at the last step.")
    scale: Number = setting(12.0, "A logit is so many times the cosine of a picture's token and a token's embedding.")
    background: Number = setting(0.3, "Weight of a token that shows nothing; of one that shows something it is 1.")
    blank: Number = setting(0.1, "Weight of a part of a patch without a letter; of one with a letter it is 1.")
    place: Number = setting(1.0, "Weight of the squared error of a linear reading of the place (0..1).")
    letters: Number = setting(1.0, "Weight of the cross entropy of the letters in a patch.")
    spells: Whole = setting(1, "The block (from 0) after which letters are read.")
    kinds: dict[str, Number] = setting(KINDS, "How often each kind of element stands on a screen.")
    seed: Whole = setting(0, "Of the readings' random weights.")
    threads: Whole = setting(2, "CPU threads.")
    workers: Whole = setting(1, "Processes that make batches ahead; they change none.", neutral=True)
    bf16: Flag = setting(None, "Compute in bfloat16. Not given: where the CPU does.", default_factory=native_bf16)
    save_steps: Whole = setting(200, "Steps between two saved states to go on from.", ge=1)

    def shown(self) -> list[str]:
        """The lessons whose screens are shown beside filled ones."""
        return [name for name, share in ((WORLDS, self.worlds), (KITS, self.kits), (APPS, self.apps)) if share]

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, once more when the tower joins its readings, and linear down to the final share."""
        # The warm-up starts anew when the tower joins: its own moments are still empty then.
        done, warm = step / self.max_steps, step if step < self.heads_first else step - self.heads_first
        risen = min(1.0, (warm + 1) / max(1, self.warmup_steps))
        return self.learning_rate * risen * (1 - (1 - self.final_lr_share) * done)


class ScreenBatch(NamedTuple):
    """`pixels` [patches, C·T·P·P], `grids` [screens, 3]; of each image token its label and place (x, y in 0..1); of
    each patch its `letters` [patches, `PARTS`] (see `letter_labels`)."""

    pixels: torch.Tensor
    grids: torch.Tensor
    labels: torch.Tensor
    places: torch.Tensor
    letters: torch.Tensor


class FilledScreens:
    """Batches of filled screens, and of the worlds' own, each a pure function of (seed, number)."""

    def __init__(
        self,
        drawings: Drawings,
        processor: LabelledImages,
        kinds: Mapping[str, float],
        seed: str,
        full_size: float,
        worlds: float = 0.0,
        kits: float = 0.0,
        apps: float = 0.0,
    ) -> None:
        self._drawings, self._processor, self._kinds, self._seed = drawings, processor, dict(kinds), seed
        self._full_size, self._worlds, self._kits, self._apps = full_size, worlds, kits, apps
        self.end_id = processor.end_id
        # All sheets at once: each batch draws from many of them, and a worker process needs them anyway.
        self._sheets = [read_sheet(drawings.folder / "sheets", name) for name in drawings.sheets]
        shown = {name: 1.0 for name, share in ((WORLDS, worlds), (KITS, kits), (APPS, apps)) if share}
        self._pages = PerceptionSource(drawings, shown) if shown else None

    def digest(self) -> str:
        """Of all that decides the batches."""
        drawn = [self._drawings.sheets, self._drawings.pages, PAGE_VERSION] if self._worlds else self._drawings.sheets
        # The shape of the digest without kits is that of earlier versions, whose state still fits.
        plain = [VERSION, LABEL_VERSION, self._seed, drawn, self._kinds, self._full_size, self._worlds]
        plain += [self._kits, kits_identity(self._drawings)] if self._kits else []
        return digest([*plain, self._apps, APP_VERSION, self._drawings.apps] if self._apps else plain)

    def _kind(self, rng: Random) -> str:
        """Whose screens a batch shows: `WORLDS`, `KITS`, `APPS` or "" for filled ones."""
        if self._pages is None:
            return ""
        draw = rng.random()
        for name, share in ((WORLDS, self._worlds), (KITS, self._kits), (APPS, self._apps)):
            if draw < share:
                return name
            draw -= share
        return ""

    def batches(self, numbers: range, size: int, workers: int) -> Iterator[ScreenBatch]:
        """The batches of these numbers, made ahead by so many processes."""
        made: DataLoader[ScreenBatch] = DataLoader(
            _OfSize(self, size),
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            prefetch_factor=AHEAD if workers else None,
            generator=torch.Generator(),
        )
        return iter(made)

    def batch(self, number: int, size: int) -> ScreenBatch:
        """`size` small screens, or a quarter as many of full size."""
        rng = Random(f"vision-{self._seed}-{number}")
        kind = self._kind(rng)
        full = bool(kind) or rng.random() < self._full_size
        # One size a batch, so that all its screens have as many tokens.
        pixels = rng.choice(SIZES if full else SMALL_SIZES)
        flat, grids, labels, letters, places = [], [], [], [], []
        merge = self._processor.images.merge_size
        # A screen of full size has about four times the area.
        for _ in range(max(1, size // 4) if full else size):
            if self._pages is not None and kind in (KITS, APPS):
                screen = self._pages.window(kind, rng)
            elif self._pages is not None and kind == WORLDS:
                screen = self._pages.screen(rng)[0]
            else:
                screen = fill(rng.choice(self._sheets), self._kinds, rng, pixels)
            patches, grid = self._processor.patches(as_picture(screen, ""))
            flat.append(patches)
            grids.append(grid)
            labels += [self._processor.label_id(label) for label in image_labels(screen, rng, grounding=False)]
            letters.append(_token_by_token(letter_labels(screen), merge))
            places.append(_centres(grid[1] // merge, grid[2] // merge))
        spelled = torch.from_numpy(np.concatenate(letters))
        shown = torch.from_numpy(np.concatenate(flat))
        return ScreenBatch(shown, torch.tensor(grids), torch.tensor(labels), torch.cat(places), spelled)


class _OfSize(Dataset[ScreenBatch]):
    """Batches of one size, by their number."""

    def __init__(self, screens: FilledScreens, size: int) -> None:
        self._screens, self._size = screens, size

    def __getitem__(self, number: int) -> ScreenBatch:
        return self._screens.batch(number, self._size)


def _centres(rows: int, columns: int) -> torch.Tensor:
    """[rows · columns, 2]: x and y in 0..1 of the middles of a picture's tokens, row by row."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    return torch.stack([x, y], -1).reshape(-1, 2)


def _token_by_token(patches: np.ndarray, merge: int) -> np.ndarray:
    """[rows, columns, …] of patches in the order of the model's: all of one image token, then those of the next."""
    rows, columns, *rest = patches.shape
    # [rows / merge, merge, columns / merge, merge, …]: the swap brings the patches of one token together.
    blocks = patches.reshape(rows // merge, merge, columns // merge, merge, *rest)
    return blocks.swapaxes(1, 2).reshape(rows * columns, *rest)


def train_vision(
    model: Any,
    screens: FilledScreens,
    config: VisionConfig,
    *,
    start: str = "",
    anchor: torch.Tensor | None = None,
    state_dir: Path | None = None,
    on_event: OnEvent | None = None,
    progress: bool = True,
) -> list[dict[str, float]]:
    """Train the vision tower of `model` in place; → a row per step (loss, place, letters, right, spelled).

    `right` is the share of tokens that show something whose label is the likeliest (of a name of two words it can't be
    far above half), `spelled` the share of letters that are read right. At the end the tower's output is scaled to the
    size of token embeddings, which changes no class. With an `anchor` (the embeddings [vocabulary, hidden] that it was
    taught before) it is taught those again and keeps its size: a decoder that has learned meanwhile goes on to
    understand it, which the embeddings that came of its learning would not allow.
    With `state_dir` it resumes, to the same weights, what was begun from the same weights (`start`: their digest, and
    the anchor's).
    Raises `FloatingPointError` for a gradient that isn't finite.
    """
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    tower = model.model.visual
    embeddings = model.get_input_embeddings().weight.detach()
    wide = tower.config.hidden_size
    # The readings train beside the tower and are dropped with this
    # dictionary; only the tower is part of the model.
    parts = torch.nn.ModuleDict(
        {
            "tower": tower,
            "place": torch.nn.Linear(embeddings.shape[1], 2),
            "letters": torch.nn.Linear(wide, PARTS * (len(LETTERS) + 1)),
        }
    )
    optimiser = torch.optim.AdamW(parts.parameters(), config.learning_rate, (0.9, 0.95), weight_decay=0.0)
    state = TrainingState(state_dir, digest([screens.digest(), config.run_part(), start]), Ranks())
    saved = state.load(parts, optimiser) or {}
    step, curve = int(saved.get("step", 0)), list(saved.get("curve", []))
    # Frozen classes: the embeddings don't move towards what the tower happens to see.
    classes = functional.normalize(embeddings if anchor is None else anchor, dim=-1)  # [V, hidden]
    # With an anchor the tower keeps its own length: the decoder has learned to live with it.
    length = float(embeddings.norm(dim=-1).mean()) if anchor is None else _length(tower, screens, config)
    # A resumed run takes the length noted at its start: the tower's has changed since.
    length = float(saved.get("length", length))
    tower.train()
    with step_bar("vision", config.max_steps, step, shown=progress) as bar:
        for batch in screens.batches(range(step, config.max_steps), config.batch_size, config.workers):
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate_at(step)
            with torch.autocast("cpu", torch.bfloat16, enabled=config.bf16):
                features, patches = _features(tower, batch, config.spells)  # [tokens, hidden], [patches, vision hidden]
            named, right = _name_losses(features.float(), batch, classes, screens.end_id, config)
            place = ((parts["place"](functional.normalize(features.float(), dim=-1)) - batch.places) ** 2).mean()
            letters, spelled = _letter_losses(parts["letters"](patches.float()), batch.letters, config)
            optimiser.zero_grad(set_to_none=True)
            (named + config.place * place + config.letters * letters).backward()
            if step < config.heads_first:
                tower.zero_grad(set_to_none=True)  # AdamW passes over parameters without a gradient
            if not torch.isfinite(torch.nn.utils.clip_grad_norm_(parts.parameters(), 1.0)):
                raise FloatingPointError(
                    f"vision: a gradient isn't finite at step {step}; lower learning_rate ({config.learning_rate})"
                )
            optimiser.step()
            step += 1
            found = {"loss": named, "place": place, "letters": letters, "right": right, "spelled": spelled}
            curve.append({name: round(value.item(), 5) for name, value in found.items()})
            bar.update()
            bar.set_postfix_str(", ".join(f"{name} {curve[-1][name]:.2f}" for name in ("loss", "right", "spelled")))
            if on_event is not None:
                on_event({"kind": "step", "step": step, "steps": config.max_steps, **curve[-1]})
            if step == config.max_steps or step % config.save_steps == 0:
                state.save(parts, optimiser, {"step": step, "curve": curve, "length": length})
    # After training, since the loss is on cosines, which lengths don't change.
    _match_size(tower, length / _length(tower, screens, config))
    tower.eval()
    return curve


def _features(tower: Any, batch: ScreenBatch, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """([image tokens, hidden], what the decoder gets; [patches, vision hidden], what leaves a block).

    Raises `ValueError` for a block that the tower doesn't have.
    """
    if not 0 <= block < len(tower.blocks):
        raise ValueError(f"vision: spells: expected a block of 0 to {len(tower.blocks) - 1}, found {block}")
    kept: list[torch.Tensor] = []
    hook = tower.blocks[block].register_forward_hook(lambda _, __, out: kept.append(out))
    try:
        found: torch.Tensor = tower(batch.pixels, grid_thw=batch.grids).pooler_output
    finally:
        hook.remove()
    return found, kept[0]


def _name_losses(
    features: torch.Tensor, batch: ScreenBatch, classes: torch.Tensor, end_id: int, config: VisionConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cross entropy of the labels, share of right labels among tokens that show something)."""
    logits = config.scale * functional.normalize(features, dim=-1) @ classes.T  # [tokens, V]
    shows = batch.labels != end_id  # the end token is the label of a place that shows nothing
    weights = torch.where(shows, 1.0, config.background)
    losses = functional.cross_entropy(logits, batch.labels, reduction="none")
    right = (logits.detach().argmax(-1) == batch.labels)[shows].float().mean()
    return (losses * weights).sum() / weights.sum(), right


def _letter_losses(
    logits: torch.Tensor, letters: torch.Tensor, config: VisionConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cross entropy of the letters, share of those read right); `logits` [patches, `PARTS` · classes]."""
    # [patches · PARTS, classes], [patches · PARTS]
    logits, labels = logits.view(letters.numel(), -1), letters.reshape(-1)
    shows = labels > 0
    # Zero for undecided ones: `ignore_index` alone would leave their weight in the divisor.
    weights = torch.where(shows, 1.0, config.blank) * (labels != UNDECIDED)
    losses = functional.cross_entropy(logits, labels, reduction="none", ignore_index=UNDECIDED)
    right = (logits.detach().argmax(-1) == labels)[shows].float().sum() / shows.sum().clamp(min=1)
    return (losses * weights).sum() / weights.sum(), right


@torch.no_grad()
def _length(tower: object, screens: FilledScreens, config: VisionConfig) -> float:
    """Mean length of what the tower makes of the tokens of a batch that training doesn't show."""
    # The number after the last step's: no training batch has it.
    return float(_features(tower, screens.batch(config.max_steps, config.batch_size), 0)[0].norm(dim=-1).mean())


@torch.no_grad()
def _match_size(tower: Any, factor: float) -> None:
    """Scale the merger's last layer, so that image tokens are as long as the decoder, which adds to all alike, wants
    them."""
    for parameter in tower.merger.linear_fc2.parameters():
        parameter.mul_(factor)
