"""Settings as flags of a command: name, type, range, default and text come from the fields of a model.

add_flags(parser, Grpo(), ["beta"])        --beta BETA   Weight of the KL term; 0 needs no reference. (0.0)
given_flags(options, ["beta"])             {"beta": 0.1}, or {} where it isn't given
"""

import argparse
import json
import textwrap
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from schemas.settings import Flag, Number, Settings, Whole, options_of, range_of

WIDTH = 110
"""Characters of a line of `listing`."""
KINDS: dict[Any, tuple[str, type | tuple[type, ...]]] = {
    Whole: ("a whole number", int),
    Number: ("a number", (int, float)),
}


def flag_names(model: type[BaseModel]) -> list[str]:
    """The settings of a model that a flag can set: numbers, texts, choices, and pairs and triples of numbers."""
    return [name for name, field in model.model_fields.items() if _kind(field) is not None]


def add_flags(parser: argparse._ActionsContainer, defaults: Settings, names: Iterable[str]) -> None:
    """A flag for each of these settings. What isn't given isn't set (`given_flags`); the help tells `defaults`."""
    for name in names:
        field = type(defaults).model_fields[name]
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            # Not even None: what isn't given must not count as set.
            default=argparse.SUPPRESS,
            help=_text(field, getattr(defaults, name)).replace("%", "%%"),  # argparse's own sign
            **(_kind(field) or {}),
        )


def given_flags(options: argparse.Namespace, names: Iterable[str]) -> dict[str, object]:
    """The settings that a person gave."""
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def listing(model: type[BaseModel], indent: str = "  ") -> str:
    """A line for each setting, and below one that holds settings its own, indented further."""
    return "\n".join(_lines(model, indent))


def _lines(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        line = f"{field.alias or name}: {_text(field, field.default)}"
        yield textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ")
        for option in options_of(field.annotation):
            if isinstance(option, type) and issubclass(option, BaseModel):
                yield from _lines(option, indent + "  ")


def _text(field: FieldInfo, default: object) -> str:
    """A field's text and its default."""
    plain = isinstance(default, bool | int | float | str | tuple) and default != ""
    shown = f" ({' '.join(map(str, default)) if isinstance(default, tuple) else default})" if plain else ""
    return f"{(field.description or '').removesuffix('.')}{shown}"


def _kind(field: FieldInfo) -> dict[str, Any] | None:
    """What argparse needs for a field's values; None for settings within settings, and lists of any length."""
    annotation = options_of(field.annotation)[0]
    # pydantic keeps the marks of a field's own `Whole` beside its type, those of `Whole | None` in it
    annotation = {int: Whole, float: Number, bool: Flag}.get(annotation, annotation)
    if typing.get_origin(annotation) is Literal:
        return {"choices": typing.get_args(annotation)}
    if typing.get_origin(annotation) is tuple:
        parts = typing.get_args(annotation)
        if Ellipsis in parts or len(set(parts)) != 1 or parts[0] not in KINDS:
            return None
        return {"nargs": len(parts), "type": _reader(parts[0], ""), "metavar": "N"}
    if annotation in KINDS:
        return {"type": _reader(annotation, range_of(field)), "metavar": "N"}
    if annotation == Flag:
        return {"action": argparse.BooleanOptionalAction}
    return {"metavar": "TEXT"} if annotation is str else None


def _reader(annotation: object, expected: str) -> Any:
    """Text → number, whole ones staying whole; the model checks its range."""
    words, kinds = KINDS[annotation]

    def read(text: str) -> object:
        try:
            # As JSON: "40" stays whole and "40.0" doesn't, as in a file.
            found = json.loads(text)
        except ValueError:
            found = None
        # bool is an int in Python.
        if not isinstance(found, kinds) or isinstance(found, bool):
            raise argparse.ArgumentTypeError(f"expected {expected or words}, found {text!r:.40}")
        return found

    return read
