"""Reading an answer for one thing: whether it says that the goal can't be reached on this phone."""

import re

_NOT = r"(?:not|\w+n['’]t)"
_MEANT = (
    r"(?! (?:an? |any |the )?"
    r"(?:other|further|more|problem|issue|error|trouble|difficult|doubt|need|change|question))"
)
"""What a "no" may be followed by without a word about the goal: "no problem", "no other note was touched"."""
_WITHIN = r"(?:(?!\b(?:and|but|except|i|when|so)\b)[^.,;:!?]){0,60}?"
"""The rest of the same statement: in "I left no note open and found it" nothing is said not to be found."""
_REFUSALS = (
    r"\b(?:(?:can|could) ?not|can['’]t|couldn['’]t|isn['’]t|unable|failed to|infeasible|impossible|unavailable)\b",
    r"\b(?:no such|sold out|out of stock|no longer (?:possible|available|offered|sold|in stock))\b",
    rf"\b{_NOT} (?:been )?(?:possible|feasible|found|available|offered|sold|stocked|listed|supported)\b",
    rf"\b{_NOT} (?:able|exist|in stock)\b",
    rf"\b(?:do|does|did)(?: not|n['’]t) (?:find|see|have(?! to\b)|offer|sell|contain|come in|seem to exist)\b{_MEANT}",
    r"\b(?:is|are|was|were) not (?:in|on|among) (?:the|my|your|this)\b(?![^.;!?]{0,200}\bany ?more)",
    rf"\bthere(?:['’]s| is| are| was| were| exists?) (?:no|not)\b{_MEANT}",
    r"\bthere(?:['’]s| is| are| was| were) no more (?!to\b|problem|issue|error|need|change|question|step)\w",
    rf"\bthere (?:aren|wasn|weren)['’]t\b{_MEANT}",
    rf"\b(?:find|found|see) (?:no|none|nothing)\b{_MEANT}",
    rf"\bno{_MEANT} (?:\w+ ){{0,2}}(?:stock|option|variant|version|match|matches|results?)\b",
    rf"\bno\b{_MEANT}{_WITHIN}\b(?:exists?|existed|found|available|offered|matches|named|called|titled)\b",
    rf"\bno\b{_MEANT}{_WITHIN}\bwith (?:that|this|the) (?:name|title|colou?r)\b",
    r"\bno(?:body|thing) (?:is |was )?(?:named|called|titled|found|matches)\b",
    r"\b(?:only (?:comes?|exists?|available|offered|sold)|(?:comes?|available|offered|sold) only) in\b",
)
_SAID = re.compile("|".join(_REFUSALS), re.IGNORECASE)


def says_it_cant_be_done(answer: str) -> bool:
    """Whether an answer says so, in any of the usual ways; a report of success doesn't."""
    # On one line: phrases may be broken over lines.
    return _SAID.search(" ".join(answer.split())) is not None
