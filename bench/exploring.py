"""How much of sites explorers find: python bench/exploring.py

Twelve sites, one of each kind, without a browser; in each round every site is walked for 40 turns from its start. What
counts are screens that look different and ways between them (screen, action, screen). The surveyor goes on from what
the rounds before it saw; its reference is a walk that takes one of the same actions by chance. Exit code 1 where it
finds fewer than 1.5 times the screens or the ways.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure
from generators.generation.task_worlds.registry import open_task_world
from generators.policies.exploration import fingerprint
from generators.policies.exploring import ExploringPolicy
from generators.policies.policy import Decision, PastTurn, Policy, PolicyView
from generators.policies.surveying import SurveyingPolicy, actions_of, focus
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from schemas.actions import format

SITES, TURNS, LEAST = 12, 40, 1.5


class RandomWalk(ExploringPolicy):
    """One of the surveyor's actions, by chance."""

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        rng = Random(f"walk/{self._seed}/{self._goal}/{len(view.past)}")
        focused = focus(view.elements, view.past[-1].action if view.past else None)
        return Decision("", rng.choice(list(actions_of(view.elements, focused, rng).values())))


def found(make: Callable[[], Policy], seed: int, rounds: int) -> tuple[int, int]:
    """(screens, ways) of all sites. `make` gives the policy that walks a site in all rounds."""
    task_world = open_task_world("fsm", SITES, seed)
    screens, ways = set[tuple[str, str]](), set[tuple[str, str, str, str]]()
    for target in task_world.targets:
        world, policy = InterpretedWorld(make_site), make()
        for number in range(rounds):
            world.reset(task_world.start(target))
            policy.begin(f"round {number}", "web", number)
            past, seen = list[PastTurn](), world.observe()
            for _ in range(TURNS):
                here = fingerprint(seen.elements)
                view = PolicyView("", seen.png, world.size_px, "web", tuple(past), seen.elements)
                action = policy.decide(view).action
                assert action is not None
                world.act(action)
                past.append(PastTurn(action))
                seen = world.observe()
                screens |= {(target, here), (target, fingerprint(seen.elements))}
                ways.add((target, here, format(action), fingerprint(seen.elements)))
            if isinstance(policy, SurveyingPolicy):
                policy.survey = policy.seen
    return len(screens), len(ways)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="other sites for another number (0)")
    parser.add_argument("--rounds", type=int, default=10, help="of 40 turns a site (10)")
    given = parser.parse_args()
    walked = found(partial(RandomWalk, TURNS), given.seed, given.rounds)
    fine = True
    for policy, least in ((ExploringPolicy, None), (SurveyingPolicy, LEAST)):
        counts = found(partial(policy, TURNS), given.seed, given.rounds)
        for what, number, reference in zip(("screens", "ways"), counts, walked, strict=True):
            said = f"{number} for a walk's {reference}"
            figure = Figure(f"{policy.name}: {what}", number / reference, said, least)
            print(figure, flush=True)
            fine &= figure.fine
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
