"""Merging specialists into one agent: linear and TIES over safetensors, piece by piece in fp32 (docs/method.md §8).

The words are mergekit's (`density`, `weight`, `normalize`, `lambda`), and so are the semantics (`merge_methods` has the
arithmetic), but for three things: entries of equal magnitude at the edge of a trim are kept from the lowest index on
(mergekit: as its sort brings them); deltas are always taken in fp32 (mergekit takes them in the dtype it is given, and
bf16 rounding eats RL-sized deltas); and an element that exactly one expert moved at coefficient 1 takes that expert's
value itself, so that one expert at weight 1, density 1 returns itself bit for bit instead of `θ_0 + (θ_1 − θ_0)` with
its rounding.
The result is a pure function of the *set* of (expert, weight, density): experts are summed in the order of
their digests.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.ids import canonical_json
from trainer.merging.merge_methods import TensorReport, TensorTally, Trim, TrimCut, cut_for, linear_piece, ties_piece
from trainer.merging.same_model import check_same_model
from trainer.modeling.tensors import FLOATS, CheckpointMismatch, WeightFiles, check_same, layer_of, rounded, write_like

if TYPE_CHECKING:
    import torch

METHODS = ("linear", "ties")
LINEAGE, PRESET = "lineage.json", "preset.json"
REPORT = "merge.json"
_LINEAGE_KEPT = ("preset", "code_version", "action_space", "prompt_version", "prompt_digest")


@dataclass(frozen=True)
class MergeReport:
    """What a merge did: the parameters as used, per-tensor reports, the same by layer, and over the whole vector."""

    method: str
    density: tuple[float, ...]
    weight: tuple[float, ...]
    normalize: bool
    lam: float
    tensors: tuple[TensorReport, ...]
    layers: tuple[TensorReport, ...]
    total: TensorReport
    bytes_written: int
    weights_digest: str

    def record(self) -> dict[str, object]:
        """The report as plain JSON data."""
        return asdict(self)

    def counts(self) -> dict[str, object]:
        """What a stage keeps among its counts: shares kept (one number per model) and of sign conflicts, by layer."""
        return {
            "kept": list(self.total.kept),
            "sign_conflicts": self.total.conflicts,
            "layers": {
                layer.name: {"kept": list(layer.kept), "sign_conflicts": layer.conflicts} for layer in self.layers
            },
        }


def pool(reports: Sequence[TensorReport], name: str) -> TensorReport:
    """Many reports as one: shares weighted by element counts, norms as the root of the sum of squares."""
    count = sum(report.count for report in reports)
    whole = max(count, 1)
    experts = range(len(reports[0].kept) if reports else 0)
    return TensorReport(
        name=name,
        count=count,
        kept=tuple(sum(report.kept[i] * report.count for report in reports) / whole for i in experts),
        conflicts=sum(report.conflicts * report.count for report in reports) / whole,
        delta_norm=math.sqrt(math.fsum(report.delta_norm**2 for report in reports)),
        expert_norms=tuple(math.sqrt(math.fsum(r.expert_norms[i] ** 2 for r in reports)) for i in experts),
    )


def merge(
    method: str,
    base: str | Path,
    models: Sequence[str | Path],
    out: str | Path,
    density: float | Sequence[float] = 1.0,
    weights: Sequence[float] | None = None,
    normalize: bool = True,
    lam: float = 1.0,
    parents: Mapping[str, str] | None = None,
    stage: str = "",
) -> MergeReport:
    """Merge checkpoint folders into the new folder `out`; → what happened, also in `out/merge.json`.

    `base` is the common ancestor θ_0 (the mid-trained checkpoint); configuration and tokenizer files come from it, but
    for how the result is played: with thoughts in histories, and asked for them, if any expert learned from such.
    `weights` default to 1 each (ties) or 1/n each (linear); linear weights must sum to 1, or are divided by their sum
    under `normalize`. `density` is one number or one per model, in 0..1. Memory: some 100 MiB, whatever the tensors.
    Specialists are to be kept in fp32, or in bf16 with what that rounded off (`tensors.REMAINDER`): without, a
    `UserWarning` says how that hurts.
    `parents` (asset → version) and `stage` go into `lineage.json`; by default the digests of the weights and `method`.
    Raises `ValueError` on wrong parameters and `CheckpointMismatch` where checkpoints are of different models
    (`same_model`), or, naming the tensor, when names, shapes or dtypes differ, a weight isn't finite, or an integer
    tensor isn't the same in all. `lineage.json` is written last: a folder that has it is whole.
    """
    folder = Path(out)
    # All that can be refused is refused before the first byte is written.
    densities, used = _parameters(method, len(models), density, weights, normalize, lam)
    base_files, model_files = WeightFiles(base), [WeightFiles(model) for model in models]
    check_same_model(base_files.folder, [files.folder for files in model_files])
    for files in model_files:
        check_same(base_files, files)
    if folder.resolve() in {files.folder.resolve() for files in (base_files, *model_files)}:
        raise ValueError(f"--out {folder} is one of the checkpoints that are merged; give a new folder")
    if (folder / LINEAGE).exists():
        raise ValueError(f"{folder} already holds a finished checkpoint; give a new folder or remove it")
    _warn_of_rounding(model_files)
    folder.mkdir(parents=True, exist_ok=True)
    digests = [files.digest() for files in model_files]
    # By digest, then by what distinguishes two uses of one expert: sums of floats depend on their order.
    order = sorted(range(len(models)), key=lambda i: (digests[i], used[i], densities[i]))
    reports: list[TensorReport] = []

    def produce(name: str) -> Iterator[torch.Tensor]:
        files = [base_files, *(model_files[i] for i in order)]
        if base_files.tensors[name].dtype not in FLOATS:
            yield from _same_integers(name, files)
            return
        tally = TensorTally(len(order))
        ordered = [used[i] for i in order]
        # one for each tensor, since a trim counts the equal magnitudes that it has still to keep
        trims = [Trim(_cut(name, base_files, model_files[i], densities[i])) for i in order if method == "ties"]
        for pieces in zip(*(each.precise(name) for each in files), strict=True):
            theta, *experts = (_checked(name, piece) for piece in pieces)
            if method == "linear":
                merged = linear_piece(theta, experts, ordered, tally)
            else:
                merged = ties_piece(theta, experts, trims, ordered, normalize, lam, tally)
            yield rounded(merged, base_files.tensors[name].dtype)
        reports.append(_caller_order(tally.report(name), order))

    # Tensor by tensor into the new folder, so that no model is in memory whole.
    written = write_like(base_files, folder, produce)
    _copy_settings(base_files.folder, folder)
    _play_as_trained(folder, [files.folder for files in model_files])
    report = MergeReport(
        method=method,
        density=densities,
        weight=used,
        normalize=normalize,
        lam=lam,
        tensors=tuple(reports),
        layers=_by_layer(reports),
        total=pool(reports, "total"),
        bytes_written=written,
        weights_digest=WeightFiles(folder).digest(),
    )
    (folder / REPORT).write_text(json.dumps(report.record(), indent=1, sort_keys=True) + "\n")
    _write_lineage(folder, report, stage or method, base_files, digests, parents)
    return report


def _parameters(
    method: str,
    count: int,
    density: float | Sequence[float],
    weights: Sequence[float] | None,
    normalize: bool,
    lam: float,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """→ (density per model, weight per model), checked; a linear merge's weights sum to 1."""
    if method not in METHODS:
        raise ValueError(f"merge method: expected one of {METHODS}, found {method!r}")
    if count == 0:
        raise ValueError("merge: expected at least one model, found none")
    densities = (float(density),) * count if isinstance(density, int | float) else tuple(map(float, density))
    default = 1.0 / count if method == "linear" else 1.0
    used = (default,) * count if weights is None else tuple(map(float, weights))
    for word, values in (("density", densities), ("weight", used)):
        if len(values) != count:
            raise ValueError(f"{word}: expected one per model ({count}), found {len(values)}")
    if not all(0.0 <= value <= 1.0 for value in densities):
        raise ValueError(f"density: expected numbers in 0..1, found {densities}")
    if not all(math.isfinite(value) and value >= 0 for value in used) or sum(used) <= 0:
        raise ValueError(f"weight: expected finite numbers >= 0 that aren't all 0, found {used}")
    if not math.isfinite(lam):
        raise ValueError(f"lambda: expected a finite number, found {lam}")
    if method == "linear":
        if any(value != 1.0 for value in densities) or lam != 1.0:
            raise ValueError(
                f"merge: linear takes the mean of the weights whole; expected density and lambda 1, found "
                f"{densities} and {lam}; leave them out, or merge by ties"
            )
        total = math.fsum(used)
        if abs(total - 1.0) > 1e-9:
            if not normalize:
                raise ValueError(f"linear merge: weights {used} sum to {total}, expected 1 (or set normalize)")
            used = tuple(value / total for value in used)
    return densities, used


