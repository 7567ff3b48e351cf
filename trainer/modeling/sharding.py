"""One model in parts: each rank holds a share of its weights, gradients and moments (FSDP2).

Parameters, gradients and optimiser state lie in as many parts as there are ranks (`fully_shard` per decoder layer and
vision block, the rest in one group).
"""

import copy
import types
from typing import Any

import torch
import torch.distributed as dist

from trainer.modeling.model import forward_labels
from trainer.runtime.parallel import Ranks
from trainer.runtime.precision import in_bf16


def sharded(model: Any, group: Ranks, bf16: bool | None = None) -> object:
    """A plain model, the same on every rank → the same model in parts; the first rank's own stays as it is.

    Where another rank's model is hollow (`hollow_models`), it gets its parts from the first, so that only one process
    holds a whole model. With `bf16` (None: on a GPU) the parts compute in bfloat16 and keep float32 weights; gradients
    are summed in float32.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    on_gpu = group.device != "cpu"
    mesh = init_device_mesh("cuda" if on_gpu else "cpu", (group.world,))
    half = in_bf16(bf16, mesh.device_type)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    # the first rank keeps a whole model beside its parts
    parted = copy.deepcopy(model) if group.first else model
    parted.tie_weights()  # moving a model to another device may have parted them
    for block in (*parted.model.visual.blocks, *parted.model.language_model.layers):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(parted, mesh=mesh, mp_policy=policy)
    if group.sums([any(parameter.is_meta for parameter in parted.parameters())])[0]:
        _hand_out(model, parted, group)
    gather_for_labels(parted)
    return parted


def gather_for_labels(parted: Any) -> None:
    """Let `trainer.modeling.model.label_terms` ask a model in parts: FSDP gathers weights around `forward` alone,
    unless it is told of other methods."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    parted.forward_labels = types.MethodType(forward_labels, parted)
    register_fsdp_forward_method(parted, "forward_labels")


def _hand_out(model: Any, parted: Any, group: Ranks) -> None:
    """Fill hollow parts with the first rank's weights, and buffers that no checkpoint holds."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    if not group.first:
        parted.to_empty(device=group.device)
        parted.tie_weights()
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(parted, model.state_dict() if group.first else {}, options=options)
    # in one order on all ranks, since a broadcast is matched by its turn
    for _, buffer in sorted(parted.named_buffers()):
        dist.broadcast(buffer, src=0)


def gather_into(model: Any, parted: Any, group: Ranks) -> None:
    """Put the weights of a model in parts together again, in the first rank's plain model."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    whole = get_model_state_dict(parted, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if group.first:
        model.load_state_dict(whole)


def norm_of(norm: torch.Tensor) -> torch.Tensor:
    """The whole value of a norm that may lie in parts."""
    full: torch.Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return full
