"""Starting weights in which what is near on the screen is near: of numbers, and of the places of patches."""

import torch

from trainer.modeling.tokenizer import LAST_NUMBER, NumberIds
from trainer.presets import Preset


@torch.no_grad()
def smooth_numbers(table: torch.Tensor, numbers: NumberIds | None, preset: Preset) -> None:
    """Number embeddings as smoothed noise along 0..1000, with the spread of the other embeddings (see `Shape`)."""
    shape = preset.shape
    if numbers is None or shape is None or shape.number_smoothing <= 0:
        return
    units = torch.arange(LAST_NUMBER + 1, dtype=torch.float32)  # [1001]
    # noise under a Gaussian: neighbours share most of it, so 499 begins near 500
    kernel = torch.exp(-((units[None] - units[:, None]) ** 2) / (2 * shape.number_smoothing**2))  # [1001, 1001]
    noise = kernel @ torch.randn(LAST_NUMBER + 1, table.shape[1])  # [1001, hidden]
    # each number as long as another token's embedding: only the direction says which it is
    table[numbers.first : numbers.first + LAST_NUMBER + 1] = noise / noise.std(1, keepdim=True) * shape.init


@torch.no_grad()
def smooth_positions(table: torch.Tensor, preset: Preset) -> None:
    """Patch positions as smoothed noise on three scales of the grid, of spread `Shape.position_init`."""
    shape = preset.shape
    if shape is None or shape.position_init <= 0:
        return
    side = shape.position_grid
    place = torch.arange(side, dtype=torch.float32)
    total = torch.zeros(side * side, table.shape[1])
    for cells in (side / 4, side / 10, side / 24):  # from a quarter of the screen down to about a patch
        kernel = torch.exp(-((place[None] - place[:, None]) ** 2) / (2 * cells**2))
        noise = torch.einsum("ai,bj,ijd->abd", kernel, kernel, torch.randn(side, side, table.shape[1]))
        total += noise.reshape(side * side, -1) / noise.std()
    table.copy_(total / total.std() * shape.position_init)
