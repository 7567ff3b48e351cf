"""`vesper` on ranks of CPUs whose model accelerate shards, as a script for torchrun.

accelerate shards on accelerators alone: on CPU ranks it takes its FSDP settings and runs DDP. Here the ranks pass for
GPUs where it decides that, and nowhere else. With $DIE_AFTER the first rank is gone once that step's state is saved.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import accelerate.accelerator
import accelerate.state
from accelerate.utils import DistributedType

from dagster_project.cli import main
from trainer.midtrain import trl_engine

_begin = accelerate.state.PartialState.__init__
_shard = accelerate.accelerator.fsdp2_prepare_model


def _as_gpus(self: Any, *given: Any, **named: Any) -> None:
    _begin(self, *given, **named)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def _told(accelerator: Any, model: Any) -> Any:
    made = _shard(accelerator, model)
    held = sum(parameter.to_local().numel() for parameter in made.parameters())
    print(f"rank {accelerator.process_index} holds {held} of {sum(one.numel() for one in made.parameters())} weights")
    return made


_save = trl_engine._Follow.on_save


def _die(self: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
    _save(self, args, state, control, **more)
    if os.environ["RANK"] == "0" and os.environ.get("DIE_AFTER") == str(state.global_step):
        os._exit(9)


if __name__ == "__main__":
    trl_engine._Follow.on_save = _die  # type: ignore[method-assign]
    accelerate.state.PartialState.__init__ = _as_gpus
    accelerate.accelerator.fsdp2_prepare_model = _told
    sys.exit(main(sys.argv[1:]))
