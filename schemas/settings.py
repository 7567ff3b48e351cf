"""The base of all settings: frozen models whose fields hold a setting's default, range and text, each in one place.

    class Grpo(Settings):
        beta: Number = setting(0.0, "Weight of the KL term; 0 needs no reference.", ge=0)

    Grpo.parsed({"beta": -1}, "run.json")   ->   SettingsError: run.json: beta: expected a number, 0 or more, found -1

What a person wrote (a file, a flag, a variable) goes through `parsed`, whose error is one line that names where it
stands, the setting, what was expected and what was found. Numbers stay as they were written, 40 or 40.0, since the
version of what is made from them is a digest of their text.
"""

import difflib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, WrapValidator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

InVersion = bool | Literal["where set"]
"""Whether a setting enters the version of what is made: always, never, or where somebody set it."""
ALWAYS: InVersion = True
NEVER: InVersion = False
WHERE_SET: InVersion = "where set"
Path = tuple[str, ...]
"""Names that lead to a setting: ("grpo", "beta")."""


def _as_written(value: Any, check: Any) -> Any:
    """A number as it was written: a whole one isn't made a fraction, true and texts are no numbers."""
    if type(value) not in (int, float):
        # Pydantic's own check for the range; its result is dropped, since it would be a float.
        raise PydanticCustomError("number", "expected a number")
    check(value)
    return value


Number = Annotated[float, WrapValidator(_as_written)]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]


class SettingsError(ValueError):
    """Settings that are unknown, out of range or contradict each other: `problems` by their names. `where` is the file,
    the flag or the class that they stand in."""

    # Kept by names, so that settings within settings can put their own path before it.
    def __init__(self, where: str, problems: Mapping[Path, str]) -> None:
        self.problems = problems
        super().__init__(
            "; ".join(": ".join(filter(None, (where, ".".join(path), said))) for path, said in problems.items())
        )


def setting(default: Any = ..., text: str = "", /, *, in_version: InVersion = WHERE_SET, **more: Any) -> Any:
    """A field of `Settings`: its default (... for none), what it means, whether it enters versions (see
    `Settings.version_part`), and pydantic's own options (`ge`, `gt`, `le`, `lt`, `min_length`, `alias`, …).
    `neutral` (see `Settings.run_part`), which pydantic doesn't know, stands beside `in_version` in the schema."""
    extra: dict[str, Any] = {"in_version": in_version}
    # Pydantic refuses options that it doesn't know.
    if "neutral" in more:
        extra["neutral"] = more.pop("neutral")
    if "default_factory" not in more:
        more["default"] = default
    return Field(description=text, json_schema_extra=extra, **more)


def other_default(model: type[BaseModel], name: str, default: object) -> Any:
    """A field that a model inherits, with another default: text and range stay where they are written."""
    return FieldInfo.merge_field_infos(model.model_fields[name], default=default)


def neutral(model: type[BaseModel], name: str) -> Any:
    """A field that a model inherits, here neutral (see `Settings.run_part`)."""
    field = model.model_fields[name]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    # A copy: the inherited field stays as it is for the model that declares it.
    return FieldInfo.merge_field_infos(field, json_schema_extra={**extra, "neutral": True})


def marked(field: FieldInfo, word: str, default: object = None) -> object:
    """What `setting` noted of a field under a word: `in_version`, `neutral`."""
    extra = field.json_schema_extra
    return extra.get(word, default) if isinstance(extra, dict) else default


