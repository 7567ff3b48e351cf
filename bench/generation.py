"""The generation loop measured: six rounds with feedback, the same without, and a frozen probe set run every round.

    python bench/generation.py --rounds 6 --tasks 60 --targets 36 --out bench/generation.json

The policy's skill and the mix of strata are the same in every round, so what changes is what is proposed. Per round:
yield as verified, feasibility and policy success by the world's truth, false positives, coverage, verified
trajectories a device-hour; and what annotators alone, without the world's rule, would have verified.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OUT = Path(__file__).parent / "generation.json"
PROBES = 20


def main() -> int:
    """Run and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="with feedback, and as many without (6)")
    parser.add_argument("--tasks", type=int, default=60, help="a round (60)")
    parser.add_argument("--targets", type=int, default=36, help="sites that they are for (36)")
    parser.add_argument("--error-rate", type=float, default=0.02, help="of the scripted policy, a turn (0.02)")
    parser.add_argument("--seed", type=int, default=0, help="of sites, tasks and errors (0)")
    parser.add_argument("--home", type=Path, help="keep the stores here (a folder that is thrown away)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures go (bench/generation.json)")
    options = parser.parse_args()
    import pipelines  # noqa: F401 - before Arrow loads: it sets up the allocator
    from generators.generation.loop import LoopConfig

    config = LoopConfig(targets=options.targets, tasks=options.tasks, error_rate=options.error_rate, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        made = {
            "config": {**config.plain, "rounds": options.rounds},
            "with feedback": loop(home / "feedback", config, options.rounds, probes=PROBES),
            "without": loop(home / "ablation", replace(config, feedback=False), options.rounds),
        }
    options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 0


def loop(home: Path, config: Any, rounds: int, probes: int = 0) -> list[dict[str, Any]]:
    """A row a round."""
    from generators.generation.round_names import CATALOGUE, round_name
    from generators.generation.rounds import run_round
    from pipelines.store import Store

    store, found = Store(home), []
    for number in range(1, rounds + 1):
        began = time.monotonic()
        made = run_round(store, number, config)
        hours = made.counts["device hours"]
        row = {
            "round": number,
            **made.counts,
            **alone(store, made, config),
            "coverage before": store.require(f"{CATALOGUE}/{round_name(number)}").counts["coverage"],
            "verified a device-hour": round(made.counts["verified"] / hours, 1) if hours else None,
        }
        if probes:
            row["probe success"] = probe(store, config, probes, number)
        row["seconds"] = round(time.monotonic() - began, 1)
        found.append(row)
        print(home.name, json.dumps(row), flush=True)
    return found


def alone(store: Any, verified: Any, config: Any) -> dict[str, Any]:
    """What the annotators verify where the world's rule is hidden, and how much of it is untrue."""
    from generators.generation.loop import embedded_annotators
    from generators.generation.records import read_lines
    from generators.generation.round_names import TRAJECTORIES
    from generators.generation.verify import Verifier

    name = verified.asset.rpartition("/")[2]
    verifier = Verifier(embedded_annotators(store), replace(config.verify, world="hidden"))
    task_world, runs = config.task_world, store.require(f"{TRAJECTORIES}/{name}")
    kept = [done for done in read_lines(runs.file("trajectories.jsonl")) if verifier.verify(done).verified]
    wrong = sum(not task_world.true(done.contract, done.end_state, done.answer) for done in kept)
    return {"verified without the rule": len(kept), "of them untrue": wrong}


def probe(store: Any, config: Any, count: int, number: int) -> float:
    """Success, by truth, of the policy on a set of feasible tasks that is the same in every round."""
    from generators.execution.device_pool import LocalPool
    from generators.execution.journal import Journal
    from generators.execution.scheduling import run_all
    from generators.generation.loop import embedded_policies

    task_world, rng = config.task_world, Random(f"probe/{config.seed}")
    chosen: dict[str, Any] = {}
    while len(chosen) < count:
        target = rng.choice(task_world.targets)
        idea = next(iter(task_world.ideas(target, rng)))
        contract = task_world.contract([idea], rng)
        if contract is not None and task_world.shortest(contract):
            chosen[contract.task_id] = contract
    with Journal(store.home / "generation" / "journals", f"probe-{number:03d}") as journal:
        done = run_all(
            list(chosen.values()), LocalPool(), embedded_policies(config), journal, store=store, seeds=(1000 + number,)
        )
    right = sum(task_world.true(one.contract, one.end_state, one.answer) for one in done)
    return round(right / len(done), 4)


if __name__ == "__main__":
    sys.exit(main())