def _warn_of_rounding(models: Sequence[WeightFiles]) -> None:
    """A step of RL is often smaller than a bf16's last place: then it is in no file, and no merge brings it back."""
    # a folder with a remainder has its float32 weights whole
    cut = {info.dtype for files in models if files.remainder is None for info in files.tensors.values()}
    if found := sorted(cut & {"BF16", "F16"}):
        warnings.warn(
            f"merge: the checkpoints hold {' and '.join(found)}, which rounds off much of what training changed; "
            f"keep specialists and their base in fp32 for the merge, and convert the result",
            stacklevel=3,
        )


def _cut(name: str, base: WeightFiles, model: WeightFiles, density: float) -> TrimCut:
    def deltas() -> Iterator[torch.Tensor]:
        for theta, expert in zip(base.precise(name), model.precise(name), strict=True):
            yield _checked(name, expert) - _checked(name, theta)

    return cut_for(deltas, base.tensors[name].count, density)


def _checked(name: str, piece: torch.Tensor) -> torch.Tensor:
    import torch

    if not bool(torch.isfinite(piece).all()):
        raise CheckpointMismatch(f"tensor {name!r} holds a value that isn't finite; the checkpoint is broken")
    return piece.to(torch.float32)


def _same_integers(name: str, files: Sequence[WeightFiles]) -> Iterator[torch.Tensor]:
    for stored, *others in zip(*(each.pieces(name) for each in files), strict=True):
        if not all(other.equal(stored) for other in others):
            raise CheckpointMismatch(f"tensor {name!r} is of type {stored.dtype} and differs between models")
        yield stored


