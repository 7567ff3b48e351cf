"""Ids and the lines of JSON that go with them."""

from __future__ import annotations

import enum
import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import ids
from schemas.ids import canonical_json, digest, split_json_lines


class Kind(enum.IntEnum):
    """A number with a name."""

    ONE = 1


class Name(enum.StrEnum):
    """A text with a name."""

    ONE = "one"


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_every_record_comes_back_as_one_line(texts: list[str]) -> None:
    written = "".join(canonical_json({"text": text}) + "\n" for text in texts)
    assert [json.loads(line)["text"] for line in split_json_lines(written)] == texts


def test_only_a_newline_ends_a_line() -> None:
    assert split_json_lines('"a\u2028b"\n"c\u2029d\u0085e"\n') == ['"a\u2028b"', '"c\u2029d\u0085e"']
    assert split_json_lines("1\n2") == ["1", "2"], "the last line may lack its end"
    assert split_json_lines("") == []


ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""With control characters and lone surrogates."""
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.floats(1e-6, 1e-3),
    st.floats(1e15, 1e17),
    ANY_TEXT,
    st.binary(max_size=8),
    st.dates(),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
    st.floats(width=32).map(np.float32),
    st.sampled_from([Kind.ONE, Name.ONE]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(ANY_TEXT, st.integers(), st.none()), inner, max_size=4),
    ),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(VALUES)
def test_the_fast_writer_writes_what_json_writes(value: object) -> None:
    assert canonical_json(value).encode() == ids._written_by_json(value)
    assert digest(value) == hashlib.sha256(ids._written_by_json(value)).hexdigest()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"b": 1, "a": [1.5, None, True], "ä": "\u2028\x1f\x7f"},
            '{"a":[1.5,null,true],"b":1,"ä":"\u2028\\u001f\x7f"}',
        ),
        ([1e16, 1e-5, 0.0001, -0.0, 9999999999999998.0], "[1e+16,1e-05,0.0001,-0.0,9999999999999998.0]"),
        ([float("nan"), float("-inf")], '["nan","-inf"]'),
        (2**64, "18446744073709551616"),
        ("\ud800", '"\\\\ud800"'),
        ({1: "a", None: "b"}, '{"1":"a","None":"b"}'),
        ({"\U0001f600": 1, "\uffff": 2, "z": 3}, '{"z":3,"\uffff":2,"\U0001f600":1}'),
        (b"abc", '{"bytes":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}'),
    ],
)
def test_the_form_stays_as_it_is(value: object, text: str) -> None:
    assert canonical_json(value) == text


def test_deep_nesting_is_written_too() -> None:
    value: list[object] = []
    for _ in range(400):
        value = [value]
    assert canonical_json(value) == "[" * 401 + "]" * 401


@dataclass
class Record:
    """Nothing of an Arrow table."""

    name: str = "a"


@pytest.mark.parametrize("value", [Record(), [Record()], {"a": object()}, {1, 2}])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected plain data"):
        canonical_json(value)
