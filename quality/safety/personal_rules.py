"""The forms of personal data: for each a pattern, what must hold beside it, and when it is known to be invented."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quality.safety.personal_numbers import is_card, is_chinese_id, is_iban, is_nir, is_pesel, is_spanish_id, is_ssn

# --- what is invented
# --------------------------------------------------------------------------------------------------
_EXAMPLE_DOMAIN = re.compile(
    r"(?:^|\.)(?:example|test|invalid|localhost|local)$|(?:^|\.)example\.(?:com|org|net|edu)$|"
    r"^(?:email|domain|company|yourdomain|mydomain|acme|contoso|foo|bar|fake|mail|site|website|sample|test|testing)\."
    r"(?:com|org|net|io|co)$|(?:^|\.)(?:contoso|fabrikam|mailinator)\.com$",
    re.IGNORECASE,
)
_MADE_UP_NAME = re.compile(
    r"(?:john|jane)[._-]?(?:doe|smith)\d*|j\.?doe\d*|test(?:er|ing|user)?\d*|user(?:name)?\d*|foo|bar|abc\d*|xyz|"
    r"your[._-]?(?:name|e?mail)?|name|sample|demo\d*|dummy|someone|nobody|no-?reply",
    re.IGNORECASE,
)
_TEST_NUMBERS = frozenset(Path(__file__).with_name("test_numbers.txt").read_text("utf-8").splitlines())
"""Numbers that providers and standards publish for tests: a kind (card, iban, id) and a number a line."""


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


def _straight(digits: str) -> bool:
    """One digit throughout, or counting up or down: nobody's number."""
    if len(set(digits)) <= 2:
        return True
    # Modulo 10, so that 8901 counts up as well.
    steps = {(int(b) - int(a)) % 10 for a, b in zip(digits, digits[1:], strict=False)}
    return steps in ({1}, {9})


# --- rules: a form, what must hold, and when it is invented
# ------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Rule:
    """`holds`: whether a match is one; `made_up`: whether it is a known placeholder."""

    kind: str
    name: str
    form: re.Pattern[str]
    holds: Callable[[re.Match[str]], bool]
    made_up: Callable[[str], bool]


def _email_holds(match: re.Match[str]) -> bool:
    name, _, domain = match[0].rpartition("@")
    last = domain.rpartition(".")[2].lower()
    files = {"png", "jpg", "jpeg", "gif", "svg", "webp", "js", "css", "py"}  # icon@2x.png is a file
    return last not in files and ".." not in name and len(match[0]) <= 254 and not re.fullmatch(r"[\d.]+", domain)


def _email_made_up(text: str) -> bool:
    name, _, domain = text.rpartition("@")
    return bool(_EXAMPLE_DOMAIN.search(domain)) or bool(_MADE_UP_NAME.fullmatch(name))


def _phone_made_up(text: str) -> bool:
    digits = _digits(text)
    # A leading 1 is the country's code.
    national = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    # 555-0100 to 555-0199 are kept for fiction (NANP); the exchange and area 555 belong to nobody.
    fiction = len(national) == 10 and (national[3:6] == "555" or national[:3] == "555")
    drama = re.search(r"(?:44|0)(?:7700900|2079460|1632960|1134960|1214960|1614960)\d{3}$", digits)  # Ofcom
    # The last eight digits: country codes are no part of the pattern.
    tail = digits[-8:] if len(digits) > 8 else digits
    return fiction or (len(national) == 7 and national[:3] == "555") or bool(drama) or _straight(tail)


def _international(match: re.Match[str]) -> bool:
    return 8 <= len(_digits(match[0])) <= 15 and _digits(match[0])[0] != "0"


def _national(match: re.Match[str]) -> bool:
    text = match[0]
    count = len(_digits(text))
    # A date in any order of its parts, and not a phone number.
    if not 9 <= count <= 12 or re.fullmatch(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}", text):
        return False
    # National numbers begin with 0 where they are written in full.
    return bool(re.match(r"\(?0[1-9]", text))


def _announced(match: re.Match[str]) -> bool:
    return 7 <= len(_digits(match["value"])) <= 15


