"""The text actions of WebArena, as episodes on its sites are written: ```type [89] [tea] [1]```.

Elements are named by the ids of an accessibility tree without boxes, so what points at one has no place here.
"""

import re
from collections.abc import Callable

from pipelines.mapping.adapter import RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Loss
from pipelines.mapping.items import ItemError, bad_values
from schemas.actions import Action, Finished, Launch, PressBack, PressEnter, Scroll, Type, pressed

_FENCE = "```"
_LANGUAGE = re.compile(r"^(?:action|bash|json|plaintext|python|text|txt)[ \t]*\n")
"""What a model may say of the text between backticks, on their line."""
_CALL = re.compile(r"\s*([A-Za-z_]+)\s*(.*)", re.DOTALL)
_TYPE = re.compile(r"\[([^\[\]]*)\]\s*\[(.*?)\](?:\s*\[(?:press_enter_after\s*=\s*)?([01])\])?\s*", re.DOTALL)
_LEAD = re.compile(r"\s*In summary, (?:the next action I will perform is|my next action will be)\s*$")
_NO_PLACE = ("click", "hover")
_NO_TWIN = ("new_tab", "tab_focus", "close_tab", "go_forward")
_OTHER = "other actions"

LOSSES = (
    Loss("click", "-", "dropped", "no_coordinates"),
    Loss("hover", "-", "dropped", "no_coordinates"),
    Loss("type", "Type, PressEnter", "lossy", "the click into the field has no place"),
    Loss("press", "PressEnter, Hotkey", "kept", "more than three keys: no_counterpart"),
    Loss("scroll", "Scroll(direction)", "kept"),
    Loss("goto", "Launch(url)", "kept"),
    Loss("go_back", "PressBack", "kept"),
    Loss("stop", "Finished", "kept"),
    *(Loss(word, "-", "dropped", "no_counterpart") for word in _NO_TWIN),
    Loss(_OTHER, "-", "dropped", "unknown_action:<word>, or no action at all"),
)
"""Rows for the loss table of a source that writes such actions."""
_WORDS = frozenset(loss.native for loss in LOSSES) - {_OTHER}


def read_action(said: str) -> tuple[str, str, list[Action]]:
    """What an agent wrote → (thought, native word, actions). Raises `ItemError` with reason, detail and word."""
    before, fenced = _last_fenced(said)
    call = _CALL.fullmatch(fenced)
    if call is None:
        raise ItemError("missing_field", "no action between three backticks", _OTHER)
    word, rest = call[1], call[2].strip()
    # Ids mean nothing without the page that they were given on.
    if word in _NO_PLACE:
        raise ItemError("no_coordinates", "an element's id, and no box of it", word)
    if word in _NO_TWIN:
        raise ItemError("no_counterpart", word, word)
    thought = _LEAD.sub("", before).replace(_FENCE, "").strip()
    with bad_values(word):
        return thought, word, _made(word, rest)


def _last_fenced(said: str) -> tuple[str, str]:
    """(what stands before, the text between backticks that is the action): the last that calls one of the actions,
    since an agent may think between backticks, too; else the last that isn't empty."""
    pieces = [_LANGUAGE.sub("", piece) for piece in said.split(_FENCE)]
    inner = [place for place in range(1, len(pieces) - 1) if pieces[place].strip()]
    calls = [place for place in inner if (call := _CALL.fullmatch(pieces[place])) and call[1] in _WORDS]
    place = (calls or inner or [0])[-1]
    return _FENCE.join(pieces[:place]), pieces[place].strip() if place else ""


def add_step(
    builder: EpisodeBuilder, place: int, said: str, screen: Callable[[], RecordScreen | None] = lambda: None
) -> None:
    """What an agent wrote → a step row, or a reject. `screen` is read for a row alone. Text goes where the focus is,
    which is said nowhere: such a step is lossy."""
    try:
        thought, word, actions = read_action(said)
    except ItemError as error:
        builder.reject(error.reason, native=said, native_index=place, word=error.word, detail=error.detail)
        return
    typed = word == "type"
    mapped = MappedAction(actions, word, typed, ["focus_unknown"] if typed else [])
    builder.take(mapped, said, place, screen(), thought=thought or None)


def _made(word: str, rest: str) -> list[Action]:
    if word == "type":
        match = _TYPE.fullmatch(rest)
        if match is None:
            raise ItemError("bad_value", f"type: expected [id] [text] [0|1], found {rest[:80]!r}", word)
        if not match[2]:
            raise ItemError("empty_text", "type without text", word)
        # Enter follows unless 0 says otherwise.
        return [Type(match[2]), *([] if match[3] == "0" else [PressEnter()])]
    if word == "go_back":
        return [PressBack()]
    if word not in ("press", "scroll", "goto", "stop"):
        raise ItemError(f"unknown_action:{word[:60]}", rest[:80], _OTHER)
    # Arguments stand in square brackets, mostly.
    inner = rest[1:-1].strip() if rest.startswith("[") and rest.endswith("]") else rest
    if word == "stop":
        return [Finished(inner)]
    if not inner:
        raise ItemError("empty_text", f"{word} without an argument", word)
    if word == "goto":
        return [Launch(url=inner)]
    if word == "scroll":
        direction = inner.lower().removeprefix("direction=")
        if direction not in ("up", "down"):
            raise ItemError("bad_value", f"scroll: expected up or down, found {inner[:60]!r}", word)
        return [Scroll(direction=direction)]
    keys = tuple(key.strip().lower() for key in inner.split("+"))
    if len(keys) > 3:
        raise ItemError("no_counterpart", f"{len(keys)} keys at once", word)
    return [pressed(keys)]
