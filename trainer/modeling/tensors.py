"""Streaming over the safetensors of Hugging Face checkpoint folders: pieces of tensors in memory, both ways.

`WeightFiles` reads a folder (one `model.safetensors`, or shards named by `model.safetensors.index.json`) and
`write_like` writes a folder with the same layout from a function that yields each tensor's pieces when its turn comes.
The format is 8 bytes of header length, the header as JSON, then the tensors' bytes; offsets follow from shapes,
so the header can be written before any tensor is known.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.whole_files import whole_file

if TYPE_CHECKING:
    import torch

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Floating dtypes by their safetensors names, with their size in bytes; only these are merged."""
_SIZES = {**FLOATS, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_FLOAT_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_NAMES = {**_FLOAT_NAMES, "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}
"""torch's names of the dtypes."""
PIECE = 1 << 17
"""Elements of a tensor that are in memory at a time."""

OUTPUT_EMBEDDING = "lm_head.weight"
REMAINDER = "fp32_remainder"
"""Folder in that of a checkpoint: what bfloat16 rounded off, in files like those of the weights. No loader sees it."""


class CheckpointMismatch(ValueError):
    """Two checkpoints, or a checkpoint and its own index, don't fit together."""


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies: file name in the folder, safetensors dtype word, shape, first byte in the file."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def count(self) -> int:
        """Number of elements (1 for a scalar, 0 for an empty tensor)."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the data. Raises `CheckpointMismatch` for a dtype that isn't known."""
        if self.dtype not in _SIZES:
            raise CheckpointMismatch(f"dtype {self.dtype!r} is not supported; known are {sorted(_SIZES)}")
        return self.count * _SIZES[self.dtype]


def _tensors(path: Path) -> dict[str, TensorInfo]:
    """The tensors of one file by name, from its header. Raises `CheckpointMismatch` if the header is broken."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= size - 8:
            raise CheckpointMismatch(f"{path.name}: expected a safetensors header, found a length of {length} bytes")
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
        except ValueError as error:
            raise CheckpointMismatch(f"{path.name}: the safetensors header is no JSON: {error}") from error
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        found[name] = info = TensorInfo(path.name, entry["dtype"], tuple(entry["shape"]), 8 + length + first)
        # before anything is read: a download that was cut off is told by its header
        if info.dtype in _SIZES and (last - first != info.nbytes or 8 + length + last > size):
            raise CheckpointMismatch(
                f"{path.name}: tensor {name!r} has {last - first} bytes for {info.shape} of "
                f"{info.dtype}, in a file of {size}; is it cut off?"
            )
    return found


class WeightFiles:
    """The tensors of a checkpoint folder by name, read lazily; `tensors` is sorted by name.

    A tied output embedding that was stored all the same is left out (`tied` says so), so a folder that stores the
    alias and one that doesn't have the same names. Raises `FileNotFoundError` without weights, `CheckpointMismatch`
    where the index and the files disagree or the alias differs from the embedding it is tied to.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.files, placed = self._layout()
        found: dict[str, TensorInfo] = {}
        for file in self.files:
            for name, info in _tensors(self.folder / file).items():
                if name in found:
                    raise CheckpointMismatch(f"{self.folder.name}: tensor {name!r} is in {found[name].file} and {file}")
                found[name] = info
        if placed is not None and (wrong := sorted(set(placed) ^ set(found))):
            raise CheckpointMismatch(f"{self.folder.name}: {INDEX} and the shards disagree on tensor {wrong[0]!r}")
        self.tensors = dict(sorted(found.items()))
        self.tied = self._drop_tied_alias()
        rest = self.folder / REMAINDER
        self.remainder: WeightFiles | None = WeightFiles(rest) if rest.is_dir() else None

    def _layout(self) -> tuple[list[str], dict[str, str] | None]:
        if (self.folder / INDEX).is_file():
            placed = json.loads((self.folder / INDEX).read_text())["weight_map"]
            files = sorted(set(placed.values()))
            for file in files:
                # a name with a folder in it would lead out of the checkpoint
                if Path(file).name != file or not (self.folder / file).is_file():
                    raise CheckpointMismatch(f"{self.folder.name}: {INDEX} names {file!r}, which isn't in the folder")
            return files, placed
        if (self.folder / SINGLE).is_file():
            return [SINGLE], None
        raise FileNotFoundError(f"{self.folder}: expected {SINGLE} or {INDEX}, found neither; is it a checkpoint?")

    def _drop_tied_alias(self) -> bool:
        config = self.folder / "config.json"
        settings = json.loads(config.read_text()) if config.is_file() else {}
        # the top level rules where both speak: that is the one transformers ties by
        inner = (settings.get("text_config") or {}).get("tie_word_embeddings", False)
        if not settings.get("tie_word_embeddings", inner) or OUTPUT_EMBEDDING not in self.tensors:
            return False
        inputs = [name for name in self.tensors if name.endswith("embed_tokens.weight")]
        if len(inputs) != 1:
            raise CheckpointMismatch(
                f"{self.folder.name}: tied embeddings, but {len(inputs)} input embeddings: {inputs}"
            )
        info, alias = self.tensors[inputs[0]], self.tensors[OUTPUT_EMBEDDING]
        pairs = zip(self.pieces(inputs[0]), self.pieces(OUTPUT_EMBEDDING), strict=False)
        if (info.shape, info.dtype) != (alias.shape, alias.dtype) or not all(one.equal(other) for one, other in pairs):
            raise CheckpointMismatch(
                f"{self.folder.name}: config says tied embeddings, but {OUTPUT_EMBEDDING!r} differs from {inputs[0]!r}"
            )
        del self.tensors[OUTPUT_EMBEDDING]
        return True

    def read(self, name: str) -> torch.Tensor:
        """One tensor, as stored."""
        from safetensors import safe_open

        with safe_open(str(self.folder / self.tensors[name].file), framework="pt") as opened:
            tensor: torch.Tensor = opened.get_tensor(name)
        return tensor

    def pieces(self, name: str) -> Iterator[torch.Tensor]:
        """One tensor flat, as stored, in pieces of `PIECE` elements (the last may be shorter); each is read when
        due."""
        import torch

        info = self.tensors[name]
        width = info.nbytes // max(info.count, 1)
        with (self.folder / info.file).open("rb") as stream:
            stream.seek(info.start)
            for done in range(0, info.count, PIECE):
                # writable, as `frombuffer` wants memory to be
                data = bytearray(width * min(PIECE, info.count - done))
                if stream.readinto(data) != len(data):
                    raise CheckpointMismatch(f"{self.folder.name}: {info.file} ends within tensor {name!r}")
                yield torch.frombuffer(data, dtype=getattr(torch, _NAMES[info.dtype]))

    def precise(self, name: str) -> Iterator[torch.Tensor]:
        """`pieces`, in float32 where the folder has what rounding left over of the tensor."""
        if self.remainder is None or name not in self.remainder.tensors:
            yield from self.pieces(name)
            return
        for piece, left in zip(self.pieces(name), self.remainder.pieces(name), strict=True):
            yield unrounded(piece, left)

    def digest(self) -> str:
        """sha256 (hex) over the weight files, in the order of their names; moving a folder doesn't change it."""
        # a digest of digests, so that what lies in which file counts, too
        total = hashlib.sha256()
        for file in self.files:
            with (self.folder / file).open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()


def check_same(base: WeightFiles, other: WeightFiles) -> None:
    """Raise `CheckpointMismatch`, naming the tensor, unless both have the same names, shapes and dtypes."""
    if missing := sorted(set(base.tensors) - set(other.tensors)):
        raise CheckpointMismatch(
            f"{other.folder.name}: tensor {missing[0]!r} of the base {base.folder.name} is missing ({len(missing)} so)"
        )
    if extra := sorted(set(other.tensors) - set(base.tensors)):
        raise CheckpointMismatch(
            f"{other.folder.name}: tensor {extra[0]!r} isn't in the base {base.folder.name} ({len(extra)} in all)"
        )
    for name, info in base.tensors.items():
        found = other.tensors[name]
        for what, expected, is_found in (("shape", info.shape, found.shape), ("dtype", info.dtype, found.dtype)):
            if expected != is_found:
                raise CheckpointMismatch(
                    f"{other.folder.name}: {what} of tensor {name!r}: expected {expected} as in {base.folder.name}, "
                    f"found {is_found}; merge checkpoints of one model and one precision"
                )


def write_like(base: WeightFiles, out: Path, produce: Callable[[str], Iterable[torch.Tensor]]) -> int:
    """Write `out` in the layout and dtypes of `base`, asking `produce(name)` for the pieces of each tensor in turn.

    → bytes written. Each file is written beside its place and then put there whole, so a file that has its name is
    complete. Raises `CheckpointMismatch` if the pieces don't make up the base's tensor.
    """
    total = 0
    for file in base.files:
        names = [name for name, info in base.tensors.items() if info.file == file]
        total += _write_file(base, out / file, names, produce)
    if (base.folder / INDEX).is_file():
        size = sum(info.nbytes for info in base.tensors.values())
        index = {
            "metadata": {"total_size": size},
            "weight_map": {name: info.file for name, info in base.tensors.items()},
        }
        (out / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return total


def _write_file(
    base: WeightFiles, path: Path, names: list[str], produce: Callable[[str], Iterable[torch.Tensor]]
) -> int:
    import torch

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers refuses files without it
    offset = 0
    for name in names:
        info = base.tensors[name]
        header[name] = {"dtype": info.dtype, "shape": list(info.shape), "data_offsets": [offset, offset + info.nbytes]}
        offset += info.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format asks for aligned data
    with whole_file(path, lasting=True, alone=True) as part, part.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            written = sum(stream.write(piece.contiguous().view(torch.uint8).numpy().data) for piece in produce(name))
            if written != base.tensors[name].nbytes:
                raise CheckpointMismatch(
                    f"tensor {name!r}: expected {base.tensors[name].nbytes} bytes as in {base.folder.name}, "
                    f"found {written}; wrong shape or dtype?"
                )
        return stream.tell()


def rounded(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """float32 values in a dtype of safetensors. Halves go away from zero in bfloat16, not to the even neighbour as in
    torch: so a value and what is left over of it (`remainder`) are 16 bits each, whatever the value."""
    import torch

    if dtype != "BF16":
        return values.to(getattr(torch, _NAMES[dtype]))
    return _upper_half(values).to(torch.int16).view(torch.bfloat16)


def remainder(values: torch.Tensor) -> torch.Tensor:
    """float32 values → what `rounded` leaves over in bfloat16: int16, in float32's last places."""
    import torch

    return (values.view(torch.int32) - (_upper_half(values) << 16)).to(torch.int16)


def unrounded(values: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
    """The float32 values that `rounded` in bfloat16 and `remainder` were made from."""
    import torch

    return (values.float().view(torch.int32) + left.to(torch.int32)).view(torch.float32)


def _upper_half(values: torch.Tensor) -> torch.Tensor:
    """The bits of the nearest bfloat16, int32: a float's magnitude grows with its bits."""
    import torch

    # half of bfloat16's last place: the shift then rounds to the nearest, halves away from zero
    return (values.view(torch.int32) + 0x8000) >> 16


def layer_of(name: str) -> str:
    """The layer a tensor belongs to: its name up to the first number ("visual.blocks.3"), else but the last part."""
    match = re.match(r".*?\.\d+(?=\.|$)", name)
    return match.group() if match else name.rpartition(".")[0] or name


def parameters_digest(model: torch.nn.Module) -> str:
    """sha256 over the parameters of a loaded model, by name. The lineage knows a checkpoint by another digest, that of
    its weight files."""
    import torch

    # Sorted by name, with dtype and shape: equal bytes of another form are another model.
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return whole.hexdigest()
