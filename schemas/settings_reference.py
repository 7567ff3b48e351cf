"""Settings as a page to read: a table of each model, with default, range and text."""

import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from schemas.settings import ALWAYS, NEVER, WHERE_SET, marked, range_of

VERSION_WORDS: dict[object, str] = {ALWAYS: "always", WHERE_SET: "where set", NEVER: "never"}


def tables(model: type[BaseModel], title: str, *, level: int = 2, versions: bool = True) -> str:
    """A model's settings and those within them, as Markdown: a heading and a table for each. `versions`: also whether
    a setting enters the version of what is made."""
    head = ("setting", "default", *(("in the version",) if versions else ()), "")
    parts = []
    for path, inside in _models(model):
        name = ".".join(path)
        parts.append(f"{'#' * (level + len(path))} {f'`{name}`' if path else title}\n")
        said = " ".join((inside.__doc__ or "").split())
        parts.append(f"{said}\n")
        parts.append(_row(head) + _row(["---"] * len(head)))
        # Models in a column stand as tables of their own further down.
        for word, field in inside.model_fields.items():
            cells = [f"`{field.alias or word}`", default_text(field)]
            if versions:
                cells.append(VERSION_WORDS[marked(field, "in_version", WHERE_SET)])
            parts.append(_row([*cells, _told(field)]))
        parts.append("\n")
    return "".join(part if part.startswith("|") else f"{part}\n" for part in parts).rstrip() + "\n"


def default_text(field: FieldInfo) -> str:
    """A setting's default as it is written in JSON; "" for settings within settings, which have tables of their own."""
    if field.is_required():
        return "required"
    if field.default_factory is not None or isinstance(field.default, BaseModel):
        return ""
    return f"`{json.dumps(field.default, ensure_ascii=False, default=str)}`"


def _told(field: FieldInfo) -> str:
    choices = _choices(field.annotation)
    limits = (
        f"One of {', '.join(choices)}." if choices else f"{range_of(field).capitalize()}." if range_of(field) else ""
    )
    # A bar would end the cell.
    return " ".join(filter(None, (field.description or "", limits))).replace("|", "\\|")


def _choices(annotation: object) -> list[str]:
    if typing.get_origin(annotation) is Literal:
        return [f"`{one}`" for one in typing.get_args(annotation)]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [one for option in typing.get_args(annotation) for one in _choices(option)]
    return []


def _models(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """A model and all that its fields hold, with the names that lead to them."""
    yield path, model
    for name, field in model.model_fields.items():
        for option in typing.get_args(field.annotation) or (field.annotation,):
            if isinstance(option, type) and issubclass(option, BaseModel):
                yield from _models(option, (*path, field.alias or name))


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |\n"
