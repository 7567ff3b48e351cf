"""Text of data in a Markdown page is text, whatever it holds."""

from __future__ import annotations

import pytest

from pipelines.markdown_text import markdown_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b\\c", "a\\|b\\\\c"),
        ("*bold* `code` ~~gone~~", "\\*bold\\* \\`code\\` \\~\\~gone\\~\\~"),
        ("![x](y) [z](javascript:1)", "\\!\\[x\\](y) \\[z\\](javascript:1)"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("two\n  lines\u2028three", "two lines three"),
        ("_em_ __strong__ a__b", "\\_em\\_ \\_\\_strong\\_\\_ a\\_\\_b"),
    ],
)
def test_signs_are_escaped(text: str, written: str) -> None:
    assert markdown_text(text) == written


def test_an_underscore_within_a_word_stays() -> None:
    assert markdown_text("https://example.org/screen_annotation_2") == "https://example.org/screen_annotation_2"


def test_of_a_long_text_the_first_characters_are_kept() -> None:
    assert markdown_text("a|bcd", 3) == "a\\|b" and markdown_text("abc", 3) == "abc"
