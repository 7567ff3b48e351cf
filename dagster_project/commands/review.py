"""`vesper review`: people verify sampled items on a local page; their answers go out, come in and are promoted."""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dagster_project.commands.judge_options import add_judge_options, judge_config
from dagster_project.commands.store_option import add_store
from pipelines.store import Store, StoreError, has_store
from quality.items.folder import read_directory
from quality.judges.registry import build_judge
from quality.review import server
from quality.review.label_studio import export_tasks, import_tasks
from quality.review.marks import review_requests
from quality.review.promote import promote as promote_store
from quality.review.queue import ASSET, OpenQueue, build_queue, ever_queued, open_folder
from quality.review.requested import open_with_requests
from quality.review.sampling import QueueConfig
from quality.review.server import Review
from quality.review.verdict_store import VerdictStore, answers_path

QUEUE_POLL_S = 5.0
EXAMPLES = """examples:
  vesper review serve                            the queue of $VESPER_HOME; open the address it prints
  vesper review serve --from out/aitw-gold       what `vesper refine` or `vesper unify` wrote
  vesper review status                           who answered what, and how far people agree
  vesper review export tasks.json --pictures data    for Label Studio
  vesper review import export.json               its JSON export
  vesper review promote                          what people agreed on becomes feedback/human_verdicts"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, stated: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=stated, description=stated[0].upper() + stated[1:] + ".")
        add_store(sub)
        # `import` is a keyword of Python, so its function has another name.
        sub.set_defaults(run=globals()[name if name != "import" else "import_file"])
        return sub

    for name, stated in (
        ("serve", "serve the review page on 127.0.0.1 until Ctrl+C"),
        ("export", "write the queue as Label Studio tasks, with the judge's word as predictions"),
        ("import", "read the JSON export of Label Studio as answers"),
        ("status", "print who answered what, and the agreement"),
    ):
        sub = action(name, stated)
        sub.add_argument(
            "--from",
            dest="folder",
            type=Path,
            metavar="DIR",
            help="review what `vesper unify` or `vesper refine` wrote there, without a store",
        )
        sub.add_argument("--size", type=int, default=200, help="with --from: how many items are drawn (200)")
        sub.add_argument("--seed", type=int, default=0, help="with --from: of the draw (0)")
        if name in ("serve", "status"):
            sub.add_argument("--annotators", type=int, default=2, help="people who answer each item (2)")
        if name == "serve":
            sub.add_argument("--port", type=int, default=0, help="default: a free one")
            sub.add_argument("--wait", action="store_true", help="where nothing is queued yet, wait until something is")
        elif name == "status":
            sub.add_argument("--json", action="store_true", help="all figures as JSON")
        else:
            sub.add_argument("file", metavar="FILE", type=Path)
        if name == "export":
            sub.add_argument("--answers", action="store_true", help="with people's answers so far as annotations")
            sub.add_argument(
                "--pictures",
                choices=("none", "files", "data"),
                default="files",
                help="as files beside FILE (default), inside it as data URIs, or not at all",
            )
    queue_parser = action("queue", "draw the queue of the store (the asset review/queue) without Dagster")
    queue_parser.add_argument("--size", type=int, default=200, help="how many items (200)")
    queue_parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    promote_parser = action("promote", "write what people agreed on to feedback/human_verdicts")
    promote_parser.add_argument("--annotators", type=int, default=2, help="people who answer each item (2)")
    add_judge_options(promote_parser)  # the judge in use, whose agreement with people is recorded


def _store(options: argparse.Namespace) -> Store:
    if not has_store(options.home):
        raise ValueError(f"--home {options.home}: expected a store (a $VESPER_HOME with assets/), found none")
    return Store(options.home)


def _opened(options: argparse.Namespace) -> tuple[OpenQueue, VerdictStore]:
    """The queue and the file of answers that belongs to it."""
    if options.folder is not None:
        if not options.folder.is_dir():
            raise ValueError(f"--from {options.folder}: expected a folder of `vesper unify` or `vesper refine`")
        queue = open_folder(options.folder, QueueConfig(size=options.size, seed=options.seed))
        return queue, VerdictStore(answers_path(options.folder))
    store = _store(options)
    return open_with_requests(store), VerdictStore(answers_path(store.home))


def _wait_for_queue(home: Path) -> None:
    """Until the store has a queue that passed its checks, or somebody asked for a review: a service starts before the
    first corpus is built."""
    stated = False
    while not (has_store(home) and (_queued(Store(home)) or review_requests(home))):
        if not stated:
            print(f"nothing is queued in {home} yet: waiting for {ASSET}", flush=True)
            stated = True
        time.sleep(QUEUE_POLL_S)


def _queued(store: Store) -> bool:
    built = store.current(ASSET)
    return built is not None and built.checks_passed


class _Newer:
    """The queue again once somebody asked for more (`vesper browse`), so that it is on the page without a restart."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._held = self._asked()

    def _asked(self) -> int:
        return len(review_requests(self._home))

    def __call__(self) -> OpenQueue | None:
        asked = self._asked()
        # Requests are never taken back, so their number tells.
        if asked == self._held:
            return None
        self._held = asked
        return open_with_requests(Store(self._home))


