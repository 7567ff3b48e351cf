"""Credentials in text: passwords that are given away, keys and tokens by their form, card numbers by their checksum.

Finds the kind, never repeats the text. What it can't see: a password that looks like a word and isn't announced as one.
"""

from __future__ import annotations

import re

from quality.safety.personal_numbers import is_card

_FORMS = {
    "private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "cloud access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "access token": re.compile(
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}|xox[abprs]-[\w-]{10,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|"
        r"sk-[A-Za-z0-9_-]{20,}|AIza[\w-]{35})"
    ),
    "signed token": re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    "address with a password": re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]+:[^\s/@]+@"),
}
_TOLD = re.compile(
    r"\b(?:pass(?:word|code|phrase)|pwd|pin(?: code)?|api[ _-]?key|secret(?:[ _-]key)?|access[ _-]token)\b"
    r"\s*(?:is|are|:|=|->)\s*[\"'“‘`]?(?P<value>[^\s\"'”’`,;]{4,})",
    re.IGNORECASE,
)
_USED = re.compile(
    r"\b(?:with|using|use|enter|type|and)\s+(?:the\s+)?(?:pass(?:word|code|phrase)|pin)\s+"
    r"[\"'“‘`](?P<value>[^\"'”’`]{4,})",
    re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\d.])(?:\d[ -]?){13,19}(?!\d|\.\d)")
_PLACEHOLDER = re.compile(
    r"[*.•…_x -]+|"  # a mask throughout: a password may begin like one
    r"(?:[<{]+/?[^\W\d][\w .:=-]*[>}]*)+|"  # a template's slot, a tag; values end at a blank, so it may lack its end
    r"[\[(](?:[^\W\d]|[ .:-])+(?:[_ -]\d+)?[\])]*|(?-i:\[[A-Z_]+\d+\])|"  # a remark, or what stands for one left out
    r"\(\d{1,2}(?:\W\d{1,2}|\W?[^\W\d]*)\)?|"  # how long it is to be: (8-16, (4-digit)
    r"[\W_]*(?:required|incorrect|wrong|invalid|strong|weak|reset|changed?|your\w*|field)[\W_]*",
    re.IGNORECASE,
)
"""What stands in the place of a password, in full."""


def _is_placeholder(value: str) -> bool:
    """Whether a value as `_TOLD` and `_USED` find it, with what ends its sentence or the brackets around it, is one."""
    value = value.rstrip(".,:;!?")
    for opens, closes in ("()", "[]"):
        if value.endswith(closes) and value.count(closes) > value.count(opens):
            value = value[:-1].rstrip(".,:;!?")
    return not value or _PLACEHOLDER.fullmatch(value) is not None


def credential_in(text: str | None) -> str | None:
    """What kind of credential a text holds; None if none is seen."""
    if not text:
        return None
    # Forms first: a key is a key, whether or not it was announced.
    for kind, form in _FORMS.items():
        if form.search(text):
            return kind
    # What a text says to be a password, unless it is a blank to fill in.
    for stated in (*_TOLD.finditer(text), *_USED.finditer(text)):
        if not _is_placeholder(stated["value"]):
            return "password or key that is told"
    for number in _CARD.finditer(text):
        # A checksum makes a card of a row of digits.
        if is_card("".join(char for char in number[0] if char.isdigit())):
            return "card number"
    return None
