"""Sources that publish single steps as rows: each step an episode of one, its history left where it was written."""

import re
from collections.abc import Iterable
from typing import Any

from pipelines.mapping.adapter import Mapped, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor
from pipelines.mapping.fullest_list import keep_fullest
from pipelines.mapping.items import ItemError, is_text, notices, picture_bytes, unknown_fields
from pipelines.native.calls import OTHER, Vocabulary, read_calls
from schemas.ids import digest

GOAL = re.compile(
    r"Instruction:(?P<goal>.*?)(?:\n[^\S\n]*Previous actions?:(?P<before>.*))?\Z", re.DOTALL | re.IGNORECASE
)
THINK = re.compile(r"<think>(?P<think>.*?)</think>", re.DOTALL)
CODE = re.compile(r"<code>(?P<code>.*?)</code>", re.DOTALL)
_PAIR = frozenset({"system", "user", "assistant"})
_NO_HISTORY = ("", "none", "none.")


def goal_of(text: str) -> tuple[str, bool]:
    """(goal, whether steps came before) of `… Instruction: <goal> Previous actions: …`; a text without is a goal."""
    match = GOAL.search(text)
    if match is None:
        return text.strip(), False
    before = match["before"]
    return match["goal"].strip(), before is not None and before.strip().lower() not in _NO_HISTORY


def one_step(
    descriptor: Descriptor,
    record: Record,
    place: int,
    *,
    episode_id: str,
    goal: str,
    code: str,
    screen: RecordScreen,
    vocabulary: Vocabulary,
    platform: str,
    native: object,
    follows: bool = False,
    thought: str | None = None,
    step_instruction: str | None = None,
) -> Mapped:
    """One native step → the rows of an episode of its own (several where it holds several calls), or a reject.

    `follows` says that the source had steps before this one: the row is marked as one after a gap, so that nothing
    takes its history for empty.
    """
    builder = EpisodeBuilder(descriptor, record, episode_id=episode_id, instruction=goal, platform=platform)
    try:
        if not goal or not is_text(goal):
            raise ItemError("empty_text" if not goal else "bad_value", "no goal that can be read", OTHER)
        mapped = read_calls(code, vocabulary)
    except ItemError as error:
        builder.reject(error.reason, native=native, native_index=place, word=error.word, detail=error.detail)
        return builder.finish()
    if follows:
        builder.gap("steps_before_are_rows_of_their_own")
    builder.take(mapped, native, place, screen, thought=thought, step_instruction=step_instruction)
    return builder.finish()


def map_pairs(
    descriptor: Descriptor, record: Record, *, platform: str, vocabulary: Vocabulary, known: frozenset[str]
) -> Mapped:
    """A row of the converted Aguvis sets (`images`, `texts` of user and assistant) → an episode for each pair.

    Of several pictures the last is the current one. Raises `RecordError`: missing_field.
    """
    row: dict[str, Any] = record.payload
    texts, images = row.get("texts"), row.get("images")
    if not isinstance(texts, list) or not texts:
        raise RecordError("missing_field", f"texts: expected a list of pairs, found {str(texts)[:60]!r}")
    last = images[-1] if isinstance(images, list) and images else None
    screen = RecordScreen.load(picture_bytes(last), normalised=True)
    # By its content: rows have no id.
    name = digest(row)[:24]
    found = unknown_fields(row, known)
    actions = []
    for place, pair in enumerate(texts):
        user, said = (pair.get("user"), pair.get("assistant")) if isinstance(pair, dict) else (None, None)
        goal, follows = goal_of(user) if isinstance(user, str) else ("", False)
        thought, code = thought_and_code(said) if isinstance(said, str) else (None, "")
        actions.append(
            one_step(
                descriptor,
                record,
                place,
                # Each pair is an episode: nothing says that they follow each other.
                episode_id=f"{name}/{place}",
                goal=goal,
                code=code,
                screen=screen,
                vocabulary=vocabulary,
                platform=platform,
                native=pair,
                follows=follows,
                thought=thought,
            )
        )
        found += unknown_fields(pair, _PAIR) if isinstance(pair, dict) else []
    return notices(together(actions), found)


def together(parts: Iterable[Mapped]) -> Mapped:
    """The episodes of one record."""
    whole = Mapped()
    for part in parts:
        whole.items += part.items
        whole.mapped += part.mapped
        whole.steps += part.steps
        for screen in part.screens.values():
            keep_fullest(whole.screens, screen)
        whole.rejects += part.rejects
        whole.losses += part.losses
    return whole


def thought_and_code(text: str) -> tuple[str | None, str]:
    """`<think>…</think> <code>…</code>` → (thought, code); without the tags the whole text is code."""
    thought, code = THINK.search(text), CODE.search(text)
    said = thought["think"].strip() if thought else ""
    # Without tags all that isn't thought is code.
    return said if said and is_text(said) else None, (code["code"] if code else THINK.sub("", text)).strip()