def serve(options: argparse.Namespace) -> int:
    """The page, until interrupted."""
    if not 0 <= options.port < 65536:
        raise ValueError(f"--port: expected 0 to 65535, found {options.port}")
    if options.wait and options.folder is None:
        _wait_for_queue(options.home)
    queue, answers = _opened(options)
    # A folder has no marks.
    newer = _Newer(options.home) if options.folder is None else lambda: None
    review = server.Review(queue, answers, options.annotators, newer)

    def report(url: str) -> None:
        print(f"{len(queue.rows)} items, {options.annotators} people each; answers in {answers.path}")
        print(f"open {url}", flush=True)

    try:
        server.serve(review, options.port, report)
    finally:
        answers.close()
    return 0


def status(options: argparse.Namespace) -> int:
    """Progress and agreement."""
    queue, answers = _opened(options)
    state: dict[str, Any] = Review(queue, answers, options.annotators).state("")
    if options.json:
        print(json.dumps(state, indent=1, sort_keys=True))
        return 0
    figures = state["agreement"]
    print(f"{state['finished']} of {state['items']} items have {state['overlap']} answers")
    for name, done in sorted(state["everybody"].items()):
        print(f"  {name}: {done}")
    text = ", ".join(
        f"{name} {'undefined' if figures[name] is None else format(figures[name], '.3f')}"
        for name in ("percent", "kappa", "fleiss", "alpha")
    )
    print(f"agreement on {figures['items']} items: {text}")
    print(f"{state['disagreements']} to settle, {state['adjudicated']} settled")
    return 0


def export(options: argparse.Namespace) -> int:
    """The queue → Label Studio."""
    queue, answers = _opened(options)
    written = export_tasks(queue, answers.verdicts(), options.file, options.pictures, options.answers)
    print(
        f"{written['tasks']} tasks, {written['annotations']} annotations in {options.file}; "
        f"labelling interface in {written['interface']}"
    )
    return 0


def import_file(options: argparse.Namespace) -> int:
    """Label Studio → answers."""
    queue, answers = _opened(options)
    items = read_directory(options.folder).items if options.folder else ()
    # Answers about an earlier draw are kept, but none about items that were never asked about.
    queued = {item.item_id for item in items} if options.folder else ever_queued(_store(options)) | set(queue.rows)
    read = asdict(import_tasks(options.file, queue, answers, queued))
    gone = read.pop("gone")
    print(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in read.items()))
    if gone:
        more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
        print(f"kept, though the queue was drawn again since: answers about {', '.join(gone[:5])}{more}")
    return 0


def queue(options: argparse.Namespace) -> int:
    """Draw the queue."""
    store = _store(options)
    config = QueueConfig(size=options.size, seed=options.seed)
    folder = store.home / "assets" / "gold"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    sources = [name for name in names if store.current(f"gold/{name}") is not None]
    if not sources:
        raise StoreError(f"no source has gold yet in {store.home}; run refresh_sources first")
    manifest = build_queue(store, sources, config)
    failed = [check for check in manifest.checks if check.blocking and not check.passed]
    if failed:
        raise StoreError(f"{failed[0].name}: found {failed[0].found}, expected {failed[0].expected}")
    counts = manifest.counts
    print(
        f"queued {counts['queued']} of {counts['candidates']} from {len(counts['sources'])} sources, "
        f"{counts['strata_drawn']} of {counts['strata']} strata; version {manifest.version}"
    )
    return 0


def promote(options: argparse.Namespace) -> int:
    """Answers → feedback/human_verdicts."""
    store = _store(options)
    judge = build_judge(judge_config(options, store.home / "cache" / "judge"))
    built = promote_store(store, judge, options.annotators)
    print(
        f"{built['items']} items, {built['agreed']} settled, kappa "
        f"{'undefined' if built['agreement']['kappa'] is None else format(built['agreement']['kappa'], '.3f')}; "
        f"feedback/human_verdicts is {built['digest'][:16]}"
    )
    return 0
