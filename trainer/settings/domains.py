"""The domains that specialists are trained for: the one table that stages, settings, rows and reports read.

A new domain is an entry here. Its stages, their settings and its teacher follow, and stand behind those of the others.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True)
class Domain:
    """What a specialist is of, and the rows that train it."""

    name: str
    learns: str
    """What it is trained on, in words."""
    objective: str
    """Of its rows, with `platforms`."""
    platforms: tuple[str, ...]
    acts: bool = True
    """Whether online RL follows: it has tasks in worlds."""
    rides_in: str = ""
    """The domain that is trained on its rows and tasks where nobody trains a specialist of it; "": none."""
    worlds: tuple[str, ...] = ()
    """Worlds that online RL opens for it unless others are named, beside those that a Chromium is enough for."""
    by_default: bool = True
    """Whether its specialist is trained unless the setting `domains` says otherwise."""

    @property
    def offline(self) -> str:
        """The stage of its offline RL."""
        return f"offline_{self.name}"

    @property
    def last(self) -> str:
        """The stage that makes the specialist which is merged: of online RL where it acts."""
        return f"online_{self.name}" if self.acts else self.offline


DOMAINS: dict[str, Domain] = {
    one.name: one
    for one in (
        Domain("grounding", "grounding (point in box, refusal)", "grounding", ("mobile", "web", "desktop"), acts=False),
        Domain("mobile", "steps on phones", "navigation", ("mobile",)),
        Domain("web", "steps on the web, and on computers where these have no specialist", "navigation", ("web",)),
        # UI-Venus-1.5 has the three above; screens and actions of computers are most like those of the web
        Domain(
            "computer",
            "steps on computers",
            "navigation",
            ("desktop",),
            rides_in="web",
            worlds=("desktop",),
            by_default=False,
        ),
    )
}
USUAL = tuple(name for name, one in DOMAINS.items() if one.by_default)
"""The domains whose specialists are trained unless the setting `domains` says otherwise."""
if TYPE_CHECKING:
    DomainName = str
else:
    DomainName = Literal[tuple(DOMAINS)]


def platforms_of(domain: str, trained: Container[str] = USUAL) -> tuple[str, ...]:
    """The platforms of the rows and tasks that a domain trains on beside specialists of the domains `trained`: its own,
    and those of domains that ride in it and have no specialist. Raises `ValueError` for an unknown domain."""
    if domain not in DOMAINS:
        raise ValueError(f"offline RL: expected a domain of {', '.join(DOMAINS)}, found {domain!r}")
    # Platforms of domains without a specialist of their own.
    riding = [one for one in DOMAINS.values() if one.rides_in == domain and one.name not in trained]
    return tuple(name for one in (DOMAINS[domain], *riding) for name in one.platforms)


def carries(domain: str) -> bool:
    """Whether other domains may ride in it, so that its rows depend on which specialists are trained."""
    return any(one.rides_in == domain for one in DOMAINS.values())
