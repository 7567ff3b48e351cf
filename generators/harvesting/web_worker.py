"""Harvests pages of one site in a process of its own: `python -m …web_worker` reads a job (JSON) on standard input and
prints one JSON line a page. Its parent (`web_run`) ends it when a page takes too long."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generators.harvesting.web import CONFIRMED, WebScreen, absent_names, confirm, keep, read_windows, scroll_to
from generators.harvesting.web_sites import HarvestSite, open_site
from generators.tasks.world_interface import WorldError

POOL = 4000
"""Names that are remembered as absent from other pages."""


def harvest_page(
    site: HarvestSite, name: str, size: tuple[int, int], windows: int, check: bool
) -> tuple[list[WebScreen], Counter[str]]:
    """A page's windows with their confirmed elements, and how each element was confirmed (or why not)."""
    screens = read_windows(site.show(name, *size), name, windows)
    if not check:
        return screens, Counter()
    page, found, verdicts = site.show(name, *size), [], Counter[str]()
    for screen in screens:
        # Pages that load more when they are scrolled may be another one now.
        if screen.scroll_px and scroll_to(page, screen.scroll_px) != screen.scroll_px:
            verdicts["the window can't be reached again"] += len(screen.elements)
            continue
        # each window by its own clicks: another window has other elements at the same points
        said = confirm(page, screen)
        verdicts.update(said)
        found.append(keep(screen, said))
    return found, verdicts


def write_page(out: Path, app: str, screens: list[WebScreen], pool: list[str]) -> list[dict[str, object]]:
    """Write the pictures of screens; gives their rows. Their names go into the pool."""
    rows = []
    for screen in screens:
        path = out / screen.picture_name
        # Named by content: equal pictures are written once.
        if not path.is_file():
            path.write_bytes(screen.png)
        rows.append(screen.as_row("web", app, absent_names(screen, pool)))
    remember(pool, rows)
    return rows


def remember(pool: list[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Names of a page go into the pool of names that later pages may lack; the oldest fall out."""
    named = (one["name"] for row in rows for one in row["elements"] if one["name"] and one["expressions"])
    pool.extend(dict.fromkeys(named))
    del pool[:-POOL]


def distinct(screens: list[WebScreen]) -> int:
    """Elements of a page's windows; one that several windows show counts once."""
    return len({element.path for screen in screens for element in screen.elements})


def main() -> None:
    """Job: {"target", "todo": [[page, [width, height]], ...], "windows", "check", "out", "allowed", "pool"?}."""
    from playwright.sync_api import Error

    job = json.load(sys.stdin)
    pool: list[str] = job.get("pool", [])
    with open_site(job["target"], job["allowed"]) as site:
        print(json.dumps({"ready": site.app}), flush=True)
        for name, (width, height) in job["todo"]:
            result: dict[str, Any] = {"page": name, "size": [width, height]}
            try:
                screens, verdicts = harvest_page(site, name, (width, height), job["windows"], job["check"])
                # A window without anything that can be said is no screen for training.
                screens = [screen for screen in screens if any(one.expressions for one in screen.elements)]
                rows = write_page(Path(job["out"]), site.app, screens, pool)
                result |= {
                    "rows": rows,
                    "verdicts": dict(sorted(verdicts.items())),
                    "distinct": distinct(screens),
                    "confirmed": sum(verdicts[how] for how in CONFIRMED),
                }
            # This page failed; the next one may work.
            except (Error, WorldError) as error:
                result["failed"] = str(error).partition("\n")[0][:200]
            print(json.dumps(result, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
