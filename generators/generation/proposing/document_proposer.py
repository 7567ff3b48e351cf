"""Proposals from programs' own documents: what man pages say that filters of the terminal can do, tried on a desktop.

A page's capability becomes a proposal only where the programs of a desktop show it: the command was carried out there
twice with the same effect, one that is not seen without the documented flag. That desktop is sealed off, since what is
tried comes from documents.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

from generators.generation.proposing.catalogue import PRIOR, Catalogue
from generators.generation.proposing.proposers import Proposal
from generators.generation.task_worlds.task_world import Idea, TaskWorld
from generators.worlds.app_tasks import SEEDS
from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.documented_tasks import TERMINAL, DocumentedDraft, tried
from generators.worlds.desktop.manuals import documented, filters
from generators.worlds.desktop.session import open_desktop

PROGRAMS_READ = 12
"""Pages that are read, a round."""
DRAFTS = 60
"""Capabilities that are tried, a round; each takes six runs of a small command."""


class DocumentProposer:
    """A `Proposer` for the desktop's terminal; it has nothing to say of other targets. `refused` counts why what pages
    say gave no task. Raises `DesktopMissing` where no desktop can be sealed off."""

    arm = "documents"

    def __init__(self, task_world: TaskWorld, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.refused: Counter[str] = Counter()
        self._made: list[DesktopTask] | None = None

    def propose(self, target: str, stratum: str, rng: Random) -> Iterator[Proposal]:
        """See `Proposer`; functions that no verified task has shown come first."""
        if target != f"desktop/{TERMINAL}":
            return
        if self._made is None:
            # Once a round, for all strata: opening a desktop takes longer than all of its tries.
            self._made = self.checked(drafts(rng))
        shown = self.catalogue.verified.get(target, set())
        arm = self.catalogue.arms.get(self.arm)
        for made in sorted(self._made, key=lambda one: one.name in shown):
            contract = made.contract()
            idea = Idea(target, made.name, made.goal, made.expected_steps, arm=self.arm, basis="none")
            if contract.stratum == stratum:
                yield Proposal(contract, self.arm, (idea,), arm.mean(PRIOR) if arm else PRIOR)

    def checked(self, wanted: list[DocumentedDraft]) -> list[DesktopTask]:
        """The tasks of those that a sealed desktop shows."""
        with open_desktop(sealed=True) as endpoint, DesktopWorld(endpoint) as world:
            # No program, and a home folder with nothing in it.
            world.begin({})
            found = list(tried(wanted, world))
        self.refused.update(one for one in found if isinstance(one, str))
        return [one for one in found if not isinstance(one, str)]


def drafts(rng: Random, programs: int = PROGRAMS_READ, most: int = DRAFTS) -> list[DocumentedDraft]:
    """What pages of some of the documented filters say, each capability with a file drawn for it. Pages are read until
    so many programs had capabilities."""
    names, found = list(filters()), list[DocumentedDraft]()
    rng.shuffle(names)
    for name in names:
        if programs and (said := documented(name)):
            found += [DocumentedDraft(one, rng.randrange(SEEDS)) for one in said]
            programs -= 1
    rng.shuffle(found)
    return found[:most]
