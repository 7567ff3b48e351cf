"""The review page's server: 127.0.0.1 only, for the people who were given its address (`quality.review.page_server`).

Pictures are requested by item id and place; no path comes from outside. An answer is on disk before it is confirmed.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.http_guard import App
from quality.review.agreement import Disagreement, agreement, disagreements
from quality.review.page_server import Refused, answered, file_routes, guarded_page, page_key, posted, serve_page
from quality.review.queue import OpenQueue
from quality.review.trajectories import FULL_PX, THUMB_PX
from quality.review.verdict_store import DECISIONS, HumanVerdict, ReviewError, VerdictStore, check_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/review.css": ("review.css", "text/css"),
    "/review.js": ("review.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
REFUSED: Refused = (ReviewError,)
CACHED_PICTURES = 400
AHEAD = 3
"""Items that the page holds ready, so that a decision is followed by the next item at once."""


class Review:
    """What the page asks for: plain data in, plain data out. Raises `ReviewError` on what isn't allowed."""

    def __init__(
        self,
        queue: OpenQueue,
        answers: VerdictStore,
        overlap: int = 2,
        newer: Callable[[], OpenQueue | None] = lambda: None,
    ) -> None:
        """`newer` gives the queue again where items were asked for since it was last called, else None."""
        if overlap < 1:
            raise ReviewError(f"--annotators: expected at least 1 person an item, found {overlap}")
        self.answers = answers
        self.overlap = overlap
        self._newer = newer
        self._pictures: OrderedDict[tuple[str, int, int], bytes | None] = OrderedDict()
        self._lock = Lock()
        self._adopt(queue)

    def _adopt(self, queue: OpenQueue) -> None:
        self.queue = queue
        self._contents = {item_id: one.digest for item_id, one in queue.trajectories.items()}
        self._order = {item_id: place for place, item_id in enumerate(queue.rows)}

    def join(self, body: object) -> object:
        return {"annotator": self.answers.join(_text(body, "annotator"))}

    def state(self, annotator: str) -> Any:
        """Progress of everybody and the agreement so far, over the items of this queue."""
        verdicts = self._verdicts()
        own = [one for one in verdicts if one.role == "annotator"]
        done: dict[str, int] = {}
        for one in own:
            done[one.annotator] = done.get(one.annotator, 0) + 1
        waiting = self._settleable(verdicts)
        return {
            "annotator": annotator,
            "decisions": list(DECISIONS),
            "items": len(self._order),
            "overlap": self.overlap,
            "done": done.get(annotator, 0),
            "everybody": done,
            "finished": sum(n >= self.overlap for n in _count(one.item_id for one in own).values()),
            "agreement": agreement(verdicts).plain(),
            "disagreements": sum(one.adjudicated is None for one in waiting),
            "adjudicated": sum(one.adjudicated is not None for one in waiting),
        }

    def upcoming(self, annotator: str) -> object:
        """The next items, first to last, whole: the page shows them without asking again."""
        # The name is known from the first question on, also if nothing is answered.
        name = self.answers.join(annotator)
        if (queue := self._newer()) is not None:
            self._adopt(queue)
        names = self.answers.upcoming(name, self._contents, self.overlap, AHEAD)
        return {"items": [self._item(item_id) for item_id in names], "state": self.state(name)}

    def item(self, item_id: str) -> Any:
        return self._item(self._known(item_id))

    def _item(self, item_id: str) -> Any:
        # The judge's word, the stratum and why it was drawn stay unsaid: they would lead the reviewer.
        return {**self.queue.trajectories[item_id].plain(), "place": self._order[item_id]}

    def decide(self, body: Any) -> object:
        """Keep an answer. When this returns it is on disk."""
        item_id = self._known(_text(body, "item_id"))
        step, seconds = body.get("first_wrong_step"), body.get("seconds", 0)
        # Seconds come from a browser's clock.
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            raise ReviewError("seconds: expected a number")
        steps = len(self.queue.trajectories[item_id].steps)
        if step is not None and (type(step) is not int or not 0 <= step < steps):
            raise ReviewError(f"first_wrong_step: expected a place from 0 to {steps - 1} or null")
        role = _text(body, "role", "annotator")
        # Settling what nobody differs about would be one person's word against two.
        if role == "adjudicator" and item_id not in {one.item_id for one in self._differing()}:
            raise ReviewError("role: this item's annotators don't disagree, so there is nothing to settle")
        retained = self.answers.add(
            HumanVerdict(
                item_id,
                check_name(_text(body, "annotator")),
                role,
                _text(body, "decision"),
                step,
                _text(body, "note", ""),
                float(seconds),
                request=_text(body, "request"),
                content=self._contents[item_id],
            )
        )
        return {"kept": asdict(retained)}

    def undo(self, body: object) -> object:
        """Take back the last answer; `undone` is null if there was none."""
        undone = self.answers.undo(check_name(_text(body, "annotator")), _text(body, "request"))
        # What was taken back may have left the queue since.
        known = undone is not None and undone.item_id in self.queue.rows
        return {
            "undone": asdict(undone) if undone else None,
            "item": self._item(undone.item_id) if undone and known else None,
        }

    def differing(self, annotator: str) -> object:
        """The disagreement queue, of items that nobody else is to answer on their own any more: what others said would
        lead them."""
        check_name(annotator)
        shown = []
        for one in self._differing():
            row = self.queue.trajectories[one.item_id]
            final = asdict(one.adjudicated) if one.adjudicated else None
            shown.append(
                {
                    "item_id": one.item_id,
                    "goal": row.goal,
                    "source": row.source,
                    "final": final,
                    "decisions": dict(one.decisions),
                    "answers": self._answers(one.item_id),
                }
            )
        return {"items": shown}

    def _differing(self) -> list[Disagreement]:
        return self._settleable(self._verdicts())

    def _verdicts(self) -> list[HumanVerdict]:
        """The answers that count, on the items of this queue as they are now."""
        # Answers about an earlier content stay on file, but say nothing of this one.
        return [one for one in self.answers.verdicts() if self._contents.get(one.item_id) == one.content]

    def _settleable(self, verdicts: list[HumanVerdict]) -> list[Disagreement]:
        return [one for one in disagreements(verdicts) if len(one.decisions) >= self.overlap]

    def _answers(self, item_id: str) -> list[Any]:
        """Notes and marks of an item's annotators, for whoever settles it."""
        return [asdict(one) for one in self._verdicts() if one.item_id == item_id and one.role == "annotator"]

    def _known(self, item_id: str) -> str:
        if item_id not in self.queue.rows:
            raise ReviewError(f"item_id: expected an item of the queue, found {item_id[:80]!r}")
        return item_id

    def picture(self, item_id: str, place: int, side_px: int) -> bytes | None:
        """JPEG of a step with its action drawn; the last ones drawn are kept."""
        key = (self._known(item_id), place, side_px)
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        # Drawn without the lock: others mustn't wait for a picture.
        try:
            drawn = self.queue.trajectories[item_id].picture(place, side_px)
        except IndexError as error:
            raise ReviewError(str(error)) from error
        with self._lock:
            self._pictures[key] = drawn
            # The one that wasn't looked at for longest goes.
            if len(self._pictures) > CACHED_PICTURES:
                self._pictures.popitem(last=False)
        return drawn


