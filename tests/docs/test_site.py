"""The site is built without a warning and without a network, and what it shows loads nothing from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from generators.devices.browser import FLAGS, find_chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Loaded(HTMLParser):
    """Addresses that a browser fetches by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "link" and told.get("rel") in ("canonical", "next", "prev"):
            return
        self.addresses += [value for name, value in attrs if (tag, name) in LOADS and value]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; every request on the way out would fail."""
    if not (find_spec("mkdocs") and find_spec("mkdocstrings")):
        pytest.skip("the extra `docs` isn't installed (`make docs`)")
    folder = tmp_path_factory.mktemp("docs") / "site"
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    return folder


def test_the_site_loads_nothing_from_outside(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "first-hour.html", "runbook.html", "duckdb.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = Loaded()
        loaded.feed(text)
        outside = [address for address in loaded.addresses if re.match(r"(https?:)?//", address)]
        assert not outside, f"{page.name} loads {outside[:3]}"
        assert "schemas.tables" not in page.name and "::: " not in re.sub(r"<code.*?</code>", "", text, flags=re.DOTALL)
    tables = (site / "reference/tables.html").read_text(encoding="utf-8")
    assert "screenshot_sha256" in tables  # the reference is made of the code


def test_search_works_from_a_folder(site: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{site.as_uri()}/index.html")
        page.locator("input.md-search__input").click()
        page.keyboard.type("glossary")
        found = page.locator(".md-search-result__link")
        found.first.wait_for(timeout=20_000)
        assert "glossary" in found.first.inner_text().lower()
        assert all(url.startswith(("file://", "data:", "blob:")) for url in asked), asked
        browser.close()


def test_pictures_are_small_and_shown() -> None:
    texts = [page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]]
    for picture in (ROOT / "docs/img").iterdir():
        assert picture.stat().st_size < 200_000, f"{picture.name} is too large for a page"
        assert any(f"img/{picture.name})" in text for text in texts), f"{picture.name} is shown nowhere"
