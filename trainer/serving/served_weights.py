"""The weights of a rollout server, changed between replies as vLLM's are: reloaded from a folder, or broadcast to it.

Whatever is refused leaves the weights as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.modeling.published_layout import swapped
from trainer.runtime.gloo import JOIN_S, gloo_group
from trainer.serving.requests import RequestRefused

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST_LABEL = "default"
"""The label of replies before anyone has named the weights, as vLLM's do."""
_DTYPES = {"float32", "bfloat16", "float16"}


class ServedWeights:
    """Of `model`, under `lock`. They are reloaded from folders below `root` (None: from none); with `weight_transfer`
    they may come from a learner by a Gloo group, too. `label` is theirs."""

    def __init__(
        self, model: PreTrainedModel, lock: threading.Lock, root: str | Path | None, weight_transfer: bool
    ) -> None:
        self._model, self._lock, self._transfers = model, lock, weight_transfer
        self._root = None if root is None else Path(root).resolve()
        self.label = FIRST_LABEL
        self._group: Any = None
        self._store: Any = None  # by which the group came about
        self._came: dict[str, Any] = {}

    def collective_rpc(self, body: Mapping[str, object]) -> dict[str, object]:
        """`reload_weights` of a `weights_path`. Raises `RequestRefused`; the weights are then the old ones still."""
        if body.get("method") != "reload_weights":
            raise RequestRefused(400, f"method: expected reload_weights, found {body.get('method')!r:.60}", "method")
        kwargs = body.get("kwargs")
        given = kwargs.get("weights_path") if isinstance(kwargs, dict) else None
        if self._root is None or not isinstance(given, str):
            raise RequestRefused(
                400,
                "weights_path: expected a folder, and a server that was started with a weights root",
                "weights_path",
            )
        # resolved first, so that neither `..` nor a link leads out of the root
        folder = Path(given).resolve()
        if not folder.is_relative_to(self._root) or not folder.is_dir():
            raise RequestRefused(
                400, f"weights_path: expected a folder below the weights root, found {given[:120]!r}", "weights_path"
            )
        self._load(folder)
        return {"results": [None]}

    def _load(self, folder: Path) -> None:
        """All of a checkpoint's tensors, or none of them."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        given: dict[str, Any] = {}
        try:
            for path in sorted(folder.glob("*.safetensors")):
                given.update(load_file(path))
        except (OSError, SafetensorError) as error:
            raise RequestRefused(400, f"weights_path: {str(error)[:200]}", "weights_path", "bad_weights") from error
        # before the first tensor is changed
        self._check_tensors({name: tensor.shape for name, tensor in given.items()})
        with self._lock:
            # not strict, since a tied tensor comes once; that nothing else is missing was checked
            self._model.load_state_dict(swapped(self._model, given), strict=False)

    def _check_tensors(self, shapes: Mapping[str, object]) -> None:
        """Raises `RequestRefused` unless these are all of the model's, as published; a tied tensor comes once."""
        own = swapped(self._model, self._model.state_dict())
        there = {own[name].data_ptr() for name in shapes if name in own}
        wrong = sorted(name for name, tensor in own.items() if tensor.data_ptr() not in there)
        wrong += sorted(name for name, shape in shapes.items() if name not in own or own[name].shape != shape)
        if wrong:
            raise RequestRefused(
                400,
                f"weights: expected this model's tensors, found {len(wrong)} missing, unknown or of "
                f"another shape, first {wrong[0][:120]}",
                "weights",
                "bad_weights",
            )

    def update_weight_version(self, body: Mapping[str, object]) -> dict[str, object]:
        """Name the weights."""
        label = body.get("new_version")
        if not isinstance(label, str) or not 1 <= len(label) <= 200:
            raise RequestRefused(400, f"new_version: expected a label, found {label!r:.40}", "new_version")
        with self._lock:
            self.label = label
        return {"success": True, "new_version": label}

    def init_weight_transfer_engine(self, body: Mapping[str, object]) -> dict[str, object]:
        """Join the learner's group. Raises `RequestRefused`."""
        import torch.distributed as dist

        info = body.get("init_info")
        if not self._transfers or not isinstance(info, dict) or "nccl_unique_id_b64" in info:
            raise RequestRefused(
                400,
                "init_info: expected a Gloo group, and a server that was started for weight transfer",
                "init_info",
                "unsupported",
            )
        address = info.get("master_address")
        numbers: list[Any] = [info.get(name) for name in ("master_port", "rank_offset", "world_size")]
        # `type`, since True is an int to `isinstance`
        if not isinstance(address, str) or not all(type(one) is int and one > 0 for one in numbers):
            raise RequestRefused(
                400,
                f"init_info: expected master_address, master_port, rank_offset and world_size, found {info!r:.120}",
                "init_info",
            )
        try:
            limit = timedelta(seconds=JOIN_S)
            self._store = dist.TCPStore(address, numbers[0], None, False, limit, wait_for_workers=False)
            self._group = gloo_group(self._store, numbers[1], numbers[2], address, JOIN_S)
        except RuntimeError as error:
            raise RequestRefused(
                500, f"init_info: no group with {address[:80]}: {str(error)[:160]}", "init_info"
            ) from error
        return {"message": "Weight transfer initialized"}

    def shutdown_weight_transfer_engine(self) -> dict[str, object]:
        """Leave the group."""
        self._group, self._store, self._came = None, None, {}
        return {"message": "Weight transfer shut down"}

    def start_weight_update(self, paused: bool) -> dict[str, object]:
        """Be ready for weights. Raises `RequestRefused` while requests are taken."""
        if self._group is None or not paused:
            raise RequestRefused(400, "expected a server that is paused and has joined a group", code="not_ready")
        self._came = {}
        return {"message": "Weight update started"}

    def update_weights(self, body: Mapping[str, object]) -> dict[str, object]:
        """Take tensors in the order of their names. Raises `RequestRefused`; the weights are then the old ones
        still."""
        import torch
        import torch.distributed as dist

        info = body.get("update_info")
        info = info if isinstance(info, dict) else {}
        names, kinds, shapes = (info.get(name) for name in ("names", "dtype_names", "shapes"))
        if (
            not isinstance(names, list)
            or not isinstance(kinds, list)
            or not isinstance(shapes, list)
            or not (len(names) == len(kinds) == len(shapes))
        ):
            raise RequestRefused(
                400, "update_info: expected names, dtype_names and shapes of equal length", "update_info"
            )
        # before the first broadcast, which couldn't be ended half-way
        self._check_tensors({str(name): torch.Size(shape) for name, shape in zip(names, shapes, strict=True)})
        if self._group is None or {*kinds} - _DTYPES:
            raise RequestRefused(400, f"update_info: expected a group, and dtypes of {sorted(_DTYPES)}", "update_info")
        options = dist.BroadcastOptions()
        options.rootRank = 0
        # beside the model: a broadcast that breaks leaves the old weights in place
        received = {}
        try:
            for name, kind, shape in zip(names, kinds, shapes, strict=True):
                received[name] = torch.empty(shape, dtype=getattr(torch, kind))
                self._group.broadcast([received[name]], options).wait()
        except RuntimeError as error:
            raise RequestRefused(
                500, f"update_weights: the broadcast broke: {str(error)[:160]}", code="broken"
            ) from error
        self._came = received
        return {"message": "Weights updated"}

    def finish_weight_update(self, body: Mapping[str, object]) -> dict[str, object]:
        """Answer from the weights that came, under their label. Raises `RequestRefused` where none came."""
        if not self._came:
            raise RequestRefused(400, "expected weights by /update_weights before", code="not_ready")
        with self._lock:
            self._model.load_state_dict(swapped(self._model, self._came), strict=False)
            self._came = {}
        if body.get("weight_version") is not None:
            self.update_weight_version({"new_version": body["weight_version"]})
        return {"message": "Weight update finished"}
