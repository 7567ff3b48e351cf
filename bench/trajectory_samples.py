"""What samples of whole trajectories are worth by the truth of their worlds: `python bench/trajectory_samples.py`.

Scripted runs that err on purpose, in FSM sites and in screen graphs, without a browser: executed, judged, carried out
again and derived from as a round's are (`generators.generation`). Each figure is then measured in a fresh world, from
the samples as they would be trained on: an answer is read from its row and carried out. Where an error is, what was
planted and the distance to the goal say: the exact plan of a site, the shortest path of a graph. The scripted policy
that stands beside a replay searches the same sites, so this measures the replays, not how a weaker policy would do.
Last come 306 runs on sites whose every statement (`step_data`) is held against the site's states.
"""

import argparse
import hashlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.annotators import WorldRule
from generators.generation.judged_runs import run_verdict
from generators.generation.run_replays import with_located_errors
from generators.generation.tables import trajectory_tables
from generators.generation.verify import Verifier
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import oracle_for
from generators.policies.scripted_agent import ScriptedAgent, scripted_name
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, World
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.graph import graph_tasks
from generators.worlds.graph.graph_world import open_graph
from pipelines.derivers.derive import derive_samples
from pipelines.derivers.trajectories import TRAJECTORY_DERIVERS, derive_trajectories, judged_trajectories
from pipelines.store import Store
from schemas.actions import WIDEST, parse_reply
from schemas.rows import SampleRow

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, share
from tests.support.judged_sites import step_data_figures
from tests.support.trajectory_truth import Answers, MeasuredRun, achieved, broken_plans, levels, true_error

ERROR_RATE = 0.3
PER_SITE = 4
LONGEST = 14
"""Steps of a task at most: the planner's exact search of the longest ones takes minutes."""
LEVEL_KINDS, WAYS_BACK = ("page_function", "opened_by", "changed_by"), ("way_back", "reversal")


