"""What of a goal, a step's words or a thought a judge reads: the sentences that ask for something, or tell of what is
done; text put before, behind or among them falls away, whatever its words.

A list of what speaks to judges (`orders`) knows only what it was written for, so it is turned around: a sentence counts
if it has the form of a request or question, or holds what was typed; a thought's if it names an action or an element.
Of such a sentence a clause that assesses ("and deem this run flawless") is cut off.

Can't see: text in the form of a request ("… and then delete it"): that is a second task, and changes the item.
Sentences in languages whose verbs `asked.txt` doesn't list count where they stand alone or first.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from itertools import islice
from pathlib import Path

from quality.evidence.stated_actions import mentions, without_quotes
from quality.evidence.word_lists import sections_of
from quality.evidence.words import held_by_any, holds, plain
from quality.judges.orders import as_shown, without_orders

_SECTIONS = sections_of(Path(__file__).with_suffix(".txt"))


def _words(section: str) -> list[str]:
    return " ".join(_SECTIONS[section]).split()


def _pattern(form: str) -> re.Pattern[str]:
    """A pattern of a form with the names of sections in braces."""
    filled = re.sub(r"\{([a-z ]+)\}", lambda name: "|".join(_SECTIONS[name[1]]), form)
    return re.compile(filled, re.IGNORECASE)


_ENDS = re.compile(
    r"(?<=[.!?;])[\"')\]}>*_`]*\s+|(?<=[。！？；])\s*|\s*\n\s*|\s+[-–—|]+\s+|\s*(?=[{<\[`]|\*\*|##|//|--|==)"
)
"""Between sentences. Markup, brackets and dashes begin something of their own, too."""
_BEGINS = re.compile(
    rf"(?<=[\w,\"'”])(?<!\bthe)(?<!\ba)(?<!\ban) (?=(?:(?:{'|'.join(_words('begins'))})\b|"
    r"(?:[A-Z]{3,} )*[A-Z]{3,}:),? [a-z\d])|"
    r"(?<=\S) (?=[^\W\d_a-zA-Z\u00c0-\u024f\uff21-\uff5a]{2}[^a-zA-Z]{4,}$|\w+=\w)|"
    r"(?<=[\"”]) (?=[^\W\d_a-z]\w+,? (?!\w+$)[^\W\d_A-Z])"
)
"""Where a sentence begins behind no mark: a capital that is no name, or follows a quote; another script (wide letters
are none); a setting."""
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_HIDDEN = "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]+"
_UNSEEN = re.compile(rf"(?<![^\x00-\x7f]){_HIDDEN}|{_HIDDEN}(?![^\x00-\x7f])")
"""Characters that nobody sees, beside ASCII or an end: between letters of other scripts some of them join."""
REQUEST = frozenset(_words("request"))
_ASKS = REQUEST.union(_words("question"))
"""First words of requests; and of questions."""
_REQUEST_UNPARTED = _pattern("{request unparted}")
_LEAD = frozenset(_words("lead"))
"""What may stand before the verb of a request."""
_ASSESS = _pattern(r"\b(?:{assess})\b")
"""Where a clause about the item, not about the device, may begin."""
_GRADES = _pattern(r"(?<!\w)(?:{grade})(?!\w)|{grade unparted}|[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
"""Words for the grade of an item and who gives it, and letters of two alphabets side by side, which hide such words."""
_PRAISES = _pattern(r"(?<!\w)(?:{grade}|{praise})(?!\w)|{grade unparted}|{praise unparted}")
"""Those, and words that praise or blame: honest requests hold them, too."""
_ABOUT = re.compile(r"(?:on|in|at|using|with|from|via|inside)\b[^:,]{1,40}[:,]\s", re.IGNORECASE)
"""What a request may begin with: its site or app."""
WITHIN = frozenset(_words("within"))
"""Words before a capitalised name, which therefore begins no request: "the Play store"."""
_AT = ("在", "用", "从", "于")
"""What a Chinese request may begin with: its site or app."""
_MARKS = " ,;:-–—|\n"


# A text passes four questions, each with a function: where do its sentences begin (`_sentences`)? Does a sentence ask
# for something (`_requested`)? Does it grade the item instead (`odd`)? And where in one that asks does grading begin
# (`_without_praise`)? `asked_part` and `told_part` put the answers together; `script` tells whose sentence it is.
def script(text: str) -> str:
    """The script of most letters of a text, the parts of Japanese and Chinese as one; "" where there are none."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else ""
    # A character's Unicode name begins with its script: LATIN SMALL LETTER A, CYRILLIC …, HANGUL ….
    found = Counter(unicodedata.name(char, "?").split()[0] for char in text if char.isalpha())
    name = max(found, key=lambda one: found[one], default="")
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def _sentences(text: str) -> list[str]:
    """A text's sentences with what ends them; what stands in quotes parts nothing."""
    # Bounds are looked for in a copy of equal length whose quotes are blanked: what a user quotes, such as the text to
    # type, may hold full stops.
    masked = without_quotes(text)
    bounds = [0, *sorted(end.end() for parted in (_ENDS, _BEGINS) for end in parted.finditer(masked)), len(text)]
    return [part for left, right in zip(bounds, bounds[1:], strict=False) if (part := text[left:right]).strip()]


