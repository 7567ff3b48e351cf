"""Personal data in text by form and checksum: how to reach, charge or register somebody. No model.

| kind | seen by | passed over |
|---|---|---|
| `email` | an address with a dot in its domain | file names such as icon@2x.png |
| `phone` | E.164, North American and grouped national forms, Chinese mobiles, announced numbers | dates, prices |
| `payment_card` | issuer, length, Luhn checksum | what fails the checksum |
| `iban` | country, its length, mod 97 | the same |
| `ip_address` | IPv4, IPv6 | versions; private and reserved ranges are invented |
| `national_id` | Chinese resident id, US SSN, Spanish DNI and NIE, French NIR, Polish PESEL | wrong checksum or range |
| `street_address` | a number, a name and a street word; German and Chinese forms | ordinals, "2 way street" |

Values of tests and documentation (example.com, 555-01xx, 4111 1111 1111 1111, 192.0.2.0/24, john.doe@…) are marked
`synthetic`: they are counted apart and nothing is held for them. Names of people aren't looked for: without a model a
name can't be told from a brand or a place. A number in a form that isn't listed isn't seen.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from quality.safety.personal_rules import RULES
from schemas.actions import parse
from schemas.ids import texts_within
from schemas.rows import SampleRow

Policy = Literal["report", "quarantine"]
POLICIES: tuple[Policy, ...] = ("report", "quarantine")
"""What becomes of an item with personal data. Its texts aren't replaced: they would no longer be true of the pictures,
which go on showing what they showed."""
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
    # Most texts have neither a digit nor an @.
    if not text or not _WORTH_A_LOOK.search(text):
        return []
    taken: list[Span] = []
    for span in _matches(text):
        # In the order of the rules: where two overlap the earlier, more certain one stays.
        if all(span.end <= other.start or span.start >= other.end for other in taken):
            taken.append(span)
    return sorted(taken, key=lambda span: span.start)


def _matches(text: str) -> Iterator[Span]:
    for rule in RULES:
        for match in rule.form.finditer(text):
            group = "value" if "value" in rule.form.groupindex else 0
            if rule.holds(match):
                # Checksums and ranges: a form alone would take every long number for one.
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


def sample_texts(row: SampleRow) -> list[tuple[str, str]]:
    """(field, text) of a `samples` row: its prompt and its answer."""
    found = [("messages", text) for text in texts_within(json.loads(row["messages"]))]
    return [*found, ("answer", row["answer"])] if row["answer"] else found


def _content(action_text: str | None) -> str:
    action = parse(action_text) if action_text else None
    # What was typed or chosen is the person's own text.
    return str(getattr(action, "content", "") or getattr(action, "option", "") or "")
