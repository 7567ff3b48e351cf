"""Datasette as a world. The truth is read from its database, and what is shown from its JSON API."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from generators.worlds.start_checks import check_start
from generators.worlds.webapps.datasette.snapshot import build, read
from generators.worlds.webapps.server import WebAppServer, json_of, need, start_server
from generators.worlds.webapps.sqlite_files import check_seed, overwrite
from generators.worlds.webapps.web_app_world import WebAppWorld, open_app
from schemas.ids import digest

NAME = "datasette"
_TABLE = re.compile(r"/shop/(customers|products|orders|tickets)")
_PAGING = ("_next", "_size", "_shape", "_labels")


class DatasetteData:
    """See `Data`. Snapshots are made once a seed."""

    name, quiet_s, still_clock = NAME, 0.0, True

    def __init__(self, server: WebAppServer) -> None:
        self._server = server

    def restore(self, start: Mapping[str, object]) -> None:
        check_start(start, NAME, (), ("seed", "page"))
        overwrite(snapshot_file(self._server.folder, start.get("seed", 0)), self._server.folder / "shop.db")

    def cookies(self) -> list[tuple[str, str]]:
        return []

    def truth(self, path: str) -> dict[str, object]:
        """{"data": {table: {id: row}}, "view": what the API says of the address that is shown}."""
        return {"data": read(self._server.folder / "shop.db"), "view": self._view(path)}

    def _view(self, path: str) -> dict[str, Any]:
        """{"table", "ids" (all pages of it, in order), "members", "facets"} of a table, {"rows"} of a query,
        {"error": True} of one that Datasette refuses, {} of another page."""
        page, _, query = path.partition("#")[0].partition("?")
        # Paging and form of the answer are ours; what filters and sorts is the user's.
        asked = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key not in _PAGING]
        table = _TABLE.fullmatch(page)
        if not table and not (page == "/shop" and any(key == "sql" and value.strip() for key, value in asked)):
            return {}  # an empty query shows what /shop shows
        more = [("_size", "max"), ("_shape", "objects")] if table else [("_shape", "arrays")]
        status, body = self._server.call(f"{page}.json?{urlencode([*asked, *more])}")
        # Refused by Datasette, or unwell: `check` tells which.
        if status != 200:  # a query that isn't SQL; a filter, or a column to sort by, that doesn't exist
            self._server.check()
            return {"error": True}
        found = json_of(self._server, status, body, path)
        if not table:
            return {"rows": found["rows"]}
        ids = [str(row["id"]) for row in found["rows"]]
        # Sorted: the order in which facets were added doesn't matter.
        facets = sorted(found.get("facet_results") or {})
        return {"table": table.group(1), "ids": ids, "members": members(ids), "facets": facets}


def members(ids: list[str]) -> str:
    """Digest of which rows are shown, whatever their order."""
    return digest(sorted(ids))


def snapshot_file(folder: Path, seed: object) -> Path:
    """The database of a seed, made at the first asking. Raises `WorldError` for a seed that isn't a whole number."""
    number = check_seed(seed, NAME)
    path = folder / f"snapshot-{number}.db"
    if not path.is_file():
        build(path, number)
    return path


@contextmanager
def open_datasette() -> Iterator[WebAppWorld]:
    """Datasette in a browser of its own. Raises `AppMissing` without the package, `BrowserMissing` without Chromium."""
    need("datasette")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vesper-datasette-")))
        build(folder / "shop.db", 0)
        server = stack.enter_context(start_server(NAME, folder, ready="/-/versions.json"))
        yield stack.enter_context(open_app(server, DatasetteData(server)))
