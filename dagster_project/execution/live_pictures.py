"""Pictures and figures of a stage, shown while it runs: observations of its asset, whose numbers Dagster plots.

Pipes keeps custom messages until the process has ended well, so its reader hands those with a picture or figures on as
they come (`run_stage.Reporter` sends them, few and small), and why the process failed. An observation without a data
version changes nothing downstream.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import dagster as dg

Message = Mapping[str, Any]
Show = Callable[[Message], None]
LIVE = ("picture", "figures", "failed")
"""What a message has that is handed on as it comes: what is shown, and why a process failed, which Pipes would drop."""


def show_on(context: dg.AssetExecutionContext) -> Show:
    """What shows a message of `run_stage.Reporter` on the asset that is being made, also from another thread."""

    def show(message: Message) -> None:
        try:
            # The partition, or the observation would stand beside the round instead of on it.
            partition = context.partition_key if context.has_partition_key else None
            context.log_event(dg.AssetObservation(context.asset_key, partition=partition, metadata=_metadata(message)))
        except Exception as error:  # nothing to look at is worth a run
            context.log.warning(f"what the stage shows can't be told: {type(error).__name__}: {str(error)[:200]}")

    return show


def _metadata(message: Message) -> dict[str, dg.MetadataValue[Any]]:
    """Of an observation: figures by their tags, or the picture."""
    from dagster_project.pictures.asset_pictures import markdown

    if "figures" in message:
        return {tag: dg.MetadataValue.float(value) for tag, value in message["figures"].items()}
    text = markdown(base64.b64decode(message["picture"]), "screens", message["caption"])
    return {"picture": dg.MetadataValue.md(text)}


class LiveReader(dg.PipesTempFileMessageReader):
    """Reads messages as its base does, and hands those of `LIVE` to `show` at once."""

    def __init__(self, show: Show) -> None:
        super().__init__()
        self._show = show

    @contextmanager
    def read_messages(self, handler: dg.PipesMessageHandler) -> Iterator[Any]:
        """See the base class."""
        with super().read_messages(cast("dg.PipesMessageHandler", _LiveMessages(handler, self._show))) as parameters:
            yield parameters


class _LiveMessages:
    """Pipes' own handler, but for what is shown at once."""

    def __init__(self, handler: dg.PipesMessageHandler, show: Show) -> None:
        self._handler, self._show = handler, show

    def handle_message(self, message: Mapping[str, Any]) -> None:
        said = message["params"].get("payload") if message["method"] == "report_custom_message" else None
        # Passed on at once and not also at the end: a picture must not appear twice.
        if isinstance(said, Mapping) and any(name in said for name in LIVE):
            self._show(said)
        else:
            self._handler.handle_message(cast("Any", message))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)
