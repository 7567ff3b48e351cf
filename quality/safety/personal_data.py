"""Personal data in text by form and checksum: how to reach, charge or register somebody. No model.

| kind | seen by | passed over |
|---|---|---|
| `email` | an address with a dot in its domain | file names such as icon@2x.png |
| `phone` | E.164, North American and grouped national forms, Chinese mobiles, announced numbers | dates, prices |
| `payment_card` | issuer, length, Luhn checksum | what fails the checksum |
| `iban` | country, its length, mod 97 | the same |
| `ip_address` | IPv4, IPv6 | versions; private and reserved ranges are made up |
| `national_id` | Chinese resident id, US SSN, Spanish DNI and NIE, French NIR, Polish PESEL | wrong checksum or range |
| `street_address` | a number, a name and a street word; German and Chinese forms | ordinals, "2 way street" |

Values of tests and documentation (example.com, 555-01xx, 4111 1111 1111 1111, 192.0.2.0/24, john.doe@…) are marked
`synthetic`: they are counted apart and never masked. Names of people aren't looked for: without a model a name can't be
told from a brand or a place. A number in a form that isn't listed isn't seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from quality.safety.personal_rules import RULES
from schemas.actions import format, parse
from schemas.ids import canonical_json

KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES))
Policy = Literal["report", "mask", "quarantine"]
POLICIES: tuple[Policy, ...] = ("report", "mask", "quarantine")
ROUNDS = 5
_WORTH_A_LOOK = re.compile(r"[@\d]")
"""Every form holds one of these."""
STEP_TEXTS = ("instruction", "step_instruction", "thought", "conclusion")


@dataclass(frozen=True, slots=True)
class Span:
    """Where personal data stands in a text: `text[start:end]`; `rule` is the form that saw it, `synthetic` if it is a
    known placeholder."""

    start: int
    end: int
    kind: str
    rule: str
    synthetic: bool


def find_personal(text: str | None) -> list[Span]:
    """All personal data of a text, by place, never overlapping."""
    if not text or not _WORTH_A_LOOK.search(text):
        return []
    taken: list[Span] = []
    for span in _matches(text):
        if all(span.end <= other.start or span.start >= other.end for other in taken):
            taken.append(span)
    return sorted(taken, key=lambda span: span.start)


def _matches(text: str) -> Iterator[Span]:
    for rule in RULES:
        for match in rule.form.finditer(text):
            group = "value" if "value" in rule.form.groupindex else 0
            if rule.holds(match):
                yield Span(match.start(group), match.end(group), rule.kind, rule.name, rule.made_up(match[group]))


def shape(text: str) -> str:
    """A text with its letters and digits struck out: what may be written down of a finding."""
    return "".join("9" if char.isdigit() else "a" if char.isalpha() else char for char in text)[:40]


# --- where text stands in a row ---------------------------------------------------------------------------------------
def step_texts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, text) of a `steps` row: what was asked, thought and typed."""
    found = [(name, row[name]) for name in STEP_TEXTS if row[name]]
    typed = _content(row["action_text"])
    return [*found, ("action", typed)] if typed else found


def sample_texts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, text) of a `samples` row: its prompt and its answer."""
    found = [("messages", text) for text in _strings(json.loads(row["messages"]))]
    return [*found, ("answer", row["answer"])] if row["answer"] else found


def _content(action_text: str | None) -> str:
    action = parse(action_text) if action_text else None
    return str(getattr(action, "content", "") or "")


def _strings(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, Mapping):
        for value in plain.values():
            yield from _strings(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _strings(value)


# --- masking ----------------------------------------------------------------------------------------------------------
class Masker:
    """Replaces personal data by placeholders of its kind. One Masker an episode: the same value gets the same
    placeholder wherever it stands, so that an instruction and what is typed still agree."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self.masked: set[str] = set()

    def text(self, text: str) -> str:
        """The text without personal data; what is synthetic already stays."""
        for _ in range(ROUNDS):  # what was hidden between two spans may show once they are gone
            spans = [span for span in find_personal(text) if not span.synthetic]
            for span in reversed(spans):
                self.masked.add(f"{span.kind}: {span.rule}")
                text = text[: span.start] + self._placeholder(span.kind, text[span.start : span.end]) + text[span.end :]
            if not spans:
                break
        return text

    def plain(self, plain: Any) -> Any:
        """The same within all strings of plain JSON data."""
        if isinstance(plain, str):
            return self.text(plain)
        if isinstance(plain, Mapping):
            return {name: self.plain(value) for name, value in plain.items()}
        return [self.plain(value) for value in plain] if isinstance(plain, list) else plain

    def _placeholder(self, kind: str, value: str) -> str:
        key = (kind, "".join(char for char in value.casefold() if char.isalnum()))
        if key not in self._known:
            number = 1 + sum(known == kind for known, _ in self._known)
            self._known[key] = PLACEHOLDERS[kind].format(n=number, nn=f"{number % 100:02d}", n4=f"{number % 10000:04d}")
        return self._known[key]


PLACEHOLDERS = {
    "email": "person{n}@example.com",
    "phone": "202-555-01{nn}",
    "payment_card": "0000 0000 0000 {n4}",
    "iban": "XX00 0000 0000 {n4}",
    "ip_address": "192.0.2.{n}",
    "national_id": "000-00-{n4}",
    "street_address": "{n} Example Street",
}
"""By kind; each is a value that nobody has, and that `find_personal` doesn't take for one."""


def mask_episode(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one episode of `steps` → rows without personal data. A changed row names the rules in its provenance
    (`masked`); its native action is masked alike. Rows without any are returned as they are."""
    masker = Masker()
    return [_mask_step(row, masker) for row in rows]


def _mask_step(row: Mapping[str, Any], masker: Masker) -> dict[str, Any]:
    masker.masked = set()
    changed = {name: masker.text(row[name]) for name in STEP_TEXTS if row[name]}
    if typed := _content(row["action_text"]):
        action: Any = parse(row["action_text"])
        changed["action_text"] = format(replace(action, content=masker.text(typed)))
    changed["native_action"] = _mask_json(row["native_action"], masker)
    return _noted(row, changed, masker)


def mask_sample(row: Mapping[str, Any], masker: Masker | None = None) -> dict[str, Any]:
    """A row of `samples` without personal data; pass the Masker of its episode if it has one."""
    masker = masker or Masker()
    masker.masked = set()
    changed = {"messages": _mask_json(row["messages"], masker), "answer": masker.text(row["answer"])}
    return _noted(row, changed, masker)


def _mask_json(text: str, masker: Masker) -> str:
    masked = masker.plain(json.loads(text))
    return text if masked == json.loads(text) else canonical_json(masked)


def _noted(row: Mapping[str, Any], changed: Mapping[str, Any], masker: Masker) -> dict[str, Any]:
    if not masker.masked:
        return dict(row)
    provenance = {**json.loads(row["provenance"] or "{}"), "masked": sorted(masker.masked)}
    return {**row, **changed, "provenance": canonical_json(provenance)}
