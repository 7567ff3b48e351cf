"""Personal data is found by form and checksum, made-up values are known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.safety.personal_data import find_personal, shape
from quality.safety.personal_numbers import is_card, is_chinese_id, is_iban, is_nir, is_pesel, is_spanish_id, luhn
from quality.safety.personal_rules import RULES

REAL = [
    ("write to bob.miller@gmail.com now", "bob.miller@gmail.com", "email"),
    ("mail anna+news@uni-koeln.de.", "anna+news@uni-koeln.de", "email"),
    ("call +49 30 901820-12 today", "+49 30 901820-12", "phone"),
    ("dial (415) 867-5309", "(415) 867-5309", "phone"),
    ("text 415.867.5309", "415.867.5309", "phone"),
    ("ring 0171 2345987 at noon", "0171 2345987", "phone"),
    ("手机号 13912876540", "13912876540", "phone"),
    ("the phone number is 8675309", "8675309", "phone"),
    ("pay with 5425 2334 3010 9903", "5425 2334 3010 9903", "payment_card"),
    ("to GB33BUKB20201555555555 please", "GB33BUKB20201555555555", "iban"),
    ("server 83.12.4.5 is down", "83.12.4.5", "ip_address"),
    ("ping 2a00:1450:4001:81b::200e", "2a00:1450:4001:81b::200e", "ip_address"),
    ("my number 536-22-8726", "536-22-8726", "national_id"),
    ("身份证 440308199901101512", "440308199901101512", "national_id"),
    ("DNI 54362315K", "54362315K", "national_id"),
    ("ship to 742 Evergreen Terrace, Springfield", "742 Evergreen Terrace, Springfield", "street_address"),
    ("Lieferung an Hauptstraße 12, 10115 Berlin", "Hauptstraße 12, 10115 Berlin", "street_address"),
    ("送到上海市浦东新区世纪大道路100号", "上海市浦东新区世纪大道路100号", "street_address"),
]
MADE_UP = [
    "jane@example.com",
    "john.doe@gmail.com",
    "test@test.com",
    "user@foo.example",
    "415-555-0132",
    "+1 555 123 4567",
    "+44 7700 900123",
    "4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "192.168.0.1",
    "203.0.113.9",
    "8.8.8.8",
    "078-05-1120",
    "11010519491231002X",
    "123 Main Street",
    "13800000000",
]
NOTHING = [
    "meet on 2024-05-06 at 12:30:45",
    "10/12/2024 or 10.12.2024",
    "costs $1 234 567.00",
    "€0171 2345",
    "order 4532015112830367",
    "version 10.0.19.45",
    "open icon@2x.png",
    "go to 3rd Street",
    "scroll 100-200-3000",
    "click [0.512, 0.734]",
    "GB33BUKB20201555555556",
    "18 hours drive",
    "track 1Z999AA10123456784",
    "440308199901101513",
    "000-12-3456",
    "@alice said hi",
    "size 10x12x14",
    "5 St",
    "2 way street",
    "1234567890",
    "id 20240506123045",
    "54362315L",
    "a 2 by 4",
]


@pytest.mark.parametrize(("text", "value", "kind"), REAL)
def test_real_forms_are_found(text: str, value: str, kind: str) -> None:
    [span] = find_personal(text)
    assert (text[span.start : span.end], span.kind, span.synthetic) == (value, kind, False)


@pytest.mark.parametrize("text", MADE_UP)
def test_made_up_values_are_known(text: str) -> None:
    spans = find_personal(f"use {text} here")
    assert spans and all(span.synthetic for span in spans)


@pytest.mark.parametrize("text", NOTHING)
def test_dates_prices_and_ids_are_nothing(text: str) -> None:
    assert find_personal(text) == []


def test_checksums() -> None:
    assert luhn("79927398713") and not luhn("79927398710")
    assert is_card("5425233430109903") and not is_card("5425233430109904") and not is_card("0000000000000000")
    assert is_iban("GB33 BUKB 2020 1555 5555 55") and not is_iban("GB33BUKB2020155555555")
    assert is_chinese_id("11010519491231002X") and not is_chinese_id("110105194913310020")
    assert is_spanish_id("X1234567L") and is_nir("255081416802538") and is_pesel("44051401359")
    assert not is_nir("255081416802539") and not is_pesel("44051401358")


@given(st.integers(10**14, 10**15 - 1), st.integers(0, 14), st.integers(1, 9))
def test_luhn_sees_every_single_wrong_digit(number: int, place: int, step: int) -> None:
    digits = str(number)
    whole = next(digits + str(last) for last in range(10) if luhn(digits + str(last)))
    wrong = str((int(whole[place]) + step) % 10)
    assert not luhn(whole[:place] + wrong + whole[place + 1 :])


@given(st.text(alphabet="ab@. +-()0123456789:/XDE\n号路", max_size=60))
@settings(max_examples=300, deadline=None)
def test_spans_lie_in_the_text_and_apart(text: str) -> None:
    spans, kinds = find_personal(text), {rule.kind for rule in RULES}
    assert all(0 <= span.start < span.end <= len(text) and span.kind in kinds for span in spans)
    assert all(a.end <= b.start for a, b in zip(spans, spans[1:], strict=False))


def test_a_shape_shows_no_character() -> None:
    assert shape("Bob-7@web.de") == "aaa-9@aaa.aa" and len(shape("7" * 99)) == 40
