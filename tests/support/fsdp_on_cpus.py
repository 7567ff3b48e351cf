"""`vesper` on ranks of CPUs whose model accelerate shards, as what `two_ranks.on_two_ranks` calls.

accelerate shards on accelerators alone: on CPU ranks it takes its FSDP settings and runs DDP. Here the ranks pass for
GPUs where it decides that, and nowhere else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def vesper(environment: Mapping[str, str], words: list[str], folder: Path, die_after: int = 0) -> None:
    """Run a command on this rank, with `environment` added. Each rank leaves in `folder` how many weights it holds
    and how many there are; with `die_after` the first rank is gone, with 9, once that step's state is saved."""
    os.environ |= environment
    # with the environment in place, as the launcher's processes import them
    import accelerate.accelerator
    import accelerate.state
    from accelerate.utils import DistributedType

    from dagster_project.cli import main
    from trainer.midtrain import trl_engine

    begin, shard = accelerate.state.PartialState.__init__, accelerate.accelerator.fsdp2_prepare_model
    save = trl_engine._Follow.on_save

    def as_gpus(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self._shared_state["distributed_type"] = DistributedType.MULTI_GPU

    def counted(accelerator: Any, model: Any) -> Any:
        made = shard(accelerator, model)
        held = sum(parameter.to_local().numel() for parameter in made.parameters())
        counts = f"{held} {sum(one.numel() for one in made.parameters())}"
        (folder / f"rank-{accelerator.process_index}").write_text(counts)
        return made

    def die(self: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
        save(self, args, state, control, **more)
        if os.environ["RANK"] == "0" and state.global_step == die_after:
            os._exit(9)

    trl_engine._Follow.on_save = die  # type: ignore[method-assign]
    accelerate.state.PartialState.__init__ = as_gpus
    accelerate.accelerator.fsdp2_prepare_model = counted
    sys.exit(main(words))
