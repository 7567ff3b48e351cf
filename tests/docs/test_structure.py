"""The figures of the structure count what they say."""

from __future__ import annotations

import ast

from bench.structure import any_figure, public_functions, says_any

TEXT = """
def plain(a: int) -> str: ...
def given(a: dict[str, Any]) -> str: ...
def given_back(a: int) -> "list[int] | None": ...
def rest(*a: int, **more: Any) -> None: ...
def _private(a: Any) -> Any: ...
class Public:
    def method(self) -> list[Any]: ...
    def __call__(self, a: Any) -> None: ...
class _Hidden:
    def method(self, a: Any) -> None: ...
"""


def test_public_functions_are_those_whose_names_and_classes_are() -> None:
    names = {function.name for function in public_functions(ast.parse(TEXT))}
    assert names == {"plain", "given", "given_back", "rest", "method"}


def test_a_signature_says_any_wherever_it_stands() -> None:
    found = {function.name for function in public_functions(ast.parse(TEXT)) if says_any(function)}
    assert found == {"given", "rest", "method"}
    assert any_figure({"a.py": ast.parse(TEXT)}).value == 60.0  # 3 of 5
