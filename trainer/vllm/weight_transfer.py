"""Weights by broadcast: vLLM's weight transfer (0.33.0) from a trainer that doesn't import vLLM.

The learner is rank 0 of a group of its own with each server, whose workers are the ranks from 1 on:
`/init_weight_transfer_engine` brings the group about, then each update is `/start_weight_update`, `/update_weights`
(names, dtypes and shapes, while the tensors are broadcast one after the other in that order) and
`/finish_weight_update` with the label. From a GPU, of several ranks the first one's, the group is NCCL's, and workers
join it by its unique id; from a CPU it is Gloo's, which `trainer.serving.rollout_server` speaks and vLLM doesn't.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trainer.modeling.published_layout import swapped
from trainer.runtime.gloo import JOIN_S, LOOPBACK, gloo_group
from trainer.runtime.parallel import ranks
from trainer.vllm.client import PROBE_S, ServerError, VllmClient
from trainer.vllm.weight_update import acknowledged

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

UNIQUE_ID_KEY = "0"
"""Where torch's `ProcessGroupNCCL` leaves the id of its first communicator, in the store that it was given."""


class WeightTransfer:
    """See `WeightUpdate`. `address`: by which servers reach the learner; `dtype`: of what is sent (None: as it is)."""

    lasting = False

    def __init__(self, address: str, dtype: torch.dtype | None = None) -> None:
        self._address, self._dtype = address, dtype
        self._kept: dict[str, list[tuple[str, torch.Tensor]]] = {}
        self._groups: dict[str, tuple[Any, Any]] = {}  # by endpoint: group, and the store that it came about by
        self._lock = threading.Lock()

    def keep(self, label: str, model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> None:
        """No copy: they are sent, in the published layout, as they are when they are asked for. A tied tensor goes
        under its first name."""
        first: dict[int, str] = {}
        for name, tensor in weights.items():
            # tensors at one address are tied
            first.setdefault(tensor.data_ptr(), name)
        self._kept[label] = list(swapped(model, {name: weights[name] for name in first.values()}).items())

    def give(self, client: VllmClient, label: str, timeout_s: float) -> None:
        import torch

        tensors = [(name, tensor.detach()) for name, tensor in self._kept[label]]
        info = {
            "names": [name for name, _ in tensors],
            "dtype_names": [str(self._dtype or tensor.dtype).removeprefix("torch.") for _, tensor in tensors],
            "shapes": [list(tensor.shape) for _, tensor in tensors],
        }
        client.pause(timeout_s)
        try:
            # of several ranks the whole policy lies in the machine's memory, from which vLLM takes nothing
            device = torch.device(own.device) if (own := ranks()).world > 1 else tensors[0][1].device
            group = self._joined(client, device, timeout_s)
            client.call("/start_weight_update", timeout_s=timeout_s)
            # the server answers once it has taken every tensor, so it is asked beside the broadcast
            with ThreadPoolExecutor(1) as sender:
                taking = sender.submit(client.call, "/update_weights", {"update_info": info}, timeout_s=timeout_s)
                whole = ((tensor.to(device, self._dtype or tensor.dtype)) for _, tensor in tensors)
                _broadcast(group, whole, taking, client)
            client.call("/finish_weight_update", {"weight_version": label}, timeout_s=timeout_s)
        # any failure: a group that is out of step would mix up the next update's tensors
        except BaseException:
            self._leave(client)
            raise
        acknowledged(client, label)
        client.resume()

    def forget(self, label: str) -> None:
        self._kept.pop(label, None)

    def close(self) -> None:
        self._groups.clear()

    def _joined(self, client: VllmClient, device: torch.device, timeout_s: float) -> Any:
        """The group with this server."""
        with self._lock:
            if (known := self._groups.get(client.endpoint)) is not None:
                return known[0]
        size = 1 + client.world_size()
        join = _nccl if device.type == "cuda" else _gloo
        group, store = join(client, size, self._address, device, timeout_s)
        with self._lock:
            self._groups[client.endpoint] = (group, store)
        return group

    def _leave(self, client: VllmClient) -> None:
        """A group with a failed update is never used again."""
        with self._lock:
            self._groups.pop(client.endpoint, None)
        try:
            client.call("/shutdown_weight_transfer_engine", timeout_s=PROBE_S)
        except ServerError:
            pass  # it is gone, or hadn't joined


def _broadcast(group: Any, tensors: Iterable[torch.Tensor], taking: Future[Any], client: VllmClient) -> None:
    """Raises `ServerError` where the server fails, or doesn't take them all."""
    import torch.distributed as dist

    options = dist.BroadcastOptions()
    options.rootRank = 0
    try:
        for tensor in tensors:
            # it won't take the rest, and a broadcast to it would wait for ever
            if taking.done():
                taking.result()
                raise ServerError(f"{client.endpoint}: expected it to take all tensors, but it ended before")
            group.broadcast([tensor.contiguous()], options).wait()
    except RuntimeError as error:
        if isinstance(error, ServerError):
            raise
        raise ServerError(f"{client.endpoint}: the broadcast of the weights broke: {str(error)[:200]}") from error
    taking.result()


def _gloo(client: VllmClient, size: int, address: str, device: torch.device, timeout_s: float) -> tuple[Any, Any]:
    """Rank 0 of a Gloo group that workers find by a store."""
    import torch.distributed as dist

    # port 0: any that is free
    store = dist.TCPStore(address, 0, None, True, timedelta(seconds=JOIN_S), wait_for_workers=False)
    info = {"master_address": address, "master_port": store.port, "rank_offset": 1, "world_size": size}
    with ThreadPoolExecutor(1) as sender:
        joining = sender.submit(client.call, "/init_weight_transfer_engine", {"init_info": info}, timeout_s=JOIN_S)
        try:
            group = gloo_group(store, 0, size, address, min(timeout_s, JOIN_S))
        except RuntimeError as error:
            # the server's own reason comes first, if it gave one
            joining.result()
            raise ServerError(f"{client.endpoint}: no group with it: {str(error)[:200]}") from error
        joining.result()
    return group, store


def _nccl(client: VllmClient, size: int, address: str, device: torch.device, timeout_s: float) -> tuple[Any, Any]:
    """Rank 0 of an NCCL group that workers join by its unique id. All enter it at once, and its first collective is the
    `all_reduce` of one element that vLLM's workers begin with."""
    import torch
    import torch.distributed as dist

    # for this process alone: workers join by the id, not by the store
    store = dist.TCPStore(LOOPBACK, 0, None, True, timedelta(seconds=JOIN_S), wait_for_workers=False)
    kind: Any = dist.ProcessGroupNCCL
    options = kind.Options()
    options._timeout = timedelta(seconds=timeout_s)
    group = kind(store, 0, size, options)

    def enter() -> None:
        with torch.cuda.device(device):
            group.allreduce([torch.zeros(1, device=device)]).wait()
            torch.cuda.synchronize(device)

    # side by side, since each blocks until all ranks have entered
    with ThreadPoolExecutor(2) as both:
        entering = both.submit(enter)
        unique = base64.b64encode(bytes(store.get(UNIQUE_ID_KEY))).decode("ascii")
        info = {"nccl_unique_id_b64": unique, "rank_offset": 1, "world_size": size, "packed": False}
        both.submit(client.call, "/init_weight_transfer_engine", {"init_info": info}, timeout_s=JOIN_S).result()
        entering.result()
    return group, store
