"""All sites by kind and seed. Add a template to `TEMPLATES` and it is explored, searched and tested with the others."""

from collections.abc import Callable
from functools import lru_cache

from generators.worlds.fsm import templates_services as services
from generators.worlds.fsm import templates_shops as shops
from generators.worlds.fsm import templates_wizards as wizards
from generators.worlds.fsm import templates_work as work
from generators.worlds.fsm.spec import SiteSpec

TEMPLATES: dict[str, Callable[[int], SiteSpec]] = {
    "admin": work.admin,
    "bank": services.bank,
    "calendar": work.calendar,
    "forum": services.forum,
    "insurance": wizards.insurance,
    "issues": work.issues,
    "recipes": shops.recipes,
    "shop": shops.shop,
    "streaming": shops.streaming,
    "survey": wizards.survey,
    "tickets": shops.tickets,
    "wiki": work.wiki,
}


@lru_cache(maxsize=256)
def make_site(kind: str, seed: int) -> SiteSpec:
    """The site of a template and a seed, always the same. Raises `ValueError` for an unknown kind."""
    if kind not in TEMPLATES:
        raise ValueError(f"fsm: expected a kind of {sorted(TEMPLATES)}, found {kind!r:.60}")
    return TEMPLATES[kind](seed)