def _count(names: Any) -> dict[str, int]:
    from collections import Counter

    return Counter(names)


def _text(body: object, name: str, default: str | None = None) -> str:
    value = body.get(name, default) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise ReviewError(f"{name}: expected text, found {type(value).__name__}")
    return value


def make_app(review: Review, port: int, token: str) -> App:
    """The ASGI application, guarded."""
    from starlette.routing import Route

    posts = {"/api/join": review.join, "/api/verdict": review.decide, "/api/undo": review.undo}
    gets: dict[str, tuple[Callable[[str], Any], str]] = {
        "/api/state": (review.state, "annotator"),
        "/api/next": (review.upcoming, "annotator"),
        "/api/item": (review.item, "id"),
        "/api/disagreements": (review.differing, "annotator"),
    }
    routes = [
        *file_routes(PAGE, FILES),
        *(Route(path, partial(_get, call, name), methods=["GET"]) for path, (call, name) in gets.items()),
        *(Route(path, partial(posted, call, REFUSED), methods=["POST"]) for path, call in posts.items()),
        Route("/picture", partial(_picture, review), methods=["GET"]),
    ]
    return guarded_page(routes, port, token, "vesper review serve")


async def _get(call: Callable[[str], Any], name: str, request: Request) -> Response:
    return await answered(call, request.query_params.get(name, ""), REFUSED)


async def _picture(review: Review, request: Request) -> Response:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse, Response

    requested = request.query_params
    place = requested.get("step", "")
    if not (place.isascii() and place.isdigit() and len(place) < 7):
        return JSONResponse({"error": "step: expected a number"}, 400)
    side = THUMB_PX if requested.get("size") == "thumb" else FULL_PX
    try:
        drawn = await run_in_threadpool(review.picture, requested.get("item", ""), int(place), side)
    except ReviewError as error:
        return JSONResponse({"error": str(error)}, 404)
    if drawn is None:
        return JSONResponse({"error": "this step has no picture that can be read"}, 404)
    return Response(drawn, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


def serve(review: Review, port: int = 0, told: Callable[[str], None] = print) -> None:
    """Serve until interrupted; `told` is given the address once it can be opened. Raises `OSError` if the port is
    taken."""
    token = page_key(None, "")
    serve_page(lambda real: make_app(review, real, token), token, port, told)
