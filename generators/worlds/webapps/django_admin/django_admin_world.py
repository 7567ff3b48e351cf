"""Django's admin as a world. The truth is read from its database; what a list shows, from Django's own query."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from generators.worlds.start_checks import check_start
from generators.worlds.webapps.django_admin.snapshot import read, write
from generators.worlds.webapps.server import WebAppServer, json_of, need, start_server
from generators.worlds.webapps.sqlite_files import check_seed, overwrite
from generators.worlds.webapps.web_app_world import WebAppWorld, open_app

NAME = "django_admin"


class DjangoData:
    """See `Data`. Snapshots are made once a seed."""

    name, quiet_s, still_clock = NAME, 0.0, True

    def __init__(self, server: WebAppServer) -> None:
        self._server = server
        self._secrets = json.loads((server.folder / "secrets.json").read_text("utf-8"))
        self._schema = server.folder / "schema.db"
        # Tables and permissions as Django made them; each snapshot begins with a copy.
        shutil.copyfile(server.folder / "app.db", self._schema)  # nobody has written since the server made it

    def restore(self, start: Mapping[str, object]) -> None:
        check_start(start, NAME, (), ("seed", "page"))
        seed = check_seed(start.get("seed", 0), NAME)
        snapshot = self._server.folder / f"snapshot-{seed}.db"
        if not snapshot.is_file():
            write(snapshot, self._schema, seed)
        overwrite(snapshot, self._server.folder / "app.db")

    def cookies(self) -> list[tuple[str, str]]:
        return [("sessionid", self._secrets["session"])]

    def truth(self, path: str) -> dict[str, object]:
        """{"data": {table: {name: row}}, "view": {"model", "ids" in order} of a list, {"error": True} of one that the
        admin refuses to show, {} of another page}."""
        return {"data": read(self._server.folder / "app.db"), "view": self._view(path)}

    def _view(self, path: str) -> dict[str, Any]:
        if not path:
            # Not one of the app's pages.
            return {}
        asked = f"/truth/?{urlencode({'path': path})}"
        status, body = self._server.call(asked, headers={"X-Token": self._secrets["token"]})
        if status == 404:  # an address that the admin doesn't have
            return {}
        if status != 200:  # a list by a column or a value that the admin doesn't allow
            self._server.check()
            return {"error": True}
        found: dict[str, Any] = json_of(self._server, status, body, path)
        return found


@contextmanager
def open_django_admin() -> Iterator[WebAppWorld]:
    """The admin in a browser of its own. Raises `AppMissing` without Django, `BrowserMissing` without Chromium."""
    need("django")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vesper-django-")))
        server = stack.enter_context(start_server(NAME, folder, ready="/truth/"))
        yield stack.enter_context(open_app(server, DjangoData(server)))
