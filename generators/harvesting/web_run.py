"""Harvests sites into a folder: `screens.jsonl`, `images/` and `report.json`, a source like any other (`harvested`).

The browser lives in a worker process; a page that takes too long ends it and is counted; the rest goes on in a new one.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.harvesting.web_sites import check_ready, site_pages
from generators.harvesting.web_worker import remember
from pipelines.processes import end_process

OPEN_S = 90.0
"""Limit on opening a site: a browser, and for an app its server."""
FAILURES = 3
"""A site whose worker dies so often in a row is given up, and its pages are counted as lost."""


@dataclass(frozen=True)
class WebHarvest:
    """What to harvest. `windows` = screens of a long page, from its top; `sizes` = viewports in CSS pixels; `limit` =
    pages a site, spread evenly (0: all); `page_s` = limit on one page in one viewport; `allowed` = hosts of inner
    networks that an address may lead to."""

    windows: int = 2
    sizes: tuple[tuple[int, int], ...] = ((1280, 800),)
    limit: int = 0
    check: bool = True
    page_s: float = 60.0
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.windows < 1 or self.limit < 0 or self.page_s <= 0 or not self.sizes:
            raise ValueError("harvest web: expected at least one window, viewport and second a page")
        for width, height in self.sizes:
            if not (200 <= width <= 4000 and 200 <= height <= 4000):
                raise ValueError(f"harvest web: viewport: expected 200 to 4000 pixels a side, found {width}x{height}")


@dataclass
class WebHarvestReport:
    """`distinct` counts an element once that several windows of a page show. `verdicts`: how clicks confirmed elements,
    or why not; the latter were dropped. `failed`: page → why."""

    pages: int = 0
    screens: int = 0
    elements: int = 0
    distinct: int = 0
    expressions: int = 0
    checked: int = 0
    confirmed: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    by_site: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def confirmed_share(self) -> float:
        return self.confirmed / self.checked if self.checked else 0.0

    def add(self, target: str, result: dict[str, Any]) -> None:
        """One page, as the worker reported it."""
        rows = result["rows"]
        self.pages += 1
        self.screens += len(rows)
        self.elements += sum(len(row["elements"]) for row in rows)
        self.expressions += sum(len(one["expressions"]) for row in rows for one in row["elements"])
        self.distinct += result["distinct"]
        self.by_site[target] += result["distinct"]
        self.verdicts.update(result["verdicts"])
        self.checked += sum(result["verdicts"].values())
        self.confirmed += result["confirmed"]

    def as_dict(self) -> dict[str, object]:
        """Plain data; `confirmed_share` of the elements that were checked."""
        return {
            "pages": self.pages,
            "screens": self.screens,
            "elements": self.elements,
            "distinct": self.distinct,
            "expressions": self.expressions,
            "checked": self.checked,
            "confirmed": self.confirmed,
            "confirmed_share": round(self.confirmed_share, 4),
            "verdicts": dict(sorted(self.verdicts.items())),
            "by_site": dict(sorted(self.by_site.items())),
            "failed": self.failed,
            "seconds": round(self.seconds, 1),
        }


def spread(pages: Sequence[str], limit: int) -> list[str]:
    """At most `limit` pages, evenly over the list."""
    if not limit or limit >= len(pages):
        return list(pages)
    # Evenly: the first pages of a site are often alike.
    return [pages[at * len(pages) // limit] for at in range(limit)]


def harvest_web(
    targets: Sequence[str], out: Path, options: WebHarvest | None = None, say: Callable[[str], None] = lambda line: None
) -> WebHarvestReport:
    """Harvest folders, files, addresses or apps into a folder that must be empty. Raises `ValueError` for a target that
    is none of them, or a folder with something in it."""
    options = options or WebHarvest()
    pages = {target: spread(site_pages(target), options.limit) for target in dict.fromkeys(targets)}
    if not pages:
        raise ValueError("harvest web: expected at least one page, folder, address or app")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: expected an empty folder, found something in it; name another")
    # Before the folder is made: a missing browser leaves nothing behind.
    check_ready(targets)
    (out / "images").mkdir(parents=True, exist_ok=True)
    report, begun = WebHarvestReport(), time.monotonic()
    pool: list[str] = []
    with (out / "screens.jsonl").open("w", encoding="utf-8") as rows:
        for target, names in pages.items():
            for result in _harvest_site(target, names, out, options, pool):
                key = f"{target}: {result['page']} {result['size'][0]}x{result['size'][1]}"
                if "failed" in result:
                    report.failed[key] = result["failed"]
                    say(f"{key}: failed: {result['failed']}")
                    continue
                # One page after the other is written, so that a long harvest keeps what it has.
                rows.writelines(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in result["rows"])
                report.add(target, result)
                remember(pool, result["rows"])
                say(f"{key}: {result['distinct']} elements")
    report.seconds = time.monotonic() - begun
    (out / "report.json").write_text(json.dumps(report.as_dict(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return report


def _harvest_site(
    target: str, names: list[str], out: Path, options: WebHarvest, pool: list[str]
) -> Iterator[dict[str, Any]]:
    """What the workers reported of each page and viewport, in order; those that a worker died over count as failed."""
    todo = [(name, size) for name in names for size in options.sizes]
    deaths = 0
    while todo:
        done_before = len(todo)
        problem = ""
        with _worker(target, todo, out, options, pool) as lines:
            limit = OPEN_S
            while todo and not problem:
                result = lines(limit)
                limit = options.page_s
                if isinstance(result, str):
                    problem = result
                elif "ready" not in result:
                    todo.pop(0)
                    yield result
        # The page that it died over counts as failed; the others go on in another worker.
        if problem and todo:
            name, size = todo.pop(0)
            yield {"page": name, "size": list(size), "failed": problem}
            # In a row: a page that was read in between starts the count anew.
            deaths = deaths + 1 if done_before - len(todo) == 1 else 1
        if deaths >= FAILURES:
            for name, size in todo:
                yield {"page": name, "size": list(size), "failed": f"the site was given up: {problem}"}
            return


@contextmanager
def _worker(
    target: str, todo: Sequence[tuple[str, tuple[int, int]]], out: Path, options: WebHarvest, pool: list[str]
) -> Iterator[Callable[[float], Any]]:
    """A worker over pages; gives a function: the next thing it reports, or a text that says why nothing came in
    time."""
    job = {
        "target": target,
        "todo": [[name, list(size)] for name, size in todo],
        "windows": options.windows,
        "check": options.check,
        "out": str(out),
        "pool": pool,
        "allowed": list(options.allowed),
    }
    scratch = tempfile.TemporaryDirectory(prefix="vesper-harvest-", ignore_cleanup_errors=True)
    process = subprocess.Popen(
        # In a process of its own: a page that hangs can be ended with its browser.
        [sys.executable, "-m", "generators.harvesting.web_worker"],
        env={**os.environ, "TMPDIR": scratch.name},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        encoding="utf-8",
    )
    output: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    assert process.stdin and process.stdout and process.stderr
    out_stream, error_stream = process.stdout, process.stderr

    def read() -> None:
        for line in out_stream:
            output.put(line)
        # The end of the output, for whoever waits.
        output.put("")

    def read_errors() -> None:
        for line in error_stream:
            errors.append(line.strip())
            # The last lines say why a process ended.
            del errors[:-5]

    threads = [threading.Thread(target=one, daemon=True) for one in (read, read_errors)]
    for thread in threads:
        thread.start()

    def following(limit_s: float) -> Any:
        try:
            line = output.get(timeout=limit_s)
        except queue.Empty:
            return f"it took longer than {limit_s:g} s"
        if not line:
            process.wait(10)
            threads[1].join(5)
            return f"the worker ended with {process.returncode}: {' | '.join(errors)[-300:]}"
        return json.loads(line)

    try:
        with suppress(BrokenPipeError):  # it ended already: `following` says so
            process.stdin.write(json.dumps(job))
            process.stdin.close()
        yield following
    finally:
        # Nothing left to do: it may end by itself; else it hangs.
        end_process(process, wait_s=10.0 if not todo else 0.0, group=True)  # its browser goes with it
        scratch.cleanup()
