"""The review server as people start it, in a process of its own, and a Chromium of one's own that may open it."""

from __future__ import annotations

import http.client
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from dagster_project import cli
from pipelines.store import Check, PartSpec, Store
from quality.judges.judge import Verdict
from schemas.actions import Drag, format
from schemas.tables import Samples, Steps, Verdicts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[2]
# `setdefault`: the command is under test here whether or not the table of commands lists it.
VESPER = (
    "import sys; from dagster_project import cli; "
    "cli.COMMANDS.setdefault('review', ('review', 'people verify sampled items on a local page')); "
    "sys.exit(cli.main())"
)


def _verdict_rows(steps: pa.Table, scores: dict[str, int | None]) -> pa.Table:
    """A verdict of each episode and each of its steps."""
    made = []
    for row in steps.to_pylist():
        score = scores.get(row["episode_id"], 9)
        names = [f"step:{row['source']}/{row['episode_id']}/{row['step_index']}"]
        names += [f"episode:{row['source']}/{row['episode_id']}"] if row["step_index"] == 0 else []
        made += [Verdict(name, score, score, "because", 0.8, "rules", "none", "1").as_row() for name in names]
    return Verdicts.table(made)


def judged_store(home: Path, scores: dict[str, int | None], gold: list[str], count: int = 6) -> Store:
    """A source of `count` episodes judged with these scores (9 where none is given); those named became gold."""
    import goldmaker

    store = Store(home)
    steps, screens = goldmaker.episodes(store, "toy", count)
    rows = steps.to_pylist()
    rows[0]["action_text"], rows[0]["action_type"] = format(Drag((1, 2), (300, 400))), "Drag"
    steps = Steps.table(rows)
    empty = Samples.schema.empty_table()
    tables = {
        "unified/toy": {"steps": steps, "samples": empty, "screens": screens},
        "verdicts/toy": {"verdicts": _verdict_rows(steps, scores)},
        "gold/toy": {
            "steps": Steps.table(row for row in rows if row["episode_id"] in gold),
            "samples": empty,
            "verdicts": Verdicts.schema.empty_table(),
            "rejects": _rejects(),
        },
    }
    made: dict[str, str] = {}
    for asset, named in tables.items():
        spec = PartSpec("0000", asset + repr(sorted(scores.items())) + repr(gold))
        with store.build(asset, code_version="1", inputs=dict(made), parts=[spec]) as build:
            build.run_part(spec, lambda out, named=named: [out.table(n, t) for n, t in named.items()] and {})
            made[asset] = build.commit(checks=[Check("made", True, "yes", "yes")]).version
    return store


def _rejects() -> pa.Table:
    from quality.refinement.gold import Rejects

    return Rejects.schema.empty_table()


def vesper(*words: object) -> list[str]:
    """A command line of `vesper`."""
    return [sys.executable, "-c", VESPER, *map(str, words)]


def run_vesper(*words: object) -> subprocess.CompletedProcess[str]:
    """A command of `vesper`, run to its end in this process."""
    given, out, err = [str(word) for word in words], io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(given)
    return subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@dataclass
class Server:
    """A running `vesper review serve`; `url` is the address it printed."""

    process: subprocess.Popen[str]
    url: str
    lines: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(urlsplit(self.url).port or 0)

    @property
    def token(self) -> str:
        return urlsplit(self.url).path.strip("/")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def request(
        self, method: str, path: str, body: str | None = None, *, token: bool = True, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """(status, headers, text) of a bare HTTP request, below the token; header names with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(
                method, f"/{self.token}{path}" if token else path, body.encode() if body is not None else None, given
            )
            answer = connection.getresponse()
            return (
                answer.status,
                {k.lower(): v for k, v in answer.getheaders()},
                answer.read().decode("utf-8", "replace"),
            )
        finally:
            connection.close()


@contextmanager
def served(
    *words: object,
    command: tuple[str, ...] = ("review", "serve"),
    on_line: Callable[[str], None] = lambda line: None,
) -> Iterator[Server]:
    """`vesper review serve …` (or another `command` that serves a page), stopped when the block ends (SIGINT, as
    Ctrl+C); `on_line` hears what it prints."""
    process = subprocess.Popen(
        vesper(*command, *words),
        cwd=ROOT,
        text=True,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            on_line(line)
            if found := re.match(r"open (http://127\.0\.0\.1:\d+/\S+/)$", line):
                yield Server(process, found[1], lines)
                break
        else:
            raise AssertionError(f"the server didn't start: {process.stderr.read()}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        process.stdout.close()
        process.stderr.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium whose contexts may open pages on this machine (`open_browser` refuses http:)."""
    from generators.devices.browser import FLAGS, _playwright, find_chromium

    executable = find_chromium()
    with _playwright() as playwright:
        browser = playwright.chromium.launch(headless=True, executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def profile(browser: Browser, width: int = 1440, height: int = 900) -> Iterator[BrowserContext]:
    """A new profile in this browser, which goes when the block ends."""
    context = browser.new_context(viewport={"width": width, "height": height}, locale="en-GB", reduced_motion="reduce")
    try:
        yield context
    finally:
        context.close()


class Reviewer:
    """Somebody at the page, with keyboard only."""

    def __init__(self, context: BrowserContext, name: str) -> None:
        self.name = name
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, url: str) -> None:
        self.page.bring_to_front()  # a page behind another one draws, and so answers, half a second late
        self.page.goto(f"{url}?annotator={self.name}")
        self.wait("() => document.body.dataset.item !== undefined || !document.getElementById('done').hidden")

    def wait(self, script: str, arg: Any = None) -> None:
        self.page.wait_for_function(script, arg=arg, timeout=60_000)

    @property
    def item(self) -> str:
        """Id of the item on the page; empty when there is none left."""
        return str(self.page.evaluate("document.body.dataset.item || ''"))

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def answer(self, key: str) -> None:
        """Press a decision and wait until the page has moved on, which it does once the answer is on disk."""
        before = self.item
        self.press(key)
        self.wait("before => (document.body.dataset.item || '') !== before", before)

    def text(self, identifier: str) -> str:
        return str(self.page.inner_text(f"#{identifier}"))