def contracts(runs: int, first: int = 0) -> list[TaskSpec]:
    """So many tasks: three quarters in sites of all templates, the rest in graphs; their seeds come after `first`."""
    sites, seed = list[TaskSpec](), first
    while len(sites) < 3 * runs // 4:
        seed += 1
        for kind in TEMPLATES:
            made = TaskMaker(make_site(kind, seed)).tasks(PER_SITE)
            chosen = [task.contract() for task in made if task.expected_steps <= LONGEST]
            sites += [replace(one, initial_state={"world": "fsm", **one.initial_state}) for one in chosen]
    graphs = (task for seed in range(first + 1, first + runs) for task in graph_tasks.tasks(seed))
    return [*sites[: 3 * runs // 4], *islice(graphs, runs - 3 * runs // 4)]


class DrawnSite(InterpretedWorld):
    """A site whose picture is a PNG, another for everything that it shows, as a store keeps pictures."""

    def observe(self) -> Observation:
        """See `World.observe`."""
        seen = super().observe()
        return replace(seen, png=_drawn(seen.png))


@cache
def _drawn(text: bytes) -> bytes:
    """Blocks of colour by a digest."""
    out, pixels = io.BytesIO(), hashlib.sha256(text).digest() * 15
    Image.frombytes("RGB", (16, 10), pixels).resize((512, 320), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


@contextmanager
def site() -> Iterator[World]:
    """For a pool."""
    yield DrawnSite(make_site)


def measured_runs(count: int, folder: Path, first: int = 0) -> tuple[dict[str, MeasuredRun], dict[str, pa.Table]]:
    """(episode id → run, the tables of a round) of so many runs of agents that err; `first` as in `contracts`."""
    tasks, agents = contracts(count, first), dict[str, ScriptedAgent]()

    def noisy(contract: TaskSpec, world: World) -> ScriptedAgent:
        agent = ScriptedAgent(oracle_for(contract), contract, world.state, error_rate=ERROR_RATE)
        agents[contract.task_id] = agent
        return agent

    store, maker = Store(folder / "home"), PolicyMaker(scripted_name(ERROR_RATE), noisy)
    pool = LocalPool({"fsm": site, "graph": open_graph})
    with Journal(folder / "journal") as journal:
        done = run_all(tasks, pool, maker, journal, store=store)
    tables = trajectory_tables(done, [Verifier([WorldRule()]).verify(one) for one in done], store)
    judged = {row["trajectory_id"]: run_verdict(row) for row in tables["trajectories"].to_pylist()}
    known = {name: verdict for name, verdict in judged.items() if verdict is not None}
    of_runs = {one.trajectory_id: one.contract for one in done}
    runs = list(judged_trajectories(tables["steps"], tables["screens"], known))
    located, counts = with_located_errors(runs, of_runs, ["fsm", "graph"])
    print(
        f"{len(done)} runs, {sum(v.decision == 'success' for v in known.values())} succeeded; replays: {dict(counts)}"
    )
    found = {}
    for run in located:
        name = run.steps[0]["episode_id"]
        planted = agents[of_runs[name].task_id].made
        found[name] = MeasuredRun(of_runs[name], run, tuple(planted))
    return found, tables


def error_figures(runs: dict[str, MeasuredRun]) -> Iterator[Figure]:
    """Where errors were located, by world, and how often one was seen where none is."""
    for world in ("fsm", "graph"):
        true = [(one, true_error(one)) for one in runs.values() if one.contract.world == world]
        with_error = [(one, step) for one, step in true if step is not None]
        right = sum(one.run.verdict.first_error == step for one, step in with_error)
        yield share(f"first error located, {world}", right, len(with_error), 0.9)
        clean = [one for one, step in true if step is None]
        silent = sum(one.run.verdict.first_error is None for one in clean)
        yield share(f"none located where none took it off, {world}", silent, len(clean))


def law_figure(rows: Sequence[SampleRow], runs: dict[str, MeasuredRun]) -> Figure:
    """Of the actions that failures teach, how many weren't done at or after the first true error. Ways back are counted
    by themselves: a run may have gone back by the same action."""
    whole = right = 0
    for row in rows:
        said, action = json.loads(row["provenance"]), parse_reply(row["answer"], WIDEST).action
        if action is not None and said["decision"] == "failure" and said["kind"] not in WAYS_BACK:
            one, step = runs[said["episode"]], said["step"]
            error, done = true_error(one), one.actions
            whole += 1
            right += error is None or step < error or step >= len(done) or done[step] != action
    return share("actions of failures that aren't a wrong step's", right, whole, 1.0)


def answer_figures(rows: Sequence[SampleRow], runs: dict[str, MeasuredRun]) -> Iterator[Figure]:
    """Answers by kind that are true in the world; then plans with a part left out, which must not succeed."""
    wanted = {"verification": 0.98, "way_back": 1.0, "reversal": 1.0}
    answers = Answers(runs)
    answers.count(rows)
    for kind, whole in sorted(answers.whole.items()):
        yield share(f"true: {kind}", answers.right[kind], whole, wanted.get(kind))
    broken = [achieved(runs[json.loads(row["provenance"])["episode"]], plan) for row, plan in broken_plans(rows)]
    yield share("plans with a part left out that fail", broken.count(False), len(broken))
    for kind, example in answers.examples.items():
        print(f"not true: {kind}: {example}")


def level_figures(made: pa.Table, runs: dict[str, MeasuredRun], tables: dict[str, pa.Table]) -> Iterator[Figure]:
    """The share of pictures of verified runs with three levels, without and with what the trajectories add."""
    good = [name for name, one in runs.items() if one.run.verdict.decision == "success"]
    steps = tables["steps"].filter(pc.is_in(tables["steps"]["episode_id"], value_set=pa.array(good)))
    pictures = sorted(set(steps["screenshot_sha256"].to_pylist()))
    own = derive_samples(steps, tables["screens"], licence="MIT").to_pylist()
    added = [row for row in made.to_pylist() if json.loads(row["provenance"])["kind"] in LEVEL_KINDS]
    for name, rows, wanted in (("gold's own derivers", own, None), ("and page_levels", [*own, *added], 0.95)):
        yield share(f"screens with three levels, {name}", levels(rows, pictures), len(pictures), wanted)


def main() -> int:
    """Print the table; 1 where a figure is below what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="how many tasks are executed (1000)")
    parser.add_argument("--seed", type=int, default=0, help="other sites and graphs for another number (0)")
    options, began = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runs, tables = measured_runs(options.runs, Path(folder), 1000 * options.seed)
        made = derive_trajectories([one.run for one in runs.values()], list(TRAJECTORY_DERIVERS), licence="MIT")
    print(f"samples: {dict(made.kinds)}; refused: {dict(made.refused)}; after {time.monotonic() - began:.0f} s")
    rows = [*made.corpus.to_pylist(), *made.judges.to_pylist()]
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for figure in chain(
            error_figures(runs),
            [law_figure(rows, runs)],
            answer_figures(rows, runs),
            level_figures(made.corpus, runs, tables),
            step_data_figures(Path(folder)),
        ):
            missed |= not figure.fine
            print(figure, flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
