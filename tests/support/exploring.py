"""Rounds of exploring sites without a browser, and whether documents of what was found are true."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import islice, pairwise
from pathlib import Path
from random import Random

from bench.figures import Figure, share
from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.app_document import run_script, scripts
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.task_worlds.registry import open_task_world
from generators.policies.exploration import Exploration, Way, fingerprint
from generators.policies.exploring import ExploringPolicy
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import explorer, scripted, surveyor
from generators.policies.surveying import actions_of, focus, survey_of
from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from pipelines.prompts import reply_text

TURNS, LEAST_MORE, LEAST_RIGHT, LEAST_VARIED = 40, 1.5, 0.95, 1.2
Policies = Callable[[Catalogue], PolicyMaker]
"""Who walks a round, given what the rounds before it saw."""


class RandomWalk(ExploringPolicy):
    """One of the surveyor's actions, by chance."""

    name = "walk"

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        if len(view.past) >= self.turns:
            return super().decide(view)
        rng = Random(f"walk/{self._seed}/{self._goal}/{len(view.past)}")
        focused = focus(view.elements, view.past[-1].action if view.past else None)
        action = rng.choice(list(actions_of(view.elements, focused, rng).values()))
        return Decision(reply_text(action, "web"), action)


POLICIES: dict[str, Policies] = {
    "goal": lambda _: scripted(),
    "walk": lambda _: PolicyMaker("walk", lambda contract, world: RandomWalk(TURNS)),
    "explorer": lambda _: explorer(TURNS),
    "surveyor": lambda seen: surveyor(TURNS, {name: survey_of(one) for name, one in seen.explorations.items()}),
}


def explored(sites: int, rounds: int, policies: Policies, seed: int = 0) -> Catalogue:
    """What rounds saw of so many sites. Each round has another task of a site: the explorer begins with its words."""
    task_world, catalogue = open_task_world("fsm", sites, seed), Catalogue()
    pool = LocalPool({"fsm": lambda: nullcontext(InterpretedWorld(make_site))})
    tasks = []
    for target in task_world.targets:
        ideas = islice(task_world.ideas(target, Random(seed)), 10 * rounds)
        drawn = [one for idea in ideas if (one := task_world.contract([idea], Random(seed))) is not None]
        tasks.append(list({one.task_id: one for one in drawn}.values()))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal") as journal:
        for number in range(rounds):
            chosen = [ours[number % len(ours)] for ours in tasks]
            catalogue.see(run_all(chosen, pool, policies(catalogue), journal, seeds=(number,)))
    return catalogue


def counts(catalogue: Catalogue) -> dict[str, int]:
    """What was found of all sites."""
    found = catalogue.explorations.values()
    return {"screens": sum(len(one.screens) for one in found), "ways": sum(len(set(one.ways)) for one in found)}


def bigram_entropy(ways: Sequence[Way]) -> float:
    """Bits of the distribution of two actions in a row (GUI-ReWalk's measure of how varied walks are)."""
    pairs = Counter((one.action, two.action) for one, two in pairwise(ways) if one.target == two.source)
    return -sum(n / pairs.total() * math.log2(n / pairs.total()) for n in pairs.values())


def varied_figures(name: str, catalogue: Catalogue, goal_only: Catalogue, least: float | None) -> list[Figure]:
    """How varied the walks are, against those that only go for the rounds' goals: means over sites, whole, and of as
    many steps as the goals took."""
    goals = {target: one.ways for target, one in goal_only.explorations.items()}
    walks = {target: one.ways for target, one in catalogue.explorations.items()}
    plain = sum(map(bigram_entropy, goals.values()))
    whole = sum(map(bigram_entropy, walks.values()))
    cut = sum(bigram_entropy(ways[: len(goals[target])]) for target, ways in walks.items())
    bits = f"{whole / len(walks):.2f} bits for {plain / len(goals):.2f}"
    what = f"{name}: entropy of action pairs, for goals alone"
    return [Figure(what, whole / plain, bits, least), Figure(f"{what}, as many steps", cut / plain)]


def is_right(exploration: Exploration, number: int, lines: Sequence[str]) -> bool:
    """Whether a script ends on the screen of a number."""
    try:
        end = fingerprint(run_script(lines, InterpretedWorld(make_site), exploration.starts[0]))
    except WorldError:
        return False
    return end == exploration.screens[number].fingerprint


def script_figure(catalogue: Catalogue, most: int = 300) -> Figure:
    """The share of scripts that are right, of `most` drawn ones."""
    found = [(graph, *one) for graph in catalogue.explorations.values() for one in scripts(graph).items() if one[1]]
    chosen = Random(0).sample(found, min(most, len(found)))
    right = sum(is_right(*one) for one in chosen)
    return share("scripts by selector that do what they say", right, len(chosen), LEAST_RIGHT)
