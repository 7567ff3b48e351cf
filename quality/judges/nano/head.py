"""A head: small networks and a forest on named features, run in numpy and kept as safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quality.judges.nano.forest import Forest, from_tensors

Array = np.ndarray
CLIP = 6.0
"""Standardised features are held within ± this."""
SURE = 1e-3
"""A forest's share is held this far from 0 and 1."""


@dataclass(frozen=True)
class NanoHead:
    """`members` are lists of (weights [in, out], bias [out]) with ReLU between; `mean` and `scale` per feature. With a
    forest, its log-odds and theirs count half each.

    A feature that is missing (NaN) counts as its mean, and its absence is an input of its own. `slope` and `shift` make
    log-odds of what comes out (Platt 1999), by families that it wasn't trained on.
    """

    names: tuple[str, ...]
    mean: Array
    scale: Array
    members: tuple[tuple[tuple[Array, Array], ...], ...]
    forest: Forest | None = None
    slope: float = 1.0
    shift: float = 0.0

    def rows(self, found: Sequence[Mapping[str, float]]) -> Array:
        """Feature dicts → float32 [n, 2 · features]. Raises `KeyError` for a feature that is absent."""
        return standardised(matrix(found, self.names), self.mean, self.scale)

    def logits(self, found: Sequence[Mapping[str, float]]) -> Array:
        """Log-odds of "this is of low fidelity" (for the transition head: "this follows"), float64 [n]."""
        if not found:
            return np.zeros(0)
        rows = self.rows(found)
        # The mean of log-odds, not of shares: members that are sure count for more.
        odds = np.mean([_forward(rows, layers) for layers in self.members], axis=0)
        if self.forest is not None:
            share = np.clip(self.forest.shares(rows), SURE, 1 - SURE)
            # Half networks, half trees: they err in different places.
            odds = (odds + np.log(share / (1 - share))) / 2
        return np.asarray(self.slope * odds + self.shift)

    def tensors(self) -> dict[str, Array]:
        """The head as named arrays."""
        named = {"mean": self.mean, "scale": self.scale, "platt": np.array([self.slope, self.shift])}
        if self.forest is not None:
            named |= {f"forest:{name}": array for name, array in self.forest.tensors().items()}
        for place, layers in enumerate(self.members):
            for depth, (weights, bias) in enumerate(layers):
                named |= {f"{place}.{depth}.weight": weights, f"{place}.{depth}.bias": bias}
        return named


def matrix(found: Sequence[Mapping[str, float]], names: Sequence[str]) -> Array:
    """Feature dicts → float32 [n, features], NaN where missing."""
    rows = np.array([[row[name] for name in names] for row in found], np.float64).reshape(len(found), len(names))
    # Infinities would make everything NaN.
    return np.clip(rows, -1e30, 1e30).astype(np.float32)


def standardised(values: Array, mean: Array, scale: Array) -> Array:
    """Standardised features with their absences behind them."""
    absent = np.isnan(values)
    centred = np.where(absent, 0.0, (values - mean) / scale)
    # How much is missing is a feature of its own.
    return np.concatenate([np.clip(centred, -CLIP, CLIP), absent], axis=1).astype(np.float32)


def _forward(rows: Array, layers: Sequence[tuple[Array, Array]]) -> Array:
    hidden = rows
    for depth, (weights, bias) in enumerate(layers):
        hidden = hidden @ weights + bias
        if depth + 1 < len(layers):
            hidden = np.maximum(hidden, 0.0)
    return hidden[:, 0].astype(np.float64)


def sigmoid(logits: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    # By tanh, which never overflows.
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, np.float64)))


def save_heads(folder: Path, heads: Mapping[str, NanoHead], about: Mapping[str, object]) -> None:
    """Write `nano.safetensors` and `nano.json` (feature names, thresholds, lineage)."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    named = {
        f"{name}/{key}": np.ascontiguousarray(value)
        for name, head in heads.items()
        for key, value in head.tensors().items()
    }
    save_file(named, folder / "nano.safetensors")
    plain = {"heads": {name: list(head.names) for name, head in heads.items()}, **about}
    (folder / "nano.json").write_text(json.dumps(plain, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_heads(folder: Path) -> tuple[dict[str, NanoHead], dict[str, object]]:
    """What `save_heads` wrote. Raises `ValueError` naming the folder if it holds no nano judge."""
    from safetensors.numpy import load_file

    try:
        about = json.loads((folder / "nano.json").read_text(encoding="utf-8"))
        named = load_file(folder / "nano.safetensors")
        heads = {name: _head(names, named, f"{name}/") for name, names in about["heads"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: expected a nano judge (nano.json, nano.safetensors): {error}") from error
    return heads, about


def _head(names: Sequence[str], named: Mapping[str, Array], prefix: str) -> NanoHead:
    members: dict[int, dict[int, dict[str, Array]]] = {}
    for key, value in named.items():
        # Names are `head/member.layer.kind`.
        if key.startswith(prefix) and key.count(".") == 2:
            place, depth, kind = key.removeprefix(prefix).split(".")
            members.setdefault(int(place), {}).setdefault(int(depth), {})[kind] = value
    layers = tuple(
        tuple((parts["weight"], parts["bias"]) for _, parts in sorted(member.items()))
        for _, member in sorted(members.items())
    )
    trees = {key.removeprefix(f"{prefix}forest:"): array for key, array in named.items() if f"{prefix}forest:" in key}
    slope, shift = named[f"{prefix}platt"].tolist()
    return NanoHead(
        tuple(names),
        named[f"{prefix}mean"],
        named[f"{prefix}scale"],
        layers,
        from_tensors(trees) if trees else None,
        slope,
        shift,
    )
