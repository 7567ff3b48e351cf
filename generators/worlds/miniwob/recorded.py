"""MiniWoB++ as the published demonstrations were recorded: the page's own recorder (`core/record.js`) writes down what
happens, in their form. Seeded, offline, without the ten-second clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from generators.devices.browser import MINIWOB, open_browser
from generators.worlds.miniwob.html import NO_LIMIT_MS, html_folder, page_of
from generators.worlds.pages.own_pages import FOLDER, PageElement, read_elements

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A clock that only `vesperAdvance` moves, so that recorded times are the same on every run.
_CLOCK = """(() => {
  const Real = Date; let now = 1500000000000;
  window.vesperAdvance = (ms) => { now += ms; };
  class Fake extends Real {
    constructor(...a) { if (a.length) super(...a); else super(now); }
    static now() { return now; } }
  window.Date = Fake;
})();
"""
_START = """([seed, limit]) => {
  core.EPISODE_MAX_TIME = limit; Math.seedrandom(seed); core.startEpisodeReal();
  recorder.setup(); recorder.startRecording();
}"""


class Miniwob:
    """One page that can show any task; `start` loads it, then `mouse`/`keyboard` act and `raw_reward` says how well."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._recorder = (html_folder() / "core" / "record.js").read_text(encoding="utf-8")

    def start(self, task: str, seed: int | str) -> None:
        """Load the task and begin the episode of this seed. Raises `ValueError` for an unknown task."""
        self.page.goto(page_of(task).as_uri())
        # Put on `window` by name, where later calls find it.
        self.page.evaluate(self._recorder + "; window.recorder = recorder;")
        self.page.evaluate(_START, [str(seed), NO_LIMIT_MS])

    @property
    def utterance(self) -> str:
        return str(self.page.evaluate("core.getUtterance()"))

    @property
    def raw_reward(self) -> float | None:
        """Reward without time penalty; None while the episode runs."""
        # Raw: the page's own reward falls with time, which is the recorder's and no judgement of the act.
        found = self.page.evaluate("WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null")
        return None if found is None else float(found)

    def elements(self) -> list[PageElement]:
        # The page is larger than the task's area; what lies outside is the package's own display.
        return [e for e in read_elements(self.page) if e.box[1] < MINIWOB.height and e.box[0] < MINIWOB.width]

    def advance(self, ms: int) -> None:
        """Let time pass on the page's clock."""
        self.page.evaluate("ms => vesperAdvance(ms)", ms)

    def recording(self) -> dict[str, object]:
        """What the page's own recorder wrote: taskName, utterance, states."""
        found: dict[str, Any] = self.page.evaluate("JSON.parse(JSON.stringify(recorder.data))")
        return found


@contextmanager
def open_miniwob() -> Iterator[Miniwob]:
    reader = (FOLDER / "reader.js").read_text(encoding="utf-8")
    with open_browser(MINIWOB, _CLOCK + reader) as context:
        page = context.new_page()
        yield Miniwob(page)