def _caller_order(report: TensorReport, order: Sequence[int]) -> TensorReport:
    """Per-expert numbers come in summing order; give them back in the caller's."""
    place = {model: position for position, model in enumerate(order)}
    back = [place[model] for model in range(len(order))]
    # Conflicts and the delta's norm are of all experts together, and have no order.
    return TensorReport(
        report.name,
        report.count,
        tuple(report.kept[p] for p in back),
        report.conflicts,
        report.delta_norm,
        tuple(report.expert_norms[p] for p in back),
    )


def _by_layer(reports: Sequence[TensorReport]) -> tuple[TensorReport, ...]:
    groups: dict[str, list[TensorReport]] = {}
    for report in reports:
        groups.setdefault(layer_of(report.name), []).append(report)
    return tuple(pool(group, name) for name, group in sorted(groups.items()))


def _copy_settings(source: Path, target: Path) -> None:
    """Configuration and tokenizer files (all small text), never weights, lineage or metrics of the base's own run."""
    own = {LINEAGE, REPORT, "rl.json"}
    # Not the shards' index: the result's own shards are written anew.
    for path in sorted(source.iterdir()):
        wanted = path.suffix in {".json", ".jinja", ".txt", ".model"} and not path.name.endswith(".index.json")
        if wanted and path.is_file() and path.name not in own:
            shutil.copyfile(path, target / path.name)


def _play_as_trained(folder: Path, models: Sequence[Path]) -> None:
    """Put what any of the models' `preset.json` says of how it is played (`trainer.presets.Preset.history`, `thinking`)
    into that of the folder. A grounding specialist has no histories and says nothing, so it doesn't outvote others."""
    presets = [
        json.loads((model / PRESET).read_text(encoding="utf-8")) for model in models if (model / PRESET).is_file()
    ]
    played: dict[str, Any] = {}
    for key, value in (("history", "think_action"), ("thinking", True)):
        if any(one.get(key) == value for one in presets):
            played[key] = value
    path = folder / PRESET
    if played and path.is_file():
        plain = {**json.loads(path.read_text(encoding="utf-8")), **played}
        path.write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_lineage(
    folder: Path,
    report: MergeReport,
    stage: str,
    base: WeightFiles,
    digests: Sequence[str],
    parents: Mapping[str, str] | None,
) -> None:
    """In the form of `trainer.modeling.checkpoint.Lineage`, so that a merged folder loads like any other."""
    path = base.folder / LINEAGE
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    # Only what says which model it is: metrics and seeds of the base's run aren't the merge's.
    before = {key: value for key, value in before.items() if key in _LINEAGE_KEPT}
    lineage = {
        "preset": "",
        **before,
        "stage": stage,
        "parents": dict(parents or _parents(base, digests)),
        "config": {
            "merge_method": report.method,
            "density": list(report.density),
            "weight": list(report.weight),
            "normalize": report.normalize,
            "lambda": report.lam,
            "dtype": "float32",
        },
        "seeds": {},
        "metrics": {
            "kept": list(report.total.kept),
            "conflicts": report.total.conflicts,
            "delta_norm": report.total.delta_norm,
            "expert_norms": list(report.total.expert_norms),
        },
    }
    (folder / LINEAGE).write_text(canonical_json(lineage) + "\n", encoding="utf-8")


def _parents(base: WeightFiles, digests: Sequence[str]) -> dict[str, str]:
    """Without names from the caller, parents are known by the digests of their weights."""
    return {"base": base.digest(), **{f"expert_{i}": value for i, value in enumerate(digests, start=1)}}
