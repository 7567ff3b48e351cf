"""Text that speaks to a judge is left out before the rules or the nano judge read an item, so it can't move a score.

Both compare texts with each other, and the nano judge reads them as overlaps and embeddings; every added word would
move those a little. What follows the first order to a judge or model isn't part of a task and is left out, in
instructions, thoughts, typed text and on screens; where the order comes first, what follows it stands. An order in
words that aren't known here still has no way to name a score: it only makes a text fit its trace less.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ORDER = re.compile(
    r"""
    (\b(please|kindly|bitte|por\ favor)[ ,]+|\bimportant\s*:\s*|请|\{\s*"?|\#+\s*|\[)? (
    \b(ignore|disregard|forget|override|bypass)\b [^.!?\n]{0,60}
        \b(rubric|instruct\w*|rules?|prompt|previous|prior|above|guideline\w*|criteri\w*|polic\w*)\b
    | \b(system|assistant|developer|admin)\s*(prompt|message)\s*[:>]
    | (?-i:\b(SYSTEM|ASSISTANT|DEVELOPER|ADMIN)\s*:)
    | </?\s*(system|data|instructions?|im_start|im_end)\b | <\|\w+\|>
    | \b(you\s+are\s+(now\s+)?|act\s+as\s+)(in\s+)?(an?\s+|the\s+)?(judge|grader|evaluator|auditor?|rater|audit)\b
    | \b(give|assign|award|output|return|answer|reply|rate|grade|score|mark)\b [^.!?\n]{0,40}
        \b((scores?|alignment|reachability)\s*(of|as|to|is|=|:)?\s*\d+
        |(perfect|full|high(est)?|max(imum|imal)?|top)\s+(score|marks?|rating|alignment|reachability)
        |10\s*/\s*10|ten\s+out\s+of\s+ten|an?\s+10(?=\s*($|[.!?,;\n])))
    | \b(note|message|instructions?|attention|hint)\s+(to|for)\s+(the\s+|any\s+|all\s+)?
        (judges?|graders?|evaluators?|raters?|auditors?|reviewers?|assistants?|language\s+models?|llms?|ai)\s*[:,!-]
    | \b(dear|hey|hello|hi|attention)[ ,:]+(judge|grader|evaluator|rater|auditor|llm|ai)\b
    | \b(alignment|reachability|score|grade|verdict|rating)s?"?\s*(=|:|\bis\b|\bmust\ be\b|\bshould\ be\b)\s*"?
        (10\b(?!\s*[:/.,]?\d)|ten\b|keep\b|pass\b|perfect\b|maximum\b)
    | \bthis\s+(sample|step|episode|trace|trajectory|record|example)\s+
        (is|was|deserves?|must|should|has|passes|passed|meets?)\b
    | \b(the|this|whole|entire)\s+(episode|trace|trajectory)\s+(is|was|has\s+been)\s+
        (correct|perfect|valid|verified|flawless|successful|gold)\b
    | \b(human|expert|manually)[- ](verified|checked|confirmed|approved)\b
    | \b(ignoriere?|ignorez|ignora|ignore)\b [^.!?\n]{0,40} \b(anweisung\w*|instruc\w*|consignes?|instruccion\w*)
    | \b(rate|mark|score|grade|judge|label|award|approve)\s+(this|the)\s+
        (step|sample|action|episode|trace|trajectory|item|record)\b
    | \bmark\s+(this|it)\s+(as\s+)?(correct|right|perfect|gold)\b
    | \bthis\s+action\s+(is|was)\s+(correct|right|perfect|valid)\b
    | \bthe\s+(correct|right|only)\s+(verdict|score|rating|alignment)\b
    | \b(you\s+must|always|only|just)\s+(answer|reply|respond|return|output)\b [^.!?\n]{0,30} \b10\b
    | \b(answer|reply|respond|return|output)\s+only\b [^.!?\n]{0,30} \b10\b
    | \bas\s+(an?|the)\s+(judge|grader|evaluator|rater|auditor)\b
    | \b(judge|grader|evaluator|rater|reviewer)\s*: | \bdear\s+reviewer\b | \boverride\s*:
    | \b(rating|scoring|grading)\s+(instructions?|guidelines?|rules?)\b
    | \byou\s+are\s+an?\s+\w+\s+(judge|grader|evaluator|rater)\b
    | \b(set|assign|give)\s+(the\s+)?(alignment|score|rating|a\s+perfect)\s+(to\s+)?10\b
    | \b(mets?\s+)?10\s+(von|sur|de|su|out\ of)\s+10\b | \b(ignoriere?\s+die\s+)?bewertungsregeln\b
    | \botorga\w*\s+(un|una)\s+(10|nota)\b
    | (从现在起)?(你是|作为)(评委|裁判|评审|评分员)
    | /?(inst|sys)\] | \b(instructions?|system)\s*:\s*(output|score|give|return|ignore)\b | \bsystem\s+override\b
    | <!--\s*(judge|grader|evaluator|score)\b | \bs\s+c\s+o\s+r\s+e\b | \bscore\s+10\s*($|[,.!;])
    | \b(bewerte|benote)\b [^.!?\n]{0,30} \b(schritt|spur|10|zehn|höchst\w*|volle\w*)\b
    | \b(gib|vergib|erteile)\b [^.!?\n]{0,20} \b(10\s+von\s+10|volle\s+punktzahl|höchstnote|bestnote|10\s+punkte)\b
    | \bdonne[zr]?\b [^.!?\n]{0,20} \b(note|score)\s+maximale?\b
    | \b(dale|da|asigna|pon)\b [^.!?\n]{0,20} \b(puntuaci[oó]n|nota|calificaci[oó]n)\s+m[aá]xima\b
    | \b(dai|assegna)\b [^.!?\n]{0,20} \b(punteggio|voto)\s+massimo\b
    | \b(d[êe]|atribua)\b [^.!?\n]{0,20} \b(nota|pontua[çc][ãa]o)\s+m[áa]xima\b
    | \b(поставь|дай|оцени|присвой)\w* [^.!?\n]{0,30} (оценк|балл)
    | \b(игнорируй|забудь)\w* [^.!?\n]{0,30} (правил|инструкц|указани)
    | (忽略|无视|忘记|無視).{0,20}(评分|规则|指令|标准|提示|以上)
    | (这一步.{0,8}[，,]\s*)?请?(给|打|评|给予)(出|为|予)?.{0,6}(满分|10分|十分|最高分|最高评分) | 系统\s*[:：]
    | (この(手順|ステップ|操作)(に|は[^。]{0,12}))?満点 | (以前|上記|これまで)の指示を無視 | (이\s*단계에\s*)?만점
    | (이전|위의)\s*(지시|규칙)\w*\s*무시 | أعط\s.{0,20}الدرجة | इस\s+चरण\s+को
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


_HINTS = (
    "<",
    *re.findall(
        r"\w+",
        "ignor disregard forget override bypass system assistant developer admin judge grader evaluator audit rater "
        "reviewer llm score alignment reachability mark rating 10 grade verdict note message instruction attention "
        "hint dear hey hello sample step episode trace trajectory record example verified checked confirmed approved "
        "ten 忽略 无视 忘记 無視 给 打 満点 action inst override always must answer reply bewerte benote gib vergib "
        "erteile donne dale asigna pon dai assegna atribua máxima maxima постав дай оцен присво игнорир забудь 系统 "
        "评 你是 作为 otorga bewertungsregeln rating scoring grading assign set 만점 지시 규칙 指示 أعط इस",
    ),
    "s c",
)
"""One of these stands in every order: most texts and screens hold none, and looking costs a fiftieth of the search."""
_END = re.compile(r"[.!?\n。！？]+\s*")


@lru_cache(maxsize=8192)
def speaks(text: str) -> bool:
    """Whether a text of a row holds an order; the rows of an episode share its instruction."""
    if may_order(text) and _ORDER.search(text) is not None:
        return True
    shown = as_shown(text)
    return shown != text and may_order(shown) and _ORDER.search(shown) is not None


def as_shown(text: str) -> str:
    """A text in compatibility forms and without characters that nobody sees."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def may_order(text: str) -> bool:
    return any(map(text.casefold().__contains__, _HINTS))


@lru_cache(maxsize=8192)
def without_orders(text: str) -> str:
    """The text up to the sentence of the first order to a judge or model, and of one that holds a task too, up to the
    order. Where nothing stands before it: the text behind the sentence of the last order."""
    orders = list(_ORDER.finditer(text)) if may_order(text) else []
    if not orders:
        # letters of other widths and marks that nobody sees hide an order from patterns, not from a model
        shown = as_shown(text)
        return without_orders(shown) if shown != text and speaks(shown) else text
    before = text[: orders[0].start()]
    sentences = [end.end() for end in _END.finditer(before)]
    # The whole sentence with the order, where something stands before it; else what stands before the order
    # itself.
    whole = before[: sentences[-1]] if sentences else ""
    for kept in (_trimmed(whole), _trimmed(before)):
        if any(char.isalnum() for char in kept):
            return kept
    ended = _END.search(text, orders[-1].end())
    return text[ended.end() :].strip() if ended else ""


def _trimmed(text: str) -> str:
    """Text without the marks that led to what was cut off; of quotes only one that it opens and doesn't close."""
    end, unclosed = len(text), {mark for mark in "\"'" if text.count(mark) % 2}
    # A quote that was opened just before the cut goes with what it would have held.
    while end and (text[end - 1] in " ,;:-–—\n" or text[end - 1] in unclosed):
        unclosed.discard(text[end - 1])
        end -= 1
    return text[:end]
