"""Real short texts for the dedup bench: what users ask for in Vesper's own worlds, and what elements are called there.

All come from the worlds' own templates and seeds: instructions of phone tasks and of FSM sites (one goal, or two of
them joined), and single steps ("Tap the Save button") over the elements of those sites.
"""

from collections.abc import Iterator
from itertools import count
from random import Random

SHARES = {"step": 0.04, "phone": 0.3, "site": 0.66}
"""How much of the list each kind has; sites come last, since pairs of their goals are never used up."""
STALLED = 50_000
"""So many repeats in a row, and a kind has no more to say."""


def texts(number: int, seed: int = 0) -> list[str]:
    """`number` distinct texts of the kinds in `SHARES`, in an order drawn by the seed.

    Raises `ValueError` where a kind hasn't that many."""
    kinds = {"phone": _phone, "site": _sites, "step": _steps}
    found: dict[str, None] = {}
    for kind, share in SHARES.items():
        goal = number if kind == "site" else len(found) + round(number * share)
        stalled = 0
        for text in kinds[kind](seed):
            if len(found) == goal:
                break
            before = len(found)
            found.setdefault(" ".join(text.split()))
            stalled = stalled + 1 if len(found) == before else 0
            if stalled == STALLED:
                raise ValueError(f"dedup texts: {number} wanted, but there are no more of kind {kind!r}")
    listed = list(found)
    Random(f"dedup-texts/{seed}").shuffle(listed)
    return listed


def _phone(seed: int) -> Iterator[str]:
    from generators.worlds.phone.phone_tasks import phone_tasks

    for block in count(seed * 1_000_000):
        yield from (task.goal for task in phone_tasks(block, 1000))


def _sites(seed: int) -> Iterator[str]:
    from generators.worlds.fsm.fsm_tasks import phrase
    from generators.worlds.fsm.sites import TEMPLATES, make_site

    rng = Random(f"dedup-sites/{seed}")
    for number in count(seed * 1_000_000):
        for kind in sorted(TEMPLATES):
            site = make_site(kind, number)
            for _ in range(40):
                yield phrase(site, rng.sample(site.goals, rng.choice((1, 2, 2))), rng)


def _steps(seed: int) -> Iterator[str]:
    from generators.worlds.fsm.sites import TEMPLATES, make_site
    from generators.worlds.fsm.spec import CLICKABLE, KINDS
    from generators.worlds.pages.step_phrases import TAP

    rng = Random(f"dedup-steps/{seed}")
    for number in count(seed * 1_000_000):
        for kind in sorted(TEMPLATES):
            site = make_site(kind, number)
            named = [e for page in site.pages for e in page.elements if e.kind in CLICKABLE and e.text]
            for element in rng.sample(named, min(len(named), 40)):
                words = TAP.get(KINDS[element.kind]) or TAP[""]
                yield f"{rng.choice(words).format(name=element.text, text=element.text)} on {site.name}"