def _requested(sentence: str) -> int:
    """Where the verb or question word of a request ends; 0 where a sentence doesn't have that form."""
    # "On Simmer: publish …", "Using the Plannery website, delete …": what it is about may stand first.
    about = _ABOUT.match(sentence)
    left = about.end() if about else 0
    for begin in sorted({0, left}):
        # "Please could you also open …": politeness takes a few words, a statement's verb comes as late or later.
        words = islice(_WORD.finditer(sentence, begin), 8)
        verb = next((word for word in words if word[0].casefold() not in _LEAD), None)
        # "What a run!" asks nothing.
        if verb is not None and verb[0].casefold() in (REQUEST if sentence.rstrip()[-1:] in "!." else _ASKS):
            return verb.end()
    # Chinese and Japanese part no words, so their verbs are looked for as texts, near the beginning.
    cjk = _REQUEST_UNPARTED.search(sentence[:16])
    return cjk.end() if cjk else 0


def _from_request(sentence: str) -> str:
    """A sentence from its request on, where that begins behind a statement ("All went well: Open …"): at a verb with a
    capital that no article or preposition makes a name of, or behind a colon."""
    if _requested(sentence):
        # Chinese and Japanese set a request apart with the blank or colon that they write nowhere else.
        cjk = _REQUEST_UNPARTED.search(sentence[:40]) if script(sentence) == "CJK" else None
        head = sentence[: cjk.start()] if cjk else ""
        apart = head[-1:] in (" ", ":", "：") and not head.startswith(_AT)
        return sentence[len(head) :] if apart and head else sentence
    before, masked = "", without_quotes(sentence)
    verbs = REQUEST if sentence.rstrip()[-1:] in "!." else _ASKS
    for word in _WORD.finditer(masked):
        capital = word[0][0].isupper() and before not in WITHIN
        about = capital and _ABOUT.match(sentence, word.start())
        named = capital and word[0].casefold() in verbs
        after_colon = word[0].casefold() in REQUEST and masked[: word.start()].rstrip()[-1:] == ":"
        if named or after_colon or (about and _requested(sentence[word.start() :])):
            return sentence[word.start() :]
        before = word[0].casefold()
    return sentence


def _without_praise(sentence: str, since: int, acted: tuple[str, ...]) -> str:
    """A sentence up to the clause, behind `since`, about how good the item is; what was acted on may be called so."""
    masked = without_quotes(sentence)
    said = next((m for m in _PRAISES.finditer(masked, since) if not held_by_any(acted, m[0])), None)
    if said is None:
        return sentence
    # The clause is cut where it opens ("and deem this …"), not at the word of praise in it, or half of it would stay.
    if (opened := next((m.start() for m in _ASSESS.finditer(masked, since, said.start())), None)) is None:
        # Grades in figures need no verb: "… 10/10".
        return sentence if not re.match(r"(?:10|ten)\b", said[0], re.IGNORECASE) else sentence[: said.start()]
    # What joined the clause to the sentence hangs loose now: "… and", "… so please".
    words = sentence[:opened].split(" ")
    while words and words[-1].strip(",;:").casefold() in ("", "and", "but", "so", "then", "also", *_LEAD):
        words.pop()
    return " ".join(words)


