"""When mid-training has taught enough: RL needs successes to learn from, and failures to learn to avoid.

Every so many steps validation episodes are tried at temperature 1. Training stops once pass@1 reaches `stop_at`; kept
are the last weights whose pass@1 lay in the window, if any did, else those it stopped with.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generators.execution.limits import AttemptLimits
from generators.tasks.task_spec import TaskSpec
from pipelines.whole_files import put_json
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.tasks import nano_pool
from trainer.runtime.tracking import OnEvent
from trainer.runtime.training_state import StateFile
from trainer.suites.worlds import world_success

LOOKS, KEPT = "looks.json", "kept.pt"
LIMITS = AttemptLimits(step_factor=1.5, step_extra=2, retries=2, call_s=60.0)
"""Of every episode that a policy of the staircase is tried on."""


class StopTraining(Exception):
    """Mid-training is to stop here; the message says why."""


class EarlyStopping:
    """Looks at a model that is being trained, each once: a run that is killed and goes on doesn't look again."""

    def __init__(
        self, folder: Path, config: StaircaseConfig, contracts: Sequence[TaskSpec], checkpoint: Any, emit: OnEvent
    ) -> None:
        self._folder, self._config, self._contracts = folder, config, list(contracts)
        self._checkpoint, self._emit = checkpoint, emit
        self._best = StateFile(folder / KEPT, "")
        self._looks: list[dict[str, Any]] = []
        if (folder / LOOKS).is_file():
            self._looks = json.loads((folder / LOOKS).read_text(encoding="utf-8"))

    def after(self, step: int, last: int) -> None:
        """To be called after each step; `last` is that of the whole training. Raises `StopTraining`."""
        # The last step is looked at too, so that there is always something to choose by.
        if step % self._config.look_every and step != last:
            return
        # A resumed run has its looks in the file; asking again could decide otherwise.
        known = [look for look in self._looks if look["step"] == step]
        look = known[0] if known else self._look(step)
        if look["pass_at_1"] >= self._config.stop_at:
            raise StopTraining(f"pass@1 of {look['pass_at_1']:.2f} after {step} steps")

    def _look(self, step: int) -> dict[str, Any]:
        import torch

        model, attempts = self._checkpoint.model, self._config.look_attempts
        model.eval()
        found = world_success(
            self._checkpoint,
            self._contracts,
            nano_pool(self._config.workers),
            attempts=attempts,
            temperature=1.0,
            limits=LIMITS,
            workers=self._config.workers,
            seeds=(self._config.seed,),
            max_new_tokens=self._config.max_new_tokens,
        )["summary"]["pass_at_k"]
        model.train()
        torch.set_num_threads(self._config.threads)  # the reply engine has its own
        look = {
            "step": step,
            "pass_at_1": found["1"]["mean"] or 0.0,
            "attempts": attempts,
            "pass_at_k": found[str(attempts)]["mean"] or 0.0,
            "contracts": len(self._contracts),
        }
        low, high = self._config.window
        # Later looks overwrite earlier ones: the last weights in the window count, they have learned most.
        if low <= look["pass_at_1"] <= high:
            self._best.save(step=step, model=model.state_dict())
        self._looks.append(look)
        put_json(self._folder / LOOKS, self._looks)
        self._emit({"kind": "pass", **look})
        return look

    def settle(self) -> dict[str, object]:
        """Put the weights that were saved in place if those at hand lie outside the window; → what the lineage says."""
        model = self._checkpoint.model.eval()
        last = self._looks[-1] if self._looks else None
        low, high = self._config.window
        kept = last["step"] if last else None
        # Only where the weights at hand lie outside: else they are the later ones of two that fit.
        if last and not low <= last["pass_at_1"] <= high and (saved := self._best.load()):
            model.load_state_dict(saved["model"])
            kept = saved["step"]
        chosen = next((look for look in self._looks if look["step"] == kept), None)
        inside = chosen is not None and low <= chosen["pass_at_1"] <= high
        return {"kept_step": kept, "in_window": inside, "looks": self._looks}
