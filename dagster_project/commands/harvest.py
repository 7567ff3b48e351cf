"""`vesper harvest`: web pages and desktop programs turned into screens with elements, a source like any other."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generators.harvesting.care import harvest_care
from generators.harvesting.web_run import WebHarvest, harvest_web
from pipelines.extras import require

EXAMPLES = """examples:
  vesper harvest web .vesper/pages/tabler datasette django_admin --limit 60 --out out/harvest
  vesper harvest web https://example.org/ --size 390x844 --size 1280x800 --out out/example
  vesper harvest desktop --program calculator --out out/calculator
  vesper harvest care --seeds 4 --out out/care && vesper unify care_episodes --raw out/care --out out/careful
  vesper unify harvested --raw out/harvest --out out/harvested"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (stated, add, run) in SUBCOMMANDS.items():
        sub = actions.add_parser(name, help=stated, description=stated[0].upper() + stated[1:] + ".")
        add(sub)
        sub.add_argument(
            "--out", type=Path, required=True, metavar="DIR", help="an empty folder: one file of lines, images/"
        )
        sub.set_defaults(run=run)


def _web(sub: Any) -> None:
    text = "a folder of html pages, an html file, an http address, datasette or django_admin"
    sub.add_argument("pages", nargs="+", metavar="PAGES", help=text)
    sub.add_argument("--windows", type=int, default=2, help="screens of a long page, from its top (default 2)")
    sub.add_argument(
        "--size", type=_size, action="append", metavar="WxH", help="viewport (default 1280x800); repeatable"
    )
    sub.add_argument("--limit", type=int, default=0, help="pages a folder or app, spread evenly (default all)")
    sub.add_argument("--page-seconds", type=float, default=60.0, help="limit on one page (default 60)")
    sub.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a host of an inner network (this machine's too) that an address may lead to; repeatable",
    )
    sub.add_argument("--no-check", action="store_true", help="don't click at every element on a fresh load")
    sub.add_argument("--quiet", action="store_true", help="no line a page")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a viewport as 1280x800, found {text!r:.40}")
    return int(width), int(height)


def web(options: argparse.Namespace) -> int:
    """Harvest pages. Exit code 1 if not one element was found, or pages failed."""
    require("playwright")
    found = harvest_web(
        options.pages,
        options.out,
        WebHarvest(
            options.windows,
            tuple(options.size or [(1280, 800)]),
            options.limit,
            not options.no_check,
            options.page_seconds,
            tuple(options.allow_host),
        ),
        say=(lambda line: None) if options.quiet else print,
    )
    share = f", {found.confirmed_share:.2%} of {found.checked} confirmed by a click" if found.checked else ""
    print(
        f"{found.distinct} elements on {found.screens} screens of {found.pages} pages, {found.expressions} "
        f"expressions{share}; {len(found.failed)} pages failed; {found.seconds:.0f} s; {options.out / 'report.json'}"
    )
    return 0 if found.distinct and not found.failed else 1


def _desktop(sub: Any) -> None:
    sub.add_argument("--program", action="append", metavar="NAME", help="one of them (default all); repeatable")
    sub.add_argument("--screens", type=int, default=12, help="screens a program, the nearest first (default 12)")
    sub.add_argument("--size", type=_size, default=(1280, 800), metavar="WxH", help="of the desktop (default 1280x800)")
    sub.add_argument("--quiet", action="store_true", help="no line a program")


def desktop(options: argparse.Namespace) -> int:
    """Harvest desktop programs. Exit code 1 if not one element was found."""
    from generators.harvesting.desktop import harvest_desktop

    found = harvest_desktop(
        options.out,
        options.program or (),
        options.screens,
        options.size,
        say=(lambda line: None) if options.quiet else print,
    )
    print(
        f"{found.distinct} elements on {found.screens} screens, {found.confirmed_share:.2%} confirmed "
        f"({found.by_focus} by focus, {found.by_hit} by hit), {found.unconfirmed} dropped; {found.seconds:.0f} s; "
        f"{options.out / 'report.json'}"
    )
    return 0 if found.distinct else 1


def _care(sub: Any) -> None:
    sub.add_argument("--seeds", type=int, default=1, help="of each of the 24 families: two or three episodes each")
    sub.add_argument("--first-seed", type=int, default=0, help="the suite care measures on seeds from 20,000,000 on")
    sub.add_argument("--quiet", action="store_true", help="no line an episode")


def care(options: argparse.Namespace) -> int:
    """Play care cases with the careful agent. Exit code 1 if an episode failed."""
    require("playwright")
    say: Callable[[str], None] = (lambda line: None) if options.quiet else print
    found = harvest_care(options.out, options.seeds, options.first_seed, say)
    print(
        f"{found.episodes} episodes, {found.actions} actions, {found.failed} failed; {options.out / 'episodes.jsonl'}"
    )
    return 1 if found.failed else 0


SUBCOMMANDS: dict[str, tuple[str, Callable[[Any], None], Callable[[argparse.Namespace], int]]] = {
    "web": ("pages and web apps, hit-tested in Chromium", _web, web),
    "care": ("scripted careful runs of care cases, for the source care_episodes", _care, care),
    "desktop": ("desktop programs by their accessibility tree, each element pressed", _desktop, desktop),
}
"""Name → what it does, its arguments, and what runs it. Every one takes --out."""
