"""Numbers that carry a checksum: whether a row of characters can be one at all."""

from __future__ import annotations

import datetime
import re

_IBAN_LENGTHS = """
15 NO
16 BE
18 DK FI FO GL NL
19 MK SI
20 AT BA EE KZ LT LU XK
21 CH HR LI LV
22 BG BH CR DE GB GE IE ME RS VA
23 AE GI IL IQ
24 AD CZ ES MD PK RO SA SE SK TN VG
25 PT
26 IS TR
27 FR GR IT MC MR SM
28 AL AZ BY CY DO GT HU LB PL
29 BR EG PS QA UA
30 JO KW MU
31 MT
"""
IBAN_LENGTHS = {c: int(line[:2]) for line in _IBAN_LENGTHS.strip().splitlines() for c in line[3:].split()}
"""Characters of an IBAN by country (registry of ISO 13616)."""


def luhn(digits: str) -> bool:
    """The checksum of ISO/IEC 7812-1."""
    # From the right every second digit counts twice; 9 less is the sum of the two digits.
    doubled = [int(char) * (2 if place % 2 else 1) for place, char in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def is_card(digits: str) -> bool:
    """Issuer prefix and length of a payment card, and Luhn."""
    length, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    known = (
        (digits[0] == "4" and length in (13, 16, 19))
        or ((51 <= two <= 55 or 2221 <= four <= 2720) and length == 16)
        or (two in (34, 37) and length == 15)
        or ((four == 6011 or two == 65 or 644 <= three <= 649) and 16 <= length <= 19)
        or (two == 62 and 16 <= length <= 19)
        or (3528 <= four <= 3589 and 16 <= length <= 19)
        or ((two in (36, 38, 39) or 300 <= three <= 305) and 14 <= length <= 19)
    )
    # A row of equal digits may pass the checksum, and is no card.
    return known and luhn(digits) and len(set(digits)) > 1


def is_iban(text: str) -> bool:
    """Country, length and mod 97 (ISO 7064)."""
    plain = re.sub(r"[ -]", "", text)
    if IBAN_LENGTHS.get(plain[:2]) != len(plain):
        return False
    # Letters count 10 to 35, and country and check digits move to the end.
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def is_chinese_id(text: str) -> bool:
    """18 characters of GB 11643-1999: a province, a date of birth that exists, and the mod 11 check character."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(char) * weight for char, weight in zip(text[:17], weights, strict=True))
    # The last sign is the remainder's place in the standard's own row of characters.
    return "10X98765432"[total % 11] == text[17].upper() and "11" <= text[:2] <= "91" and _is_date(text[6:14])


def _is_date(text: str) -> bool:
    try:
        date = datetime.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return False
    return 1890 <= date.year <= 2100


def is_ssn(text: str) -> bool:
    """Ranges that the US Social Security gives out: no area 000, 666 or 9xx, no group 00, serial 0000."""
    digits = text.replace("-", "")
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_spanish_id(text: str) -> bool:
    """DNI or NIE: the number mod 23 names the letter."""
    plain = text.replace("-", "")
    # A NIE begins with a letter that stands for 0, 1 or 2.
    number = int(str("XYZ".find(plain[0])) + plain[1:8]) if plain[0] in "XYZ" else int(plain[:8])
    return "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == plain[8]


def is_nir(text: str) -> bool:
    """French social security number: key = 97 - (number mod 97), with 2A and 2B of Corsica as 19 and 18."""
    plain = re.sub(r"\s", "", text).replace("2A", "19").replace("2B", "18")
    return len(plain) == 15 and 97 - int(plain[:13]) % 97 == int(plain[13:])


def is_pesel(digits: str) -> bool:
    """Polish PESEL: weights 1 3 7 9, mod 10, and a month in one of the five centuries' ranges."""
    weights = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)
    total = sum(int(char) * weight for char, weight in zip(digits[:10], weights, strict=True))
    # Months are shifted by 20 a century.
    return (10 - total % 10) % 10 == int(digits[10]) and 1 <= int(digits[2:4]) % 20 <= 12
