"""The words and forms by which a consequential action is recognised, in eight languages, as patterns.

They stand in `consequence_words.json`: lists of words by language, and under `forms` expressions for what isn't words.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from quality.evidence.consequence_kinds import KINDS, Kind

LANGUAGES = ("en", "de", "es", "zh", "fr", "ja", "ko", "pt")
_WORDS = json.loads(Path(__file__).with_name("consequence_words.json").read_text(encoding="utf-8"))
_FORMS: dict[str, dict[str, str]] = _WORDS["forms"]
_AFTER_VERB = _FORMS["after_verb"]
"""Japanese and Korean put the verb last: what follows it on a control is its ending, or what is done as well. Behind a
word that belongs to another ("送信先", "삭제된 파일") stands something else."""


def _form(name: str, around: str = "{}") -> re.Pattern[str]:
    return re.compile(around.format("|".join(f"(?:{form})" for form in _FORMS[name].values())), re.I)


def _pattern(words: Sequence[str], language: str, orders: bool = False) -> str:
    # Chinese and Japanese are written without blanks, Korean with endings, so a word has no borders; nor has a picture.
    if language in ("zh", "icon", "ja", "ko"):
        either = "|".join(re.escape(word).replace("…", ".{0,8}?") for word in words)
        return f"(?:{either}){_AFTER_VERB.get(language, '')}" if orders else either
    return rf"\b(?:{'|'.join(map(_term, words))})(?!\w)"


def _term(word: str) -> str:
    # "cancel … order" is also "Cancel my whole order"; a star stands for any ending: German and Spanish inflect.
    parts = r"(?:\W+\w+){0,3}?\W+".join(map(re.escape, word.strip("*").split(" … ")))
    return r"\w*" * word.startswith("*") + parts + r"\w*" * word.endswith("*")


def _compiled(table: dict[str, list[str]], around: str = "{}", orders: bool = False) -> re.Pattern[str]:
    either = "|".join(_pattern(words, language, orders) for language, words in table.items())
    return re.compile(around.format(f"(?:{either})"), re.I)


def _listed(name: str) -> frozenset[str]:
    return frozenset(word for words in _WORDS[name].values() for word in words)


# Chinese writes "deleted" and "shared" with the same characters, after 已 or 被, or before 的 or 了.
LABEL = {kind: _compiled(_WORDS["label"][kind], "(?<![已被未]){}(?![的了])", orders=True) for kind in KINDS}
NAMED = {kind: _compiled(_WORDS["named"][kind]) for kind in KINDS}
HARMLESS = _compiled(_WORDS["harmless"])
EXPENDABLE = _compiled(_WORDS["expendable"])
HARMLESS_FIRST = _compiled(_WORDS["harmless_first"])
SWITCHES = _compiled(_WORDS["switches"])
REPORTS = _compiled(_WORDS["reports"])
NOUNS = _compiled(_WORDS["nouns"])
LEADS = _compiled(_WORDS["leads"], r"(?:.*(?:[&+/,:：]|\w+ly|{}))?\W*")
HEADS = _compiled(_WORDS["heads"], r"\W*(?:{}|(?:.*\W)?\w+(?<!select)(?<!mark)(?<!check)(?:ed|den)\W*$)")
CHOICES = _compiled(_WORDS["choices"])
"""Headings of lists that are filtered or sorted by what one chooses there."""
TRASH = _compiled(_WORDS["trash"])
CONFIRM, REFUSE = _listed("confirm"), _listed("refuse")
EXACT: dict[str, Kind] = {
    word: kind for kind in KINDS for words in _WORDS["exact"].get(kind, {}).values() for word in words
}
AMOUNT = re.compile(r"(?:[$€£¥￥₩]|R\$)\s?\d|\d\s?(?:€|£|eur\b|usd\b|円|元|원)", re.I)
VERB_ENDING = _form("verb_ending")
"""What makes a verb of a Japanese or Korean noun."""
PURPOSE = _form("purpose", r"(?:{})\s*$")
"""What stands before an infinitive that says what something is for: "Document à signer"."""
GOES_ON = _form("goes_on")
"""How a label begins that goes on to what it names: "Glisser pour envoyer"."""
ASKS = _form("asks")
AGREES = _form("agrees", r"^(?:{})(?![^\W\d_])[\s,，、!.]+")
"""What a button agrees by before it says what to: "Yes, go ahead"."""
EMPTIES = _form("empties", r"^(?:{})\b")
SAVES = _form("saves", r"^(?:{})\b")
PICKS = _form("picks")
"""Headings of lists where choosing somebody sends."""
