"""How a server gets the learner's weights: it reloads them from a folder that both see, or they are broadcast to it.

Either way the server takes no request meanwhile, replies that have begun come to their end first (`/pause?mode=wait`,
which also clears what was cached of the old weights), and only then do its replies carry the new label.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainer.modeling.published_layout import save_weights
from trainer.vllm.client import ServerError, VllmClient

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PARTIAL = ".partial"


class WeightUpdate(Protocol):
    """`lasting`: what was kept under a label can be given at any time, also while the learner learns."""

    lasting: bool

    def keep(self, label: str, model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> None:
        """Have the weights of a label ready. `model` shows the form of its checkpoints."""
        ...

    def give(self, client: VllmClient, label: str, timeout_s: float) -> None:
        """The server answers from these weights when this returns. Raises `ServerError`: which weights it has then
        isn't known."""
        ...

    def forget(self, label: str) -> None:
        """Nobody asks for this label any more."""
        ...

    def close(self) -> None: ...


class ReloadWeights:
    """A safetensors folder for each label in `folder`, which is the run's alone, and `reload_weights` of every
    worker. `dtype`: of what is written (None: as it is)."""

    lasting = True

    def __init__(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        self._folder, self._dtype = Path(folder).absolute(), dtype
        # what an earlier life of this run left
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self, label: str, model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> None:
        """Whole or not at all. Raises `OSError`."""
        from trainer.modeling.checkpoint import quiet

        there, partial = self._folder / label, self._folder / (label + PARTIAL)
        partial.mkdir(parents=True)
        with quiet():
            save_weights(partial, model, {name: one.to(self._dtype or one.dtype) for name, one in weights.items()})
        # renamed when whole, so that a server never reads half of it
        partial.rename(there)

    def give(self, client: VllmClient, label: str, timeout_s: float) -> None:
        # the order matters: no request is answered between old weights and the new label
        client.pause(timeout_s)
        client.collective_rpc("reload_weights", {"weights_path": str(self._folder / label)}, timeout_s)
        client.set_weight_version(label)
        acknowledged(client, label)
        client.resume()

    def forget(self, label: str) -> None:
        shutil.rmtree(self._folder / label, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def acknowledged(client: VllmClient, label: str) -> None:
    """Raises `ServerError` unless the server's replies carry this label."""
    if (found := client.weight_version()) != label:
        raise ServerError(f"{client.endpoint}: expected the weights {label}, found {found[:80]!r}")
