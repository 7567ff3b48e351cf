"""A claim is what the share of true items in gold is, judged by risks alone."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from quality.refinement.claims import RiskClaim, fit_claim, fit_folder, inputs, load_claim, save_claim, write_risks
from schemas.ids import item_episode, item_sample, item_step


def pool(count: int, seed: int) -> tuple[dict[str, float], list[dict], dict[str, bool]]:
    """(risks, gold rows, truth): a step is untrue with half of its risk or of its episode's; a sample with its own."""
    rng = np.random.default_rng(seed)
    risks: dict[str, float] = {}
    rows, true = [], {}
    for number in range(count):
        episode = f"e{seed}-{number // 4}"
        around = risks.setdefault(item_episode("toy", episode), float(rng.beta(1, 4)))
        repaired = rng.random() < 0.2
        told = json.dumps({"repairs": ["x"], "round": 1} if repaired else {})
        row = {
            "source": "toy",
            "episode_id": episode,
            "step_index": number % 4,
            "action_text": "Wait()",
            "provenance": told,
        }
        base = item_step("toy", episode, number % 4)
        own = float(rng.beta(1, 6))
        risks[base + ("@r1" if repaired else "")] = own
        true[base] = bool(rng.random() > 1 - (1 - own / 2) * (1 - around / 2) + 0.1 * repaired)
        rows.append(row)
        sample = f"{seed:02d}{number:030d}"
        risks[item_sample(sample)] = own
        true[item_sample(sample)] = bool(rng.random() > own)
        rows.append({"sample_id": sample, "source": "toy", "provenance": "{}"})
    return risks, rows, true


def test_the_claim_on_another_pool_is_its_true_share() -> None:
    claim = fit_claim(*pool(1500, 1))
    risks, rows, true = pool(1500, 2)
    share = sum(true.values()) / len(true)
    claimed = claim.share(risks, rows)
    assert claimed is not None and abs(claimed - share) < 0.02
    raw = float(np.mean([1 - risk for risk in risks.values()]))
    assert abs(claimed - share) < abs(raw - share)


def test_more_risk_never_raises_the_claim() -> None:
    claim = fit_claim(*pool(600, 3))
    risks, rows, _ = pool(50, 4)
    higher = {name: min(1.0, risk + 0.2) for name, risk in risks.items()}
    assert (claim.share(higher, rows) or 0) <= (claim.share(risks, rows) or 1)


def test_a_repaired_step_is_met_under_its_version_and_its_episode_too() -> None:
    row = {
        "source": "toy",
        "episode_id": "e",
        "step_index": 0,
        "action_text": "Wait()",
        "provenance": '{"repairs": ["x"], "round": 2}',
    }
    risks = {"step:toy/e/0": 0.9, "step:toy/e/0@r2": 0.1, "episode:toy/e": 0.8, "episode:toy/e@r2": 0.2}
    [(base, unit, values)] = inputs(risks, [row])
    odds = [math.log(0.1 / 0.9), math.log(0.2 / 0.8)]
    assert (base, unit) == ("step:toy/e/0", "step") and values == pytest.approx((1.0, *odds, 1.0))
    assert inputs({}, [row]) == [] and RiskClaim((0,) * 4, (0,) * 4).share({}, [row]) is None


def test_it_comes_back_from_its_folder_and_refuses_what_isn_t_one(tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    risks, rows, true = pool(200, 5)
    write_risks(tmp_path, risks)
    for name in ("steps", "samples"):
        own = [row for row in rows if ("sample_id" in row) == (name == "samples")]
        pq.write_table(pa.Table.from_pylist(own), tmp_path / f"{name}.parquet")
    claim = fit_folder(tmp_path, true)
    assert claim == fit_claim(risks, rows, true)
    assert load_claim(tmp_path) is None
    save_claim(tmp_path, claim)
    assert load_claim(tmp_path) == claim
    with pytest.raises(ValueError, match="at least 100 gold steps of known truth, found 0"):
        fit_claim({}, rows, true)
    (tmp_path / "claim.json").write_text('{"step": [1]}')
    with pytest.raises(ValueError, match="expected a claim of"):
        load_claim(tmp_path)