def _ip_made_up(text: str) -> bool:
    address = ipaddress.ip_address(text)
    known = text in ("8.8.8.8", "8.8.4.4", "1.1.1.1", "1.2.3.4", "9.9.9.9")  # public servers, not people
    return known or not address.is_global


_VERSION = re.compile(r"(?:version|build|release|\bv|firmware|§|section)\s*\.?$", re.IGNORECASE)


def _ip_holds(match: re.Match[str]) -> bool:
    try:
        address = ipaddress.ip_address(match["value"])
    except ValueError:
        # Not all that has dots is one: 999.1.2.3.
        return False
    if address.version == 4:
        # "Version 1.2.3.4" has the form of an address.
        return not _VERSION.search(match.string[: match.start("value")])
    # Times such as 12:30:45 have colons, too.
    return match["value"].count(":") >= 3 and any(char.isalpha() for char in match["value"]) or address.is_global


def _always(match: re.Match[str]) -> bool:
    return True


def _never(text: str) -> bool:
    return False


_STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Square|Terrace|Place|Pl|Parkway|Pkwy|"
    "Highway|Hwy|Crescent|Close"
)
_CITY = (
    r"(?:,?\s+(?:Apt|Suite|Unit|#)\.?\s*\w{1,6})?(?:,\s*[A-Z][A-Za-z .]{2,30})?(?:,?\s+[A-Z]{2}\s+\d{5}(?:-\d{4})?)?"
)

_BARE = r"(?<![\w.$€£¥+-])"
"""Nothing before a number that would make it part of another, or a price."""


