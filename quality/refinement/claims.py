"""What share of a gold pool a judge may claim to be of high fidelity: its risks, calibrated on a pool of known truth.

A risk speaks of one unit before refinement. What is in gold was selected by these risks and partly repaired, and a
trace of low fidelity still holds steps that are right. So the chance that a gold item is untrue is a logistic
regression on the log-odds of its own risk, of its episode's, and on whether it was repaired, fitted on refined corpora
whose truth a world told (`vesper refine bench --fit-claim`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quality.items.item import step_id
from schemas.ids import item_episode, item_sample

FILE, RISKS = "claim.json", "risks.parquet"
LEAST = 100
"""Gold items of a unit that a fit needs."""
PENALTY = 1.0
"""L2 on the weights (not on the bias), in items: a weight moves only if many items ask for it."""
LARGEST = 8.0
"""Log-odds are held within ± this."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RiskClaim:
    """Weights of (1, log-odds of the item's risk, of its episode's, repaired) by unit, `step` and `sample`."""

    step: tuple[float, ...]
    sample: tuple[float, ...]

    def share(self, risks: Mapping[str, float], gold: Sequence[Row]) -> float | None:
        """Expected share of true items among gold rows with an action or an answer; None if none has a risk."""
        chances = [
            1 / (1 + math.exp(float(np.dot(getattr(self, unit), values)))) for _, unit, values in inputs(risks, gold)
        ]
        return sum(chances) / len(chances) if chances else None


def inputs(risks: Mapping[str, float], gold: Sequence[Row]) -> list[tuple[str, str, tuple[float, ...]]]:
    """(base item id, unit, inputs of the regression) of each gold row whose last verdict holds a risk."""
    found: list[tuple[str, str, tuple[float, ...]]] = []
    for row in gold:
        # The last screen of an episode has no action, so nothing to be right or wrong.
        if row.get("action_text", "") is None:
            continue
        if "sample_id" in row:
            name = base = item_sample(row["sample_id"])
            # A sample stands alone: there is no episode whose risk would tell of it.
            around = None
        else:
            name = step_id(row)
            base = name.partition("@")[0]
            # The episode as it was judged with this step's version, else as it was at first.
            around = risks.get(_episode_of(name, row), risks.get(item_episode(row["source"], row["episode_id"])))
        # A repaired item has a verdict of its own; one without repairs is found by its first id.
        risk = risks.get(name, risks.get(base))
        if risk is not None:
            repaired = float("repairs" in json.loads(row["provenance"] or "{}"))
            values = (1.0, _odds(risk), 0.0 if around is None else _odds(around), repaired)
            found.append((base, "sample" if "sample_id" in row else "step", values))
    return found


def _episode_of(step: str, row: Row) -> str:
    """The episode as it was judged with this version of a step."""
    _, at, version = step.partition("@")
    return item_episode(row["source"], row["episode_id"]) + at + version


def _odds(risk: float) -> float:
    # Away from 0 and 1, where log-odds are infinite.
    risk = min(max(risk, 1e-6), 1 - 1e-6)
    return max(-LARGEST, min(LARGEST, math.log(risk / (1 - risk))))


def fit_claim(risks: Mapping[str, float], gold: Sequence[Row], true: Mapping[str, bool]) -> RiskClaim:
    """Fit on a refined corpus: base item id → whether it is true. Raises `ValueError` on too few gold items."""
    rows = [(unit, values, true[base]) for base, unit, values in inputs(risks, gold) if base in true]
    fitted = {}
    for unit in ("step", "sample"):
        own = [(values, is_true) for name, values, is_true in rows if name == unit]
        if len(own) < LEAST:
            raise ValueError(f"claim: expected at least {LEAST} gold {unit}s of known truth, found {len(own)}")
        x = np.array([values for values, _ in own])
        # The regression is of being untrue, like the risk.
        fitted[unit] = _logistic(x, np.array([not is_true for _, is_true in own], np.float64))
    return RiskClaim(**fitted)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[float, ...]:
    from scipy.optimize import minimize

    def loss(weights: np.ndarray) -> float:
        out = x @ weights
        # Without a penalty, weights of a feature that separates all items would grow without end.
        return float((np.logaddexp(0, out) - y * out).sum() + 0.5 * PENALTY * (weights[1:] ** 2).sum())

    bounds = [(-20.0, 20.0), (0.0, 5.0), (0.0, 5.0), (-5.0, 5.0)]  # more risk is never less
    # About 5 % untrue, and hardly any influence of the risks, to begin with.
    found = minimize(loss, np.array([-3.0, 0.1, 0.1, 0.0]), method="L-BFGS-B", bounds=bounds)
    return tuple(round(float(value), 6) for value in found.x)


def fit_folder(out_dir: Path, true: Mapping[str, bool]) -> RiskClaim:
    """Fit on what `vesper refine` wrote."""
    risks = pq.read_table(out_dir / RISKS).to_pylist()
    gold = [row for name in ("steps", "samples") for row in pq.read_table(out_dir / f"{name}.parquet").to_pylist()]
    return fit_claim({row["item_id"]: row["risk"] for row in risks}, gold, true)


def write_risks(out_dir: Path, risks: Mapping[str, float]) -> None:
    """Keep the risks beside the gold tables, for `fit_folder`."""
    rows = [{"item_id": name, "risk": risk} for name, risk in sorted(risks.items())]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("item_id", pa.string()), ("risk", pa.float64())]))
    pq.write_table(table, out_dir / RISKS)


def save_claim(folder: Path, claim: RiskClaim) -> None:
    """Write it beside the judge that it belongs to."""
    (folder / FILE).write_text(json.dumps(asdict(claim), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_claim(folder: Path) -> RiskClaim | None:
    """The claim of a judge's folder; None if none was fitted. Raises `ValueError` on a file that isn't one."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        plain = {name: tuple(map(float, values)) for name, values in json.loads(path.read_text("utf-8")).items()}
        if any(len(values) != 4 for values in plain.values()):
            raise ValueError("expected four weights")
        return RiskClaim(**plain)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a claim of `vesper refine bench --fit-claim`: {error}") from error
