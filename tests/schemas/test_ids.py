"""Ids and the lines of JSON that go with them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import canonical_json, split_json_lines


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_every_record_comes_back_as_one_line(texts: list[str]) -> None:
    written = "".join(canonical_json({"text": text}) + "\n" for text in texts)
    assert [json.loads(line)["text"] for line in split_json_lines(written)] == texts


def test_only_a_newline_ends_a_line() -> None:
    assert split_json_lines('"a\u2028b"\n"c\u2029d\u0085e"\n') == ['"a\u2028b"', '"c\u2029d\u0085e"']
    assert split_json_lines("1\n2") == ["1", "2"], "the last line may lack its end"
    assert split_json_lines("") == []
