"""What files hold that programs save: Gnumeric's and AbiWord's XML, and XPM pictures. For checks, which never read the
screen's pixels.

Gnumeric writes plain XML where its setting `core/xml/compression-level` is 0 (else it is packed, and no text).
"""

import re
from xml.etree import ElementTree

_GNUMERIC = "{http://www.gnumeric.org/v10.dtd}"
_ABIWORD = "{http://www.abisource.com/awml.dtd}"
_SHOWN = ("font-weight:bold", "font-style:italic", "text-align:center", "text-align:right", "text-decoration:underline")
"""Formats that a check may ask for; a document names many more."""


def _root(text: str) -> ElementTree.Element | None:
    """The root of an XML text; None where it is none, or defines entities of its own (which can grow without end)."""
    # Entities that refer to one another grow exponentially; no program of ours writes any.
    if "<!ENTITY" in text:
        return None
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None


def column_name(number: int) -> str:
    """0 → A, 25 → Z, 26 → AA."""
    name = ""
    number += 1
    while number:
        # Letters count from 1: there is no zero in A, B, … Z, AA.
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def cells_of(text: str) -> dict[str, str] | None:
    """Name → what was entered, of all cells with something in them on the first sheet; None for another kind of text.
    A formula is as it was entered, in capital letters ("=A1+A2"): Gnumeric keeps the letters as they were typed."""
    root = _root(text)
    sheet = None if root is None else root.find(f"{_GNUMERIC}Sheets/{_GNUMERIC}Sheet/{_GNUMERIC}Cells")
    if sheet is None:
        return None
    return {
        f"{column_name(int(cell.get('Col', '0')))}{int(cell.get('Row', '0')) + 1}": _entered(cell.text or "")
        for cell in sheet.iter(f"{_GNUMERIC}Cell")
    }


def _entered(text: str) -> str:
    # Gnumeric keeps the case of what was typed; the formula is the same.
    return text.upper() if text.startswith("=") else text


def _formats(props: str | None) -> set[str]:
    return {prop.strip().replace(": ", ":") for prop in (props or "").split(";")} & set(_SHOWN)


def paragraphs_of(text: str) -> list[str] | None:
    """The paragraphs of an AbiWord document; None for another kind of text. Each is its text, with its style, if it
    isn't the usual one, and with the formats that it has as a whole: "[Heading 1] [text-align:center] Minutes"."""
    root = _root(text)
    if root is None or root.tag != f"{_ABIWORD}abiword":
        return None
    return [_paragraph(paragraph) for paragraph in root.iter(f"{_ABIWORD}p")]


def _paragraph(paragraph: ElementTree.Element) -> str:
    style = paragraph.get("style", "Normal")
    said = "".join(paragraph.itertext())
    formats = _formats(paragraph.get("props"))
    runs = [run for run in paragraph if "".join(run.itertext())]
    # Formats of runs count only where all of the text lies in runs.
    if runs and len("".join("".join(run.itertext()) for run in runs)) == len(said):
        formats |= set.intersection(*(_formats(run.get("props")) for run in runs))
    tags = [f"[{style}]"] if style != "Normal" else []
    return " ".join([*tags, *(f"[{name}]" for name in sorted(formats)), said])


def colours_of(text: str) -> list[list[str]] | None:
    # An XPM is C source: its strings are header, colours and rows.
    """The rows of an XPM picture, a colour ("#FF0000") for each of its pixels; None for another kind of text. Programs
    choose the letters for its colours anew."""
    strings = re.findall(r'"([^"]*)"', text)
    head = strings[0].split() if strings and text.startswith("/* XPM */") else []
    if len(head) < 4 or not all(part.isdecimal() for part in head[:4]):
        return None
    _, height, count, letters = map(int, head[:4])
    # The colour is the last word of a colour's line, whatever comes before.
    named = {line[:letters]: line[letters:].split()[-1].upper() for line in strings[1 : 1 + count] if line[letters:]}
    rows = strings[1 + count : 1 + count + height]
    cut = [[row[at : at + letters] for at in range(0, len(row), letters)] for row in rows]
    return [[named.get(letter, "") for letter in row] for row in cut] if letters else None
