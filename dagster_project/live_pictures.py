"""Pictures of a stage that runs in a process of its own, shown while it runs: each is an observation of its asset.

Pipes keeps custom messages until the process has ended, so its reader hands those with a picture on as they come
(`run_stage.Reporter` sends them, few and small). An observation without a data version changes nothing downstream.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import dagster as dg

Message = Mapping[str, Any]
Show = Callable[[Message], None]


def show_on(context: dg.AssetExecutionContext) -> Show:
    """What shows a message of `run_stage.Reporter` on the asset that is being made, also from another thread."""

    def show(message: Message) -> None:
        from dagster_project.pictures import markdown

        try:
            text = markdown(base64.b64decode(message["picture"]), "screens", message["caption"])
            partition = context.partition_key if context.has_partition_key else None
            metadata = {"picture": dg.MetadataValue.md(text)}
            context.log_event(dg.AssetObservation(context.asset_key, partition=partition, metadata=metadata))
        except Exception as error:  # no picture is worth a run
            context.log.warning(f"a picture can't be shown: {type(error).__name__}: {str(error)[:200]}")

    return show


class PictureReader(dg.PipesTempFileMessageReader):
    """Reads messages as its base does, and hands those with a picture to `show` at once."""

    def __init__(self, show: Show) -> None:
        super().__init__()
        self._show = show

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[Any]:
        """See the base class."""
        with super().read_messages(cast("dg.PipesMessageHandler", _Handler(handler, self._show))) as parameters:
            yield parameters


class _Handler:
    """Pipes' own handler, but for pictures."""

    def __init__(self, handler: dg.PipesMessageHandler, show: Show) -> None:
        self._handler, self._show = handler, show

    def handle_message(self, message: Mapping[str, Any]) -> None:
        said = message["params"].get("payload") if message["method"] == "report_custom_message" else None
        if isinstance(said, Mapping) and "picture" in said:
            self._show(said)
        else:
            self._handler.handle_message(cast("Any", message))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)
