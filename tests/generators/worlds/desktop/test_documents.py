"""What documents of the spreadsheet and the word processor hold."""

from __future__ import annotations

import pytest

from generators.worlds.desktop.documents import cells_of, colours_of, column_name, paragraphs_of
from generators.worlds.desktop.tasks_pictures import xpm
from generators.worlds.desktop.tasks_spreadsheet import book, cells
from generators.worlds.desktop.tasks_writer import document


def test_a_workbook_s_cells_by_name() -> None:
    rows = [("item", "price"), ("tea", "3")]
    assert cells_of(book(rows)) == {"A1": "item", "B1": "price", "A2": "tea", "B2": "3"} == cells(rows)
    assert cells_of(book([("=sum(B2:B3)",)])) == {"A1": "=SUM(B2:B3)"}


@pytest.mark.parametrize(("number", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")])
def test_columns_count_on_after_z(number: int, name: str) -> None:
    assert column_name(number) == name


def test_paragraphs_say_their_style_and_what_is_formatted_as_a_whole() -> None:
    assert paragraphs_of(document(["a < b", "second"])) == ["a < b", "second"]
    marked = document(["x"]).replace(
        "<p>x</p>",
        '<p style="Heading 1" props="text-align:center"><c props="font-weight:bold; lang:en">all</c></p>'
        '<p>half <c props="font-weight:bold">bold</c></p>',
    )
    assert paragraphs_of(marked) == ["[Heading 1] [font-weight:bold] [text-align:center] all", "half bold"]


@pytest.mark.parametrize("text", ["", "no XML", "<a/>", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_another_kind_of_text_is_no_document(text: str) -> None:
    assert cells_of(text) is None and paragraphs_of(text) is None and colours_of(text) is None


def test_a_picture_s_colours_whatever_letters_stand_for_them() -> None:
    text = xpm(["ab", "bb"], {"a": "#FF0000", "b": "#0000FF"})
    assert colours_of(text) == [["#FF0000", "#0000FF"], ["#0000FF", "#0000FF"]]
    other = '/* XPM */\nstatic char *p[] = {\n"2 1 2 2",\n"..\tc #ff0000",\n"xx\tc #0000ff",\n"..xx"};\n'
    assert colours_of(other) == [["#FF0000", "#0000FF"]]