class Settings(BaseModel):
    """See the module."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # until a model is first used: most programs start without training's hundred settings
    )

    if not TYPE_CHECKING:  # which keeps the types of the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                # Pydantic's error without its trace: what a person reads is one line.
                raise SettingsError(type(self).__name__, problems(type(self), error)) from None

    @classmethod
    def parsed(cls, given: Mapping[str, object], where: str = "settings") -> Self:
        """From plain values that a person wrote. `where` opens the message of the `SettingsError` that this raises for
        a name that is unknown, a value out of range or settings that contradict each other."""
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise SettingsError(where, problems(cls, error)) from None

    def given(self) -> dict[str, Any]:
        """The settings that somebody set, as they are, without the defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def changed(self, **changes: object) -> Self:
        """A copy with other values, checked like a new one; what was set stays set."""
        # Through the constructor, so that a copy is checked like a new one.
        return type(self)(**{**self.given(), **changes})

    def plain(self) -> dict[str, Any]:
        """Every setting as JSON values."""
        # Through JSON: tuples become lists, as they will be when they are read back.
        found: dict[str, Any] = json.loads(json.dumps(self.model_dump(by_alias=True)))
        return found

    def version_part(self) -> dict[str, Any]:
        """The settings that the version of what is made depends on, as JSON values: those that always enter it and
        those that were set; of settings within settings likewise."""
        return self._part(if_set=(WHERE_SET,))

    def set_part(self) -> dict[str, Any]:
        """The same with those that were set and never enter a version: what other settings are laid over."""
        return self._part(if_set=(WHERE_SET, NEVER))

    def _part(self, if_set: tuple[InVersion, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            when = marked(field, "in_version", WHERE_SET)
            # Settings at rest stay out of the version, so that a new setting changes no version.
            if when is ALWAYS or (when in if_set and name in self.model_fields_set):
                found[field.alias or name] = _part_of(getattr(self, name), if_set)
        # Extra settings are somebody's own and always enter.
        found |= {name: _part_of(value, if_set) for name, value in (self.__pydantic_extra__ or {}).items()}
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain

    def run_part(self) -> dict[str, object]:
        """Every setting as JSON values but those that no version holds, and the neutral ones at their default: these
        came later, and a run that was saved before them still fits. Of settings within settings likewise."""
        found: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            # Neutral at its default: saved runs from before the setting must still fit.
            neutral = marked(field, "neutral") and value == field.default
            if marked(field, "in_version") is not NEVER and not neutral:
                found[field.alias or name] = value.run_part() if isinstance(value, Settings) else value
        plain: dict[str, Any] = json.loads(json.dumps(found, default=lambda one: one.run_part()))
        return plain


def _part_of(value: object, if_set: tuple[InVersion, ...]) -> Any:
    if isinstance(value, Settings):
        return value._part(if_set)
    if isinstance(value, Mapping):
        return {name: _part_of(one, if_set) for name, one in value.items()}
    return value


def problems(model: type[BaseModel], error: ValidationError) -> dict[Path, str]:
    """Names of a wrong setting → what was expected and found."""
    found: dict[Path, str] = {}
    for one in error.errors(include_url=False):
        # Follow-up errors would name settings that nobody wrote.
        if one["type"] in ("default_factory_not_called", "too_short") and found:  # follows from another error
            continue
        path, cause = _path(one), one.get("ctx", {}).get("error")
        if isinstance(cause, SettingsError):  # of settings within these
            # Inner problems first: they say more than the outer message about the same place.
            found = {**{(*path, *inner): said for inner, said in cause.problems.items()}, **found}
        elif one["type"] == "extra_forbidden":
            found.setdefault(path[:-1], _unknown(model, path))
        else:
            found.setdefault(path, _said(model, one, path))
    return found


def _unknown(model: type[BaseModel], path: Path) -> str:
    inside = _model_at(model, path[:-1]) or model
    known = [field.alias or word for word, field in inside.model_fields.items()]
    return f"unknown {path[-1][:80]!r}; {nearest(path[-1], known)}"


def _said(model: type[BaseModel], error: ErrorDetails, path: Path) -> str:
    if error["type"] == "missing":
        return "expected a value, found none"
    if error["type"] == "value_error":  # of a validator of ours, which says what it expected
        return error["msg"].removeprefix("Value error, ")
    field = _field_at(model, path)
    # Ranges are told whole: "0 or more, at most 1" and not just the bound that was crossed.
    expected = (range_of(field) if field is not None and error["type"] in _BOUNDS else "") or _expected(error)
    return f"expected {expected}, found {error['input']!r:.60}"


_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "at most {}"),
    "less_than": ("lt", "less than {}"),
}
_KINDS = {
    "number": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "settings by name",
    "mapping_type": "settings by name",
    "model_type": "settings by name",
    "model_attributes_type": "settings by name",
    "none_required": "null",
}


