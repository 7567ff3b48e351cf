"""How much of a site an exploration saw, measured against the spec afterwards.

A state is a page of the spec. An edge is one guarded transition: (page, element, number of the branch), where typing in
a field is one edge; self-loops and each outcome of a form count apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from generators.environments.fsm.machine import Fired
from generators.environments.fsm.spec import Site


@dataclass(frozen=True)
class Coverage:
    """Counts of what was reached and what there is."""

    states: int
    all_states: int
    edges: int
    all_edges: int

    @property
    def state_share(self) -> float:
        return self.states / self.all_states

    @property
    def edge_share(self) -> float:
        return self.edges / self.all_edges


def coverage(site: Site, fired: Iterable[Fired]) -> Coverage:
    """Of a site, by the edges that fired. The first page counts as seen."""
    every, done = set(site.edges()), set(fired)
    if unknown := done - every:
        raise ValueError(f"{site.target}: expected edges of the spec, found {sorted(unknown)[0]}")
    seen = {site.pages[0].id}
    for page, name, number in done:
        element = site.element(page, name)
        seen |= {page} | ({element.edges[number].to or page} if element and element.edges else set())
    return Coverage(len(seen), len(site.pages), len(done), len(every))
