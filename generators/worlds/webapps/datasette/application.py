"""Datasette's own application over the folder's `shop.db` (runs in the server's process)."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

METADATA: dict[str, Any] = json.loads(Path(__file__).with_name("metadata.json").read_text("utf-8"))
SETTINGS = {
    "default_cache_ttl": 0,
    "facet_time_limit_ms": 5000,
    "facet_suggest_time_limit_ms": 5000,
    "sql_time_limit_ms": 5000,
    "num_sql_threads": 2,
}
"""No page is kept, and none depends on how fast the machine is."""


@contextmanager
def open_application(folder: Path) -> Iterator[object]:
    """The ASGI app."""
    from datasette.app import Datasette

    app = Datasette(
        [str(folder / "shop.db")],
        metadata=METADATA,
        settings=SETTINGS,
        secret="vesper",
        template_dir=str(Path(__file__).parent / "templates"),
    )
    # Its plugins start here once, without a server.
    asyncio.run(app.invoke_startup())
    yield app.app()