def _expected(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"a number, {words.format(context[bound])}"
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    if kind in ("too_short", "too_long"):
        bound = "min_length" if kind == "too_short" else "max_length"
        return f"{'at least' if kind == 'too_short' else 'at most'} {context[bound]} of them"
    return _KINDS.get(kind) or error["msg"].removeprefix("expected ")


def range_of(field: FieldInfo) -> str:
    """A field's range in words; "" where it has no bounds."""
    bounds: dict[str, Any] = {}
    for one in _constraints(field):
        bounds |= {word: getattr(one, word) for word, _ in _BOUNDS.values() if getattr(one, word, None) is not None}
    said = [words.format(f"{bounds[word]:g}") for word, words in _BOUNDS.values() if word in bounds]
    kind = (
        "a whole number" if Whole in options_of(field.annotation) or int in options_of(field.annotation) else "a number"
    )
    return f"{kind}, {' and '.join(said)}" if said else ""


def _constraints(field: FieldInfo) -> Iterable[Any]:
    yield from field.metadata
    for option in options_of(field.annotation):
        yield from getattr(option, "__metadata__", ())


def options_of(annotation: object) -> list[Any]:
    """The members of a union, without null; of any other type itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [one for one in typing.get_args(annotation) if one is not type(None)]
    return [annotation]


def nearest(name: str, known: Iterable[str], few: Iterable[str] = ()) -> str:
    """What an error says of a name that isn't known: the nearest ones; where none is near `few` of them, or all."""
    known = sorted(known)
    return near(name, known) or f"known are {', '.join(sorted(few) or known) or 'none'}"


def near(name: str, known: Iterable[str]) -> str:
    """The same, but empty where no known name is near."""
    # difflib's own measure; sorted, so that ties come in one order.
    found = difflib.get_close_matches(name, sorted(known))
    return f"did you mean {' or '.join(found)}?" if found else ""


def _path(error: ErrorDetails) -> Path:
    """The names that lead to an error, without pydantic's words for the member of a union that was tried."""
    # Pydantic puts the names of tried union members among the names; they hold brackets.
    loc = [str(one) for one in error["loc"]]
    return tuple(one for one in loc[:-1] if "[" not in one) + tuple(
        one for one in loc[-1:] if "[" not in one or error["type"] == "extra_forbidden"
    )


def _named(model: type[BaseModel], name: str) -> FieldInfo | None:
    found = model.model_fields.get(name)
    return found or next((field for field in model.model_fields.values() if field.alias == name), None)


def _field_at(model: type[BaseModel], path: Path) -> FieldInfo | None:
    parent = _model_at(model, path[:-1]) if path else None
    return _named(parent, path[-1]) if parent is not None else None


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model of the settings that stand under a path of names; None where there are none."""
    found: type[BaseModel] | None = model
    names = iter(path)
    # An iterator, since a name that a person chose takes a second step.
    for name in names:
        field = _named(found, name) if found is not None else None
        found = None
        for option in options_of(field.annotation) if field is not None else ():
            if typing.get_origin(option) is dict:  # settings by a name that a person chose
                option = typing.get_args(option)[1]
                next(names, None)
            if isinstance(option, type) and issubclass(option, BaseModel):
                found = option
    return found


def merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what is given over it, settings within settings one by one; models of settings become plain."""
    found = {name: value.given() if isinstance(value, Settings) else value for name, value in base.items()}
    for name, value in given.items():
        # Only where both are settings is one laid over the other; else the new value stands.
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = merged(found[name], value) if both else value
    return found


def by_path(plain: object, path: str = "") -> dict[str, str]:
    """The values within values of plain settings by their dotted path, each as JSON."""
    if not isinstance(plain, Mapping) or not plain:
        return {path: json.dumps(plain, sort_keys=True, ensure_ascii=False)}
    inner = (by_path(value, f"{path}.{name}" if path else str(name)) for name, value in plain.items())
    return {place: value for values in inner for place, value in values.items()}


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Values by path that two plain settings don't share: (the first's, the second's), in words where one doesn't set
    it."""
    one, other = (by_path(plain) if plain else {} for plain in (first, second))
    pairs = {path: (one.get(path, "by default"), other.get(path, "by default")) for path in sorted({*one, *other})}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}