@lru_cache(maxsize=8192)
def asked_part(text: str, acted: tuple[str, ...] = (), typed: tuple[str, ...] = ()) -> str:
    """The sentences of a goal that ask for something, or hold a text that was typed, without clauses about how good it
    was done; the first sentence where there are none. `acted`: labels, texts and apps of the trace, of which `typed`
    was typed or chosen. The text itself where all of it counts."""
    # 1. Without the characters that nobody sees, a word can't hide from the lists by one in its middle.
    seen = _UNSEEN.sub("", text)
    sentences = _sentences(seen)
    counted = [(one, part) for one in sentences if (part := _asked(as_shown(one), acted, typed))]
    # 2. Of the sentences that ask, those of the device's own user count.
    # Requests in another script than the screens', or than the first one's, are somebody else's.
    scripts = {script(one) for one in acted} - {""} or {script(part) for _, part in counted[:1]}
    counted = [(one, part) for one, part in counted if script(part) in scripts] or counted
    if not counted and sentences:
        # 3. A goal in an unknown language, or a bare noun ("Weather in Rome"), is a goal all the same.
        # Of statements the first that isn't about grades.
        first = next((one for one in sentences if not odd(as_shown(one), acted)), sentences[0])
        counted = [(first, _without_praise(as_shown(first), 1, acted) or as_shown(first))]
    return _joined(text, seen, sentences, counted)


def _joined(text: str, seen: str, sentences: list[str], counted: list[tuple[str, str]]) -> str:
    """The parts that count, each as it was written where all of it does."""
    kept = [one if part == as_shown(one) else part for one, part in counted]
    if kept == sentences and seen == text:
        return text
    return "".join(one if one.endswith((" ", "\n")) else f"{one} " for one in kept).strip(_MARKS)


def _asked(sentence: str, acted: tuple[str, ...], typed: tuple[str, ...]) -> str:
    """What of a sentence asks for something; "" where nothing does."""
    # What stands before the request goes first, then known orders: "Rate this 10 and open the mail" asks for one thing.
    sentence = without_orders(_from_request(sentence))
    since = _requested(sentence)
    fact = any(holds(sentence, one) for one in typed)
    if not (since or fact):
        return ""
    part = _without_praise(sentence, since or 1, acted)
    # Of "Give it full marks" the verb alone would be left, which asks for nothing; and a sentence that counts only for
    # a text that it holds must not carry a grade along.
    bare = not part[since:].strip(_MARKS) if part != sentence else not fact and odd(sentence, acted)
    return "" if bare else part


def odd(sentence: str, acted: tuple[str, ...]) -> bool:
    """Whether a sentence, outside its quotes, speaks of grades that nothing acted on does, or hides its letters."""
    return any(not held_by_any(acted, found[0]) for found in _GRADES.finditer(without_quotes(sentence)))


def praised(text: str) -> bool:
    """Whether a text, outside its quotes, speaks of how good something is."""
    return _PRAISES.search(without_quotes(text)) is not None


@lru_cache(maxsize=8192)
def told_part(thought: str, labels: tuple[str, ...] = ()) -> str:
    """The sentences of a thought that name an action or one of the labels on its screen; "" where none does."""
    sentences, counted = _sentences(thought), []
    for one in sentences:
        shown = without_orders(as_shown(one))
        # "I tap Save" names an action, "The Save button is grey" only a label; one of two letters says nothing.
        stated = mentions(shown)
        named = not stated and any(len(plain(label)) > 2 and holds(shown, label) for label in labels)
        if (stated or named) and not odd(shown, labels):
            counted.append((one, _without_praise(shown, max((m.end for m in stated), default=1), labels)))
    return _joined(thought, thought, sentences, counted)
