"""`vesper browse`: the corpus of a store on a local page."""

import argparse
import os
import time
import webbrowser
from urllib.parse import parse_qsl

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.explain import explain
from dagster_project.lineage.manifests import Manifests
from pipelines.store import has_store
from quality.browser.server import Browser, serve
from quality.browser.view import View
from quality.review.page_server import HOST, page_key

KEY = "VESPER_BROWSE_KEY"
NAMES = (HOST, "localhost")
POLL_S = 5.0


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper browse                                  the corpus of $VESPER_HOME; prints an address\n"
        "  vesper browse --open --view source=aitz        the worst samples of a source, in the browser\n"
        "  vesper browse --view 'unit=episode&max=3'      episodes that were scored 0 to 3"
    )
    add_store(parser)
    parser.add_argument("--host", default=HOST, help="a name of this machine's loopback (127.0.0.1), nothing else")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--open", action="store_true", help="open it in the web browser")
    parser.add_argument("--view", default="", metavar="QUERY", help="filters, as the page's address has them after ?")
    parser.add_argument("--wait", action="store_true", help="where there is no store yet, wait until there is one")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve the page, until interrupted."""
    if options.host not in NAMES:
        raise ValueError(
            f"--host {options.host}: expected {' or '.join(NAMES)}, for the page has no login. From another machine "
            f"forward the port: ssh -L {options.port or 7500}:{HOST}:{options.port or 7500} THIS_MACHINE"
        )
    if not 0 <= options.port < 65536:
        raise ValueError(f"--port: expected 0 to 65535, found {options.port}")
    view = options.view.removeprefix("?")
    # Refused now, not when the page is opened.
    View.parse(parse_qsl(view, keep_blank_values=True))
    while options.wait and not has_store(options.home):
        time.sleep(POLL_S)
    store = open_store(options.home)

    def chain(item_id: str) -> dict[str, object]:
        return explain(Manifests(store), item_id)

    browser = Browser(store, chain)
    print(f"reading the current versions in {store.home} …", flush=True)
    # Read before the address is printed, or the first page would seem to hang.
    browser.corpus.now()

    def report(url: str) -> None:
        address = f"{url}?{view}" if view else url
        print(f"open {address}", flush=True)
        if options.open:
            webbrowser.open(address)

    serve(browser, page_key(os.environ.get(KEY), KEY), options.port, report)
    return 0
