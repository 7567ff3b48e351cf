"""Expressions of web elements: each fits one element, judged by a reader of its own."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from generators.harvesting.web_expressions import ORDINALS, ROLE_WORDS, ExpressionElement, Expressions, fold

NAMES = st.sampled_from(["Save", "save ", "Delete", "Ada", "Bo", "", "{x}", "word " * 20])
ROLES = st.sampled_from(["button", "link", "text", "checkbox", "generic"])


@st.composite
def screens(draw: st.DrawFn) -> list[ExpressionElement]:
    items = []
    for number in range(draw(st.integers(1, 12))):
        left, top = draw(st.integers(0, 9)) * 40.0, draw(st.integers(0, 9)) * 30.0
        group = draw(st.sampled_from(["", "r1", "r2"]))
        name, role = draw(NAMES), draw(ROLES)
        items.append(
            ExpressionElement(
                str(number),
                role,
                name,
                draw(st.sampled_from([name, ""])),
                (left, top, left + 38, top + 28),
                role not in ("text", "generic"),
                group,
                "row" if group else "",
            )
        )
    return items


def fitting(said: str, items: list[ExpressionElement]) -> set[str]:
    """Keys of the elements that an expression by name, or by role, name and row, fits: read anew from its words."""
    words = {word: role for role, word in ROLE_WORDS.items()}
    match = re.fullmatch(r'the (.+?)(?: "([^"]*)")?(?: in the row of "([^"]*)")?', said)
    if not match or match[1] not in words:
        return {item.key for item in items if fold(said) in (fold(item.name), fold(item.text))}
    like = [item for item in items if item.role == words[match[1]]]
    if match[2] is not None:
        like = [item for item in like if fold(item.name) == fold(match[2])]
    else:
        like = [item for item in like if not item.name]
    if match[3] is not None:
        told = [item for item in items if fold(match[3]) in (fold(item.name), fold(item.text))]
        rows = {item.group for item in told if not _is_part(item, items)}
        assert len(rows) == 1
        like = [item for item in like if item.group in rows]
    return {item.key for item in like}


@given(screens())
def test_every_expression_fits_one_element(items: list[ExpressionElement]) -> None:
    said = Expressions(items).all()
    owners: dict[str, str] = {}
    by_key = {item.key: item for item in items}
    for key, phrases in said.items():
        for phrase in phrases:
            assert owners.setdefault(fold(phrase), key) == key
            if re.search(r"the (?:" + "|".join(ORDINALS) + r') | next to "', phrase):
                continue
            found = fitting(phrase, items) - {key}
            assert all(_is_part(by_key[other], items) for other in found), (phrase, found)


def _is_part(item: ExpressionElement, items: list[ExpressionElement]) -> bool:
    """A text that lies within a control and says the same is that control, whatever row it is listed in."""
    return not item.clickable and any(
        other.clickable and other.box == item.box and fold(item.name) in (fold(other.name), fold(other.text))
        for other in items
    )


def _button(key: str, name: str, left: float, top: float, group: str = "") -> ExpressionElement:
    return ExpressionElement(
        key, "button", name, name, (left, top, left + 60, top + 20), True, group, "row" if group else ""
    )


def test_rows_positions_and_neighbours() -> None:
    items = [
        ExpressionElement("ada", "cell", "Ada", "Ada", (0, 0, 60, 20), False, "r1", "row"),
        _button("d1", "Delete", 100, 0, "r1"),
        ExpressionElement("bo", "cell", "Bo", "Bo", (0, 30, 60, 50), False, "r2", "row"),
        _button("d2", "Delete", 100, 30, "r2"),
        _button("d3", "Edit", 100, 60),
        _button("d4", "Edit", 200, 60),
        ExpressionElement("label", "text", "Newsletter", "Newsletter", (30, 90, 120, 110), False),
        ExpressionElement("box", "checkbox", "", "", (0, 90, 20, 110), True),
        ExpressionElement("far", "checkbox", "", "", (0, 300, 20, 320), True),
    ]
    said = Expressions(items).all()
    assert said["d1"] == ('the button "Delete" in the row of "Ada"', 'the first button "Delete" from the top')
    assert said["d2"] == ('the button "Delete" in the row of "Bo"', 'the second button "Delete" from the top')
    assert said["d4"] == ('the second button "Edit" from the left',)
    assert said["box"] == ('the check box next to "Newsletter"', "the first check box from the top")
    assert said["far"] == ("the second check box from the top",)
    assert said["ada"][:2] == ("Ada", 'the cell "Ada"')
