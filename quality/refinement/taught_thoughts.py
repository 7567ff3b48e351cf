"""Thoughts written by a teacher that sees the true action, and kept only where a second reading comes to it, too.

Aguvis: 1. a model is shown the goal, the actions before, the screen with the true action drawn, and writes the thought
that leads to it. 2. The thought is held against the action by rules (`quality.evidence.consistency`), for free. 3. A
second reading sees the bare screen and the thought, nothing else, and names the one action that the thought asks for;
it must be the true one. What fails is declined, and the step stays without a thought, as it was. Steps that have a
thought of their own keep it. Whose a thought is stands in the row's provenance.

Can't see: a thought that is right by luck, and screens without a picture, which aren't asked about.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from quality.evidence.consistency import check_thought
from quality.evidence.steps import POINT_MARGIN, hit, point_of
from quality.evidence.words import plain
from quality.items.item import Episode, Row, Step, episodes_of, provenance
from quality.items.screens import ScreenBank
from quality.judges.openai_judge import drawn
from quality.judges.orders import without_orders
from quality.model_client.client import CheckedAnswer, ModelClient, Request, data_block
from quality.model_client.questions import GUARD
from schemas.action_types import CallUser, Drag, Finished, Hotkey, Launch, Scroll, SelectOption, Type, direction_of
from schemas.actions import Action, format, parse_reply
from schemas.ids import canonical_json, digest
from schemas.tables import Steps

EARLIER_ACTIONS = 5
MOST_THOUGHT = 1200
"""Characters; a longer one tells a story instead of a reason."""
NEAR = 40
"""Units of 0..1000 by which two points of one target may differ where nobody knows its box."""
TEACHER_RUBRIC = (
    f"You write training data for GUI agents. {GUARD} Answer with JSON of the given schema only.\n"
    "The screenshot shows the screen before an action, which is drawn on it and is the right one. thought: what an "
    "agent that doesn't know the answer would think before it, in one to three sentences in the goal's language: what "
    "shows, what is still to be done, and as the last sentence what it does next, naming the element, text or "
    "direction. Never mention the drawing, coordinates or that the action is known."
)
READER_RUBRIC = (
    f"You carry out what an agent decided. {GUARD} Answer with JSON of the given schema only.\n"
    "The screenshot shows the screen, the thought what the agent decided. action: the one action that the thought asks "
    "for, as a call: Click(box=(x,y)), LongPress(box=(x,y)), DoubleClick(box=(x,y)), Hover(box=(x,y)), "
    "Drag(start=(x,y), end=(x,y)), Scroll(direction='down'), Type(content='…'), Launch(app='…'), Hotkey(key=['ctrl', "
    "'c']), Wait(), PressBack(), PressHome(), PressEnter(), PressRecent(), CallUser(content='…'), Finished(); x and y "
    "in 0..1000 of the picture. Where the thought leaves it open, or asks for nothing: none."
)
VERSION = f"thoughts-1-{digest([TEACHER_RUBRIC, READER_RUBRIC])[:8]}"
"""Of the two prompts: goes into the provenance of every thought that was written by them."""
Declined = str
"""Why a thought was declined: empty, rules, reading or unanswered."""


@dataclass
class TaughtThoughts:
    """Rows with the thoughts that passed, in the order given; `declined`: reason → number; `written`: how many."""

    rows: list[Row]
    written: int = 0
    declined: Counter[Declined] = field(default_factory=Counter)

    @property
    def counts(self) -> Counter[str]:
        """`thought:written`, and `thought:declined:<reason>` for each there is."""
        declined = {f"thought:declined:{why}": number for why, number in self.declined.items()}
        return Counter({"thought:written": self.written, **declined})


@dataclass(frozen=True, slots=True)
class ThoughtTeachers:
    """Which model writes thoughts, and which reads them again; both behind one endpoint."""

    base_url: str
    model: str
    reader: str

    @contextlib.contextmanager
    def clients(self, cache: Path) -> Iterator[tuple[ModelClient, ModelClient]]:
        """(who writes, who reads), with their answers kept in `cache`; closed whatever happens, as others may wait for
        its files."""
        with contextlib.ExitStack() as stack:
            made = [ModelClient(self.base_url, name, cache) for name in (self.model, self.reader)]
            for client in made:
                stack.callback(client.close)
            yield made[0], made[1]


def teach_thoughts(
    rows: Sequence[Row], bank: ScreenBank, teacher: ModelClient, reader: ModelClient | None = None
) -> TaughtThoughts:
    """Rows of `steps` → the same with thoughts where they had none. `reader` None: the teacher reads again, which sees
    its own habits; another model is the better second reading. Raises `ModelError` where the endpoint fails."""
    reader = reader or teacher
    taught = TaughtThoughts([dict(row) for row in rows])
    by_key = {_key(row): row for row in taught.rows}
    asked = [
        (episode, step)
        for episode in episodes_of(pa.Table.from_pylist(list(rows), Steps.schema), bank)
        for step in episode.actions
        if step.screen is not None and not step.row["thought"]
    ]
    answers = teacher.ask_all([_teacher_request(episode, step) for episode, step in asked])
    passed: list[tuple[Step, str]] = []
    for (_, step), answer in zip(asked, answers, strict=True):
        thought, why = _written(step, answer)
        if why:
            taught.declined[why] += 1
        else:
            passed.append((step, thought))
    readings = reader.ask_all([_reader_request(step, thought) for step, thought in passed])
    for (step, thought), answer in zip(passed, readings, strict=True):
        if not isinstance(answer, CheckedAnswer):
            taught.declined["unanswered"] += 1
        elif not reads_as(answer.fields["action"], step):
            taught.declined["reading"] += 1
        else:
            row = by_key[_key(step.row)]
            origin = {"by": teacher.model, "read_by": reader.model, "prompts": VERSION}
            row["thought"] = thought
            row["provenance"] = canonical_json(provenance(row) | {"thought": origin})
            taught.written += 1
    return taught


def reads_as(said: str, step: Step) -> bool:
    """Whether a reading names a step's true action: the same type, and the same element, text or direction."""
    read = parse_reply(said).action
    return read is not None and step.action is not None and same_action(read, step.action, step)


