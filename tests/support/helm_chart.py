"""The chart's objects without Helm: the part of its template language that our templates use, and nothing else of it.

Values (`.Values.a.b`, `.Release.Name`, `$name`), each alone, with `| quote`, or after `int64` or `toJson`; `if VALUE`
and `range $name, $value := VALUE` with their `end`; `{{-` and `-}}`, which take the white space before and after away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "vesper"
TAG = re.compile(r"\{\{(-?) (.+?) (-?)\}\}")
RANGE = re.compile(r"range (\$\w+), (\$\w+) := (\S+)")


def rendered(values: Mapping[str, Any] | None = None, release: str = "vesper") -> Iterator[tuple[str, Any]]:
    """(file, object) of every template, with the chart's own values and `values` over them, as `--set` puts them."""
    scope = {
        "Values": merged(yaml.safe_load((CHART / "values.yaml").read_text()), values or {}),
        "Release": {"Name": release},
    }
    for path in sorted((CHART / "templates").glob("*.yaml")):
        for one in yaml.safe_load_all(render(path.read_text(), scope)):
            yield path.name, one


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings of both are merged, at any depth; of all else that of `over` counts."""
    found = dict(values)
    for name, value in over.items():
        inner = found.get(name)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping)
        found[name] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return found


def render(text: str, scope: Mapping[str, Any]) -> str:
    """A template's text with its tags put into effect. Fails on a tag that isn't understood."""
    pieces: list[tuple[bool, str]] = []  # (whether it is a tag, text)
    end, trims = 0, False
    for tag in TAG.finditer(text):
        before = text[end : tag.start()]
        before = before.lstrip() if trims else before
        pieces += [(False, before.rstrip() if tag[1] else before), (True, tag[2])]
        end, trims = tag.end(), bool(tag[3])
    pieces.append((False, text[end:].lstrip() if trims else text[end:]))
    return "".join(_block(iter(pieces), dict(scope)))


def _block(pieces: Iterator[tuple[bool, str]], scope: Mapping[str, Any]) -> Iterator[str]:
    """What stands up to the `end` of this block, or to the last piece."""
    for is_tag, text in pieces:
        if not is_tag:
            yield text
        elif text == "end":
            return
        elif text.startswith("if "):
            inside = list(_body(pieces))
            if _value(text.removeprefix("if "), scope):
                yield from _block(iter(inside), scope)
        elif (loop := RANGE.fullmatch(text)) is not None:
            inside = list(_body(pieces))
            for name, value in sorted((_value(loop[3], scope) or {}).items()):
                yield from _block(iter(inside), {**scope, loop[1]: name, loop[2]: value})
        elif text.startswith("toJson "):
            yield json.dumps(_value(text.removeprefix("toJson "), scope), sort_keys=True)
        else:
            whole = text.startswith("int64 ")
            name, *pipe = text.removeprefix("int64 ").split()
            assert pipe in ([], ["|", "quote"]), f"this renderer doesn't know {text!r}"
            value = _written(_value(name, scope), whole)
            yield json.dumps(value, ensure_ascii=False) if pipe else value


def _body(pieces: Iterator[tuple[bool, str]]) -> Iterator[tuple[bool, str]]:
    """The pieces up to the `end` that belongs to the tag just read."""
    depth = 1
    for is_tag, text in pieces:
        depth += is_tag and text.startswith(("if ", "range "))
        depth -= is_tag and text == "end"
        if not depth:
            return
        yield is_tag, text
    raise AssertionError("a template lacks an end")


def _written(value: Any, whole: bool) -> str:
    """As Helm writes a value: its numbers are floats, of which Go writes a million and more as 1e+06."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    assert whole or not is_number or abs(value) < 1_000_000, f"{value} would be written {value:e}: say int64"
    return str(int(value)) if whole else str(value)


def _value(name: str, scope: Mapping[str, Any]) -> Any:
    """`.Values.a.b` or `$name`. Raises `KeyError` where there is none: Helm would write `<no value>`."""
    found: Any = scope
    for part in [name] if name.startswith("$") else name.removeprefix(".").split("."):
        found = found[part]
    return found