def _form(*parts: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile("".join(parts), flags)


def _test_id(text: str) -> bool:
    number = re.sub(r"[\s-]", "", text).upper()
    return f"id {number}" in _TEST_NUMBERS


def _test_card(text: str) -> bool:
    return f"card {_digits(text)}" in _TEST_NUMBERS or _straight(_digits(text))


def _test_iban(text: str) -> bool:
    number = re.sub(r"[ -]", "", text)
    return f"iban {number}" in _TEST_NUMBERS


_KNOWN_STREET = re.compile(
    r"\b123\b.*\bMain\b|\bAny(?:town)?\b|\bFake Street|\bExample Street|1600 Pennsylvania|"
    r"1600 Amphitheatre|221B|Musterstr"
)


def _known_street(text: str) -> bool:
    return bool(_KNOWN_STREET.search(text))


RULES: tuple[Rule, ...] = (
    Rule(
        "email",
        "address",
        _form(
            r"(?<![\w.+@/-])[A-Za-z0-9](?:[A-Za-z0-9._%+'-]{0,62}[A-Za-z0-9_+])?@",
            r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}(?![\w-])",
        ),
        _email_holds,
        _email_made_up,
    ),
    Rule(
        "iban",
        "mod 97",
        _form(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])"),
        lambda match: is_iban(match[0]),
        _test_iban,
    ),
    Rule(
        "payment_card",
        "Luhn",
        _form(r"(?<![\w.+-])(?:\d[ -]?){12,18}\d(?![\w-]|\.\d)"),
        lambda match: is_card(_digits(match[0])),
        _test_card,
    ),
    Rule(
        "national_id",
        "Chinese resident id",
        _form(r"(?<!\w)\d{17}[\dXx](?!\w)"),
        lambda match: is_chinese_id(match[0]),
        _test_id,
    ),
    Rule(
        "national_id",
        "US SSN",
        _form(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"),
        lambda match: is_ssn(match[0]),
        _test_id,
    ),
    Rule(
        "national_id",
        "US SSN",
        _form(r"\b(?:SSN|social security(?: number)?)\b\W{0,3}(?:is\s+)?(?P<value>\d{9})(?!\d)", flags=re.IGNORECASE),
        lambda match: is_ssn(match["value"]),
        _test_id,
    ),
    Rule(
        "national_id",
        "Spanish DNI or NIE",
        _form(r"(?<![\w-])[XYZ\d]\d{7}-?[A-Z](?![\w-])"),
        lambda match: is_spanish_id(match[0]),
        _test_id,
    ),
    Rule(
        "national_id",
        "French NIR",
        _form(r"(?<!\w)[12]\s?\d{2}\s?(?:0[1-9]|1[0-2])\s?(?:\d{2}|2[AB])\s?\d{3}\s?\d{3}\s?\d{2}(?!\w)"),
        lambda match: is_nir(match[0]),
        _never,
    ),
    Rule(
        "national_id",
        "Polish PESEL",
        _form(r"\bPESEL\b\W{0,3}(?P<value>\d{11})(?!\d)", flags=re.IGNORECASE),
        lambda match: is_pesel(match["value"]),
        _never,
    ),
    Rule(
        "ip_address", "IPv4", _form(r"(?<![\w.])(?P<value>(?:\d{1,3}\.){3}\d{1,3})(?!\w|\.\d)"), _ip_holds, _ip_made_up
    ),
    Rule(
        "ip_address",
        "IPv6",
        _form(r"(?<![\w:.])(?P<value>(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4})(?![\w:])"),
        _ip_holds,
        _ip_made_up,
    ),
    Rule(
        "phone",
        "international",
        _form(r"(?<![\w+])(?:\+|00(?=[1-9]\d[\s()-]))\s?\d(?:[\s().-]{0,2}\d){7,14}(?!\w)"),
        _international,
        _phone_made_up,
    ),
    Rule(
        "phone",
        "North American",
        _form(_BARE, r"(?:1[ .-])?(?:\([2-9]\d{2}\)\s?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}(?!\w|[.-]\d)"),
        _always,
        _phone_made_up,
    ),
    Rule(
        "phone",
        "seven digits",
        _form(
            _BARE,
            r"(?:call|phone|dial|text|tel\.?|number(?: is)?)\W{0,3}(?:to\s)?(?P<value>[2-9]\d{2}-\d{4})(?![\w-])",
            flags=re.IGNORECASE,
        ),
        _announced,
        _phone_made_up,
    ),
    Rule("phone", "Chinese mobile", _form(_BARE, r"1[3-9]\d(?:[ -]?\d{4}){2}(?![\w-]|\.\d)"), _always, _phone_made_up),
    Rule(
        "phone",
        "national",
        _form(r"(?<![\w.$€£¥+/-])\(?0\d{1,4}\)?(?:[ /-]\d{2,8}){1,4}(?![\w/]|[.-]\d)"),
        _national,
        _phone_made_up,
    ),
    Rule(
        "phone",
        "announced",
        _form(
            r"\b(?:phone|mobile|cell|tel(?:ephone)?|whatsapp|fax)(?:\s{1,4}(?:number|no\.?))?\s{0,4}(?:is|:|=|to|\"|')?\s{0,4}[\"']?",
            r"(?P<value>\d(?:[ .-]?\d){6,14})(?!\w|[.-]\d)",
            flags=re.IGNORECASE,
        ),
        _announced,
        _phone_made_up,
    ),
    Rule(
        "street_address",
        "number and street",
        _form(
            r"(?<![\w.$€£¥#])\d{1,5}[A-Za-z]?\s+(?:[NSEW]\.?\s+)?(?:[A-Z][a-z']+\.?\s+){1,3}",
            rf"(?:{_STREETS})\b\.?{_CITY}",
        ),
        _always,
        _known_street,
    ),
    Rule(
        "street_address",
        "German",
        _form(
            r"(?<!\w)[A-ZÄÖÜ][a-zäöüß-]{2,}(?:straße|strasse|str\.|weg|platz|allee|gasse)\s+\d{1,4}[a-z]?",
            r"(?:,?\s+\d{5}\s+[A-ZÄÖÜ]\w+)?(?!\w)",
        ),
        _always,
        _known_street,
    ),
    Rule(
        "street_address",
        "Chinese",
        _form(
            r"(?:(?![到往寄送在去给])[\u4e00-\u9fff]){2,8}[省市区县][\u4e00-\u9fff]{1,12}[路街道巷]\s?\d{1,5}\s?号(?:\s?\d{1,4}\s?[室楼单元栋])?"
        ),
        _always,
        _never,
    ),
)
"""In order: where two match the same place the first one names it."""
