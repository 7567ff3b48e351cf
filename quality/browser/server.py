"""The corpus browser's server: 127.0.0.1 only, behind a token (`quality.review.page_server`).

Everything that it shows lies below one page, whose address says the whole view. What reads goes by GET, what changes
something by POST from the page itself. Pictures are requested by their hash; no path comes from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.http_guard import App
from pipelines.store import Store
from pipelines.store.files import StoreError
from pipelines.store.images import ImageError
from quality.browser import search
from quality.browser.corpus import Corpus
from quality.browser.desk import Desk, item_ids
from quality.browser.item import details
from quality.browser.pictures import PictureError, picture
from quality.browser.view import View, ViewError
from quality.items.item import Row
from quality.review.page_server import Refused, answered, file_routes, guarded_page, posted, serve_page
from quality.review.verdict_store import ReviewError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PAGE = Path(__file__).parent / "page"
COMMAND = "vesper browse"
FILES = {
    "/": ("index.html", "text/html"),
    "/browse.css": ("browse.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/common.js": ("common.js", "text/javascript"),
    "/item.js": ("item.js", "text/javascript"),
    "/grid.js": ("grid.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
MAX_BODY = 2 << 20
"""Bytes of a request: ten thousand ids."""
REFUSED: Refused = (ViewError, ReviewError, PictureError, StoreError)
Pairs = Sequence[tuple[str, str]]
Chain = Callable[[str], dict[str, object]]
"""Item id → its whole history, as `vesper explain --json` prints it. Raises `ValueError`."""


class Browser:
    """What the page asks for: plain data in, plain data out."""

    def __init__(self, store: Store, chain: Chain) -> None:
        self.store = store
        self.corpus = Corpus(store)
        self.desk = Desk(store)
        self._chain = chain

    def items(self, pairs: Pairs) -> object:
        """A page of a view."""
        found = search.page_of(self.corpus.now(), View.parse(pairs), self.desk.tagged)
        cards = found["items"]
        assert isinstance(cards, list)
        self._tag(cards)
        return {**found, "busy": self.corpus.busy}

    def counts(self, pairs: Pairs) -> object:
        """How many items each further filter would leave."""
        view = View.parse(pairs)
        columns = search.counts_of(self.corpus.now(), view, self.desk.tagged)
        return {"columns": columns, "tags": self.desk.tag_counts()}

    def item(self, pairs: Pairs) -> object:
        """One item in full."""
        found = details(self.corpus.now(), _id(pairs))
        self._tag([found["card"]])
        return found

    def chain(self, pairs: Pairs) -> object:
        """An item's history, from its native row to the checkpoints that trained on it."""
        try:
            return self._chain(_id(pairs))
        except ValueError as error:
            raise ViewError(str(error)) from error

    def similar(self, pairs: Pairs) -> object:
        """What resembles an item, by its screen and by its words."""
        return search.similar(self.corpus.now(), self.store, _id(pairs))

    def state(self, pairs: Pairs) -> object:
        """What waits: lists for `vesper takedown`, wishes for a review."""
        return {
            "home": str(self.store.home),
            "takedowns": self.desk.waiting_takedowns(),
            "reviews": len(self.desk.marks.requests()),
        }

    def tag(self, body: object) -> object:
        """Put a tag on items, or take it off."""
        return self.desk.tag(self.corpus.now(), body)

    def review(self, body: object) -> object:
        """Send items to review."""
        return self.desk.request_review(self.corpus.now(), body)

    def takedown(self, body: object) -> object:
        """File a list for `vesper takedown`."""
        return self.desk.request_takedown(self.corpus.now(), body)

    def export(self, body: object) -> object:
        """The chosen items as lines of JSON."""
        loaded = self.corpus.now()
        return {"lines": "".join(self.desk.exported(search.find_all(loaded, item_ids(body))))}

    def _tag(self, cards: Sequence[Row]) -> None:
        tags = self.desk.marks.tags_of(card["item_id"] for card in cards)
        for card in cards:
            card["tags"] = tags.get(card["item_id"], [])


def _id(pairs: Pairs) -> str:
    for name, value in pairs:
        if name == "id" and 0 < len(value) <= 2000:
            return value
    raise ViewError("id: expected an item's id")


def make_app(browser: Browser, port: int, token: str) -> App:
    """The ASGI application, guarded."""
    from starlette.routing import Route

    gets: dict[str, Callable[[Pairs], object]] = {
        "/api/items": browser.items,
        "/api/counts": browser.counts,
        "/api/item": browser.item,
        "/api/chain": browser.chain,
        "/api/similar": browser.similar,
        "/api/state": browser.state,
    }
    posts: dict[str, Callable[[object], object]] = {
        "/api/tag": browser.tag,
        "/api/review": browser.review,
        "/api/takedown": browser.takedown,
        "/api/export": browser.export,
    }
    routes = [
        *file_routes(PAGE, FILES),
        *(Route(path, partial(_get, call), methods=["GET"]) for path, call in gets.items()),
        *(Route(path, partial(posted, call, REFUSED), methods=["POST"]) for path, call in posts.items()),
        Route("/export.jsonl", partial(_export, browser), methods=["GET"]),
        Route("/picture", partial(_picture, browser.store), methods=["GET"]),
    ]
    return guarded_page(routes, port, token, COMMAND, MAX_BODY)


async def _get(call: Callable[[Pairs], object], request: Request) -> Response:
    return await answered(call, request.query_params.multi_items(), REFUSED)


async def _export(browser: Browser, request: Request) -> Response:
    """All items of a view, in its order, as they are read."""
    from starlette.responses import JSONResponse, StreamingResponse

    try:
        view = View.parse(request.query_params.multi_items())
    except ViewError as error:
        return JSONResponse({"error": str(error)}, 400)
    cards = search.every(browser.corpus.now(), view, browser.desk.tagged)
    headers = {"Content-Disposition": 'attachment; filename="items.jsonl"', "Cache-Control": "no-store"}
    return StreamingResponse(browser.desk.exported(cards), media_type="application/x-ndjson", headers=headers)


async def _picture(store: Store, request: Request) -> Response:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse, Response

    asked = request.query_params
    try:
        data, kind = await run_in_threadpool(picture, store, asked.get("sha", ""), asked.get("size", "card"))
    except (PictureError, StoreError, ImageError, OSError) as error:
        status = 400 if isinstance(error, PictureError) else 404
        return JSONResponse({"error": str(error) if status == 400 else "this screen can't be read"}, status)
    # Named by its content, so it never changes.
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=86400, immutable"})


def serve(browser: Browser, token: str, port: int, report: Callable[[str], None]) -> None:
    """Serve until interrupted; `report` is given the address. Raises `OSError` if the port is taken."""
    serve_page(lambda real: make_app(browser, real, token), token, port, report)
