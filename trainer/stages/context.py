"""What a stage's function works with, and what it leaves."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.store import Store
from pipelines.store.manifest import Check, Manifest
from trainer.runtime.tracking import OnEvent
from trainer.settings.stage import TrainerStage
from trainer.settings.stages import STAGES
from trainer.settings.tree import TrainerSettings
from trainer.stages.assets import checkpoint_folder


@dataclass(frozen=True)
class Context:
    """What a stage's function works with."""

    store: Store
    stage: str
    settings: TrainerSettings
    inputs: Mapping[str, Manifest]
    on_event: OnEvent
    state_dir: Path
    progress: bool
    judge: Mapping[str, Any] = field(default_factory=dict)
    """Options of the client of a model that judges (`quality.model_client.client.ModelClient`)."""

    weights_digest: str = ""
    """Of the files that the setting `weights` names."""

    @property
    def config(self) -> dict[str, object]:
        """What of the settings the stage depends on, as plain values: they enter its version and its lineage. Files
        count, and not where they lie."""
        # The weights' digest in place of their path: the same files elsewhere are the same training.
        found = self.settings.of_stage(self.stage)
        if found.get("weights"):
            del found["weights"]
            found["weights_digest"] = self.weights_digest
        return found

    def folder(self, checkpoint: str) -> Path:
        """The Hugging Face folder of an input checkpoint."""
        return checkpoint_folder(self.inputs[f"checkpoints/{checkpoint}"])

    @property
    def entry(self) -> TrainerStage:
        """The stage as it is listed; evaluations aren't."""
        return STAGES[self.stage]

    @property
    def start(self) -> Path:
        """The Hugging Face folder of the checkpoint that the stage starts from."""
        return self.folder(self.entry.start)

    @property
    def domain(self) -> str:
        """Of a stage of RL, a name of `trainer.settings.domains.DOMAINS`."""
        return self.entry.domain

    @property
    def own(self) -> Any:
        """The settings of this stage alone, of the class that its entry names."""
        return getattr(self.settings, self.stage)

    @property
    def device(self) -> str:
        """Where the models of a stage of one process lie; under torchrun the whole policy of RL on the rank's own
        device (unless servers sample), and all else on the CPU (ranks move their shares themselves). Raises
        `ValueError` for a device that isn't here."""
        import torch

        # Ranks move their own shares; only RL's policy lies whole on each device.
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from trainer.runtime.parallel import ranks

            section = self.entry.section if self.stage in STAGES else ""
            # servers sample: then the whole policy is only published and saved, and may be larger than a GPU
            samples = section and getattr(self.settings, section).rollout_engine != "vllm"
            return ranks().device if samples else "cpu"
        named = self.settings.device
        try:
            kind = torch.device(named).type
        except RuntimeError:
            raise ValueError(f"device: expected cpu, cuda or cuda:<number>, found {named!r:.40}") from None
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device: {named} was asked for, and torch {torch.__version__} finds no GPU here")
        return named

    @property
    def parents(self) -> dict[str, str]:
        """Asset → version, for the lineage."""
        return {manifest.asset: manifest.version for _, manifest in sorted(self.inputs.items())}


@dataclass(frozen=True)
class StageResult:
    """What a stage's function leaves: a folder of files to keep, its counts, and its checks."""

    folder: Path
    counts: dict[str, Any]
    checks: list[Check]