def same_action(read: Action, true: Action, step: Step) -> bool:
    """Whether two actions come to the same on a step's screen."""
    if type(read) is not type(true):
        return False
    if isinstance(true, Scroll) and isinstance(read, Scroll):
        return direction_of(read) == direction_of(true)
    if isinstance(true, Type | SelectOption | Launch):
        return plain(_text(read)) == plain(_text(true)) and _same_target(read, step)
    if isinstance(true, Drag) and isinstance(read, Drag):
        return _near(read.start, true.start) and _near(read.end, true.end)
    if isinstance(true, Hotkey):
        return read == true
    # what is said at an end or to a person may be worded otherwise
    return isinstance(true, Finished | CallUser) or _same_target(read, step)


def _text(action: Action) -> str:
    return getattr(action, "content", "") or getattr(action, "option", "") or getattr(action, "app", "")


def _same_target(read: Action, step: Step) -> bool:
    """Whether a point is that of the step: in its target box, in the element that it hits, else near it."""
    point, true = getattr(read, "box", None), point_of(step)
    if point is None or true is None:
        return point is true
    box = step.row["target_box"]
    if box is not None:
        return bool(box[0] - POINT_MARGIN <= point[0] <= box[2] + POINT_MARGIN) and bool(
            box[1] - POINT_MARGIN <= point[1] <= box[3] + POINT_MARGIN
        )
    element = hit(step.screen.elements, true, POINT_MARGIN) if step.screen is not None else None
    return element.holds(point, POINT_MARGIN) if element is not None else _near(point, true)


def _near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return abs(one[0] - other[0]) <= NEAR and abs(one[1] - other[1]) <= NEAR


def _key(row: Row) -> tuple[str, str, int]:
    return row["source"], row["episode_id"], row["step_index"]


def _teacher_request(episode: Episode, step: Step) -> Request:
    """The question for a thought: it shows the true action."""
    assert step.screen is not None and step.action is not None
    before = [str(s.row["action_text"])[:200] for s in episode.actions if s.row["step_index"] < step.row["step_index"]]
    text = "\n".join(
        (
            data_block("goal", episode.instruction),
            data_block("earlier_actions", before[-EARLIER_ACTIONS:]),
            data_block("step_instruction", step.row["step_instruction"]),
            data_block("action", format(step.action)),
        )
    )
    return Request(VERSION, TEACHER_RUBRIC, text, (drawn(step.screen, step.action, step.row),), {"thought": str})


def _reader_request(step: Step, thought: str) -> Request:
    """The question for the action of a thought: it shows neither the goal nor the true action."""
    assert step.screen is not None
    return Request(
        VERSION, READER_RUBRIC, data_block("thought", thought), (drawn(step.screen, None, None),), {"action": str}
    )


def _written(step: Step, answer: object) -> tuple[str, Declined]:
    """(the thought, why it is declined or "") of the teacher's answer."""
    if not isinstance(answer, CheckedAnswer):
        return "", "unanswered"
    thought = without_orders(" ".join(str(answer.fields["thought"]).split()))
    if not thought or len(thought) > MOST_THOUGHT:
        return "", "empty"
    assert step.action is not None
    elements = step.screen.elements if step.screen is not None else ()
    return thought, "rules" if check_thought(thought, step.action, elements).agrees is False else ""
